"""A run that is killed at random moments, each time resumed, and compared with an unbroken one.

    python -m tests.cli.train.killing FOLDER --kills 20 --seed 0 [--processes] [--jobs 2]

Children are forked from a process that has imported everything, or, with ``--processes``, are
``python -m tutelage_cli.cli`` from its first line on. A run that comes to its end before its
next kill is compared, and another one begins.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from tests.trained import QUICK, assert_same_run, found, pictures
from tutelage_cli import cli, report
from tutelage_cli.train import student_training

TAUGHT = ["--teacher", "margin-loss", "internal-state", "--noise", "uniform:0.6"]
Start = Callable[[Sequence[str], int], int]
"""starts a child with words of the command line and the number of kills before; gives its id"""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def child(act: Callable[[], int]) -> int:
    """Start ``act`` in a fork of this process that ends with its exit code; the fork's id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 70
        with contextlib.suppress(BaseException), Path(os.devnull).open("w") as nowhere:
            sys.stdout = nowhere
            code = act()
        os._exit(code)
    return pid


def forked(words: Sequence[str], number: int) -> int:
    """Every second child saves after each step, so that many a kill falls into a save."""

    def act() -> int:
        if number % 2:
            student_training.POLL_EVERY = student_training.SAVE_EVERY = -1.0
        return cli.main(words)

    return child(act)


def processes(words: Sequence[str], _: int) -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", "tutelage", *words],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.returncode = 0  # this process is waited for below
    return process.pid


def ended(pid: int, *, within: float | None) -> int | None:
    """The exit code of a child; None where it still runs after so many seconds."""
    end = None if within is None else time.monotonic() + within
    while True:
        done, status = os.waitpid(pid, 0 if end is None else os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() > end:
            return None
        time.sleep(0.002)


def killed_again_and_again(
    folder: Path, words: list[str], *, kills: int, seed: int, start: Start, longest: float
) -> list[Path]:
    """Run, kill and resume until there were so many kills, and then to the end.

    Returns the runs that came to their end; the last one after the last kill.
    """
    draw, runs, done = random.Random(seed), [folder / "run-0"], 0
    while True:
        run = runs[-1]
        begun = (run / "settings.json").exists()
        pid = start(["train", "--resume", str(run)] if begun else [*words, str(run)], done)
        moment = draw.uniform(0, longest) if done < kills else None
        code = ended(pid, within=moment)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            code = ended(pid, within=None)
            if code == -signal.SIGKILL:
                done += 1
                state = sorted((run / "students").glob("*/checkpoint/state.pt"))
                say(f"kill {done} after {moment:.2f} s: {len(state)} checkpoints")
                continue
        assert code == 0, code
        if done >= kills:
            return runs
        runs.append(folder / f"run-{len(runs)}")


def compare(whole: Path, run: Path) -> None:
    """The same metrics, weights, teachers and tables to the bit, and no file more or less."""
    assert_same_run(whole, run)
    one, other = (found(of) for of in (whole, run))
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    stored = [name for name in one if name.endswith("weights.safetensors")]
    assert stored
    assert all(one[name] == other[name] for name in stored)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", default="4")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--processes", action="store_true")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    report.write = lambda _, path: path.write_text(
        "report"
    )  # drawing takes longer than the run
    pets, whole = pictures(asked.folder / "pets"), asked.folder / "whole"
    options = [*QUICK[2:-1], asked.jobs, "--epochs", asked.epochs, *TAUGHT, "--out"]
    words = ["train", str(pets), *options]
    assert cli.main([*words, str(asked.folder / "warm")]) == 0  # late imports are there then
    start, began = processes if asked.processes else forked, time.monotonic()
    assert ended(start([*words, str(whole)], 0), within=None) == 0
    longest = time.monotonic() - began
    say(f"unbroken: {longest:.2f} s")
    runs = killed_again_and_again(
        asked.folder, words, kills=asked.kills, seed=asked.seed, start=start, longest=longest
    )
    for run in runs:
        compare(whole, run)
    say(f"{asked.kills} kills, {len(runs)} runs, all like the unbroken one")


if __name__ == "__main__":
    main()
