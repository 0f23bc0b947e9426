"""What tests of the command line share: tiny data, short runs, how two runs are compared."""

import contextlib
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import Tensor

from papers.__main__ import main as papers_main
from tests.type_checks import unchecked as unchecked
from tutelage.crossfit.fold_settings import VERSION
from tutelage.storage.checkpoint import digest
from tutelage_cli import report
from tutelage_cli.cli import main
from tutelage_cli.train import report_content

PLAIN = ["--controls", "none"]
QUICK = ["--epochs", "2", "--seeds", "1", "--held-out", "9", "--batch-size", "8"]
QUICK += [*PLAIN, "--jobs", "1"]
"""on the sixty images of ``pictures``: 39 to train on, five steps in each of two epochs, beside
an untaught student alone"""


class Answer(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


def pictures(
    root: Path,
    classes: Sequence[str] = ("cat", "dog", "emu"),
    *,
    count: int = 20,
    size: int = 16,
    mode: str = "L",
    seed: int = 0,
) -> Path:
    """A folder of noise, ``count`` images in each class, every class a little brighter."""
    random = np.random.default_rng(seed)
    shape = (size, size, 3) if mode == "RGB" else (size, size)
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for place in range(count):
            pixels = random.integers(0, 150, shape) + 100 * number // len(classes)
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{place:02}.png")
    return root


def run(*words: object) -> Answer:
    """Run the command line in this process."""
    return _run(main, words)


def run_papers(*words: object) -> Answer:
    """Run ``python -m papers`` in this process."""
    return _run(papers_main, words)


def _run(main: Callable[[Sequence[str]], int], words: Sequence[object]) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        except KeyboardInterrupt:  # would end the test session
            code, _ = -2, err.write("Traceback: KeyboardInterrupt")
    return Answer(code, out.getvalue(), err.getvalue())


def one_line(answer: Answer, *parts: object) -> None:
    """Wrong use was told as it should be: code 2 and one line that holds these parts."""
    assert answer.code == 2, answer
    assert answer.err.startswith(("tutelage: ", "papers: "))
    assert answer.err.count("\n") == 1
    for part in parts:
        assert str(part) in answer.err


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Reports hold one word: to draw one takes longer than a quick run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_content, "run_content", lambda *_: None)
        patch.setattr(report, "write", lambda _, path: path.write_text("report"))
        yield


def found(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their path there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def without_seconds(value: Any) -> Any:
    """Plain values without those that no two runs share."""
    if isinstance(value, dict):
        left_out = {"seconds", "ratio", "memory"}
        return {k: without_seconds(v) for k, v in value.items() if k not in left_out}
    if isinstance(value, str):  # a sentence of the verdict
        return re.sub(r"[\d.,]+ times the time", "", value)
    return [without_seconds(item) for item in value] if isinstance(value, list) else value


def checkpoint(student: Path) -> dict[str, Any]:
    """The content of a student's checkpoint, read safely."""
    return torch.load(student / "checkpoint" / "state.pt", weights_only=True)


def same(one: Any, other: Any) -> bool:
    """Whether two nests of plain values and tensors are equal to the bit."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and one.equal(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def lines(student: Path) -> list[dict[str, Any]]:
    """What a student's ``metrics.jsonl`` says."""
    text = (student / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def content(file: Path) -> Any:
    """What a JSON file says; NaN is not JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{file} holds {constant}, which is not JSON")

    return json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)


def students(folder: Path) -> list[Path]:
    """The folders of a run's students."""
    return sorted((folder / "students").iterdir())


def assert_same_run(one: Path, other: Path) -> None:
    """Both runs trained the same students to the bit and found the same."""
    assert [s.name for s in students(one)] == [s.name for s in students(other)]
    for a, b in zip(students(one), students(other), strict=True):
        assert same(without_seconds(checkpoint(a)), without_seconds(checkpoint(b))), a.name
        tables = [sorted(path.name for path in of.glob("*.parquet")) for of in (a, b)]
        assert tables[0] == tables[1]
        assert "examples.parquet" in tables[0]
        for table in tables[0]:
            assert pq.read_table(a / table).equals(pq.read_table(b / table)), a.name
        assert without_seconds(content(a / "result.json")) == without_seconds(
            content(b / "result.json")
        )
        assert without_seconds(lines(a)) == without_seconds(lines(b))
    summaries = [without_seconds(content(run_ / "summary.json")) for run_ in (one, other)]
    assert summaries[0] == summaries[1]


def of_version(run_: Path, *version: int, seeds: Sequence[int] = (0,)) -> None:
    """Mark what students of folds predict as of a version of cross-fitting; (): of none."""
    for seed in seeds:
        student = run_ / "students" / f"untaught-seed{seed}"
        tables = [
            pq.read_table(student / f"{part}.parquet") for part in ("examples", "held-out")
        ]
        parts = [torch.tensor(t[name].to_numpy()) for t in tables for name in ("id", "given")]
        for file in (run_ / "folds").glob(f"*-seed{seed}-*/out-of-fold.npz"):
            with np.load(file) as stored:
                kept = dict(stored)
            assert str(kept["content"]) == digest([VERSION, *parts])
            kept["content"] = np.array(digest([*version, *parts]))
            np.savez(file, allow_pickle=False, **kept)


def unfinished(whole: Path, copy: Path, student: str = "") -> Path:
    """A copy of a finished run in which one student (or the last) has lost its result."""
    shutil.copytree(whole, copy)
    chosen = copy / "students" / student if student else students(copy)[-1]
    (chosen / "result.json").unlink()
    return chosen


def at_call(function: Callable[..., Any], number: int, act: Callable[[], object]) -> Any:
    """The function, but ``act`` comes just before its call of that number, from 1."""
    calls = 0

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        return function(*args, **kwargs)

    return counting
