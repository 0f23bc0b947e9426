"""What commands print: progress with figures, a quiet result, or one JSON document."""

import json
import re
import shutil

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.trained import QUICK, content, run
from tutelage_cli.commentary.display import Episodes
from tutelage_cli.terminal import Pace, clock, listed, roughly
from tutelage_cli.train import study
from tutelage_cli.train.display import Display, figures
from tutelage_cli.train.job import Job
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.step_seconds import Work

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def test_a_pipe_gets_a_line_for_each_student_with_its_figures(copy) -> None:
    answer = run("train", "--resume", copy)
    assert answer.code == 0, answer
    assert not CONTROL.search(answer.out)
    lines = answer.out.splitlines()
    assert (
        "training 3 students of 10 steps each: untaught, margin-loss, internal-state" in lines
    )
    for arm in ("untaught", "margin-loss"):
        last = json.loads(
            (copy / f"students/{arm}-seed0/metrics.jsonl").read_text().split("\n")[1]
        )
        line = next(line for line in lines if line.startswith(f"trained {arm}, seed 0"))
        assert f"epoch 2/2, test {100 * last['test_accuracy']:.1f}%" in line
        assert ("weights right" in line) == (arm != "untaught")
    assert any("3 of 3 students; 100% of all steps" in line for line in lines)


@pytest.mark.usefixtures("report_in_a_word")
def test_quiet_prints_the_result_alone_and_json_one_document(copy) -> None:
    loud = run("train", "--resume", copy)
    quiet = run("train", "--resume", copy, "--quiet")
    assert quiet.out
    assert quiet.out in loud.out
    assert "trained" not in quiet.out
    assert quiet.err == ""
    told = run("train", "--resume", copy, "--json")
    found = json.loads(told.out)
    assert found == {"run": str(copy)} | content(copy / "summary.json")
    assert "trained margin-loss" in told.err
    both = run("train", "--resume", copy, "--json", "--quiet")
    assert json.loads(both.out) == found
    assert both.err == ""


@pytest.mark.usefixtures("report_in_a_word")
def test_lines_do_not_depend_on_the_width(copy, monkeypatch) -> None:
    told = []
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = run("train", "--resume", copy).out.splitlines()
        told.append([line for line in lines if line.startswith("trained ")])
    assert len(told[0]) == 3
    assert [line.partition("; ")[0] for line in told[0]] == [
        line.partition("; ")[0] for line in told[1]
    ]
    assert all("100%" in line for line in told[0] + told[1])


def test_how_long_still_is_told_once_something_is_done(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tutelage_cli.terminal.time.monotonic", lambda: now[0])
    pace = Pace()
    now[0] += 30
    assert pace.left(0, 10) == ""
    assert pace.left(3, 10) == "about 1:10 left"
    assert pace.left(10, 10) == ""
    assert [clock(s) for s in (0, 9.6, 61, 3723)] == ["0:00", "0:10", "1:01", "1:02:03"]
    assert listed("a", "", "b") == "a; b"


@pytest.mark.parametrize("total", [20, 100])
@pytest.mark.parametrize("slower", [0.5, 2.0])
def test_the_pace_follows_a_change_of_the_load(monkeypatch, total, slower) -> None:
    # settled after a tenth of the work, or four pieces
    now, pieces = [0.0], max(4, total // 10)
    monkeypatch.setattr("tutelage_cli.terminal.time.monotonic", lambda: now[0])
    pace = Pace()
    for done in range(1, total):
        each = 100.0 if done <= total // 2 else 100.0 * slower
        now[0] += each
        left = pace.left(done, total).removeprefix("about ").removesuffix(" left")
        seconds = 0.0
        for part in left.split(":"):
            seconds = 60 * seconds + float(part)
        if not total // 2 < done < total // 2 + pieces:
            assert 1 / 1.5 <= seconds / (each * (total - done)) <= 1.5, done


def test_a_run_begins_with_its_plan(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tutelage_cli.train.display.POLL_EVERY", 0.01)
    jobs = [Job(tmp_path, "untaught", seed, TrainSettings(seeds=3)) for seed in range(3)]
    plans = {
        400.0: "3 students of 2,000 steps each: untaught; 2 at a time, about 13 min; "
        "--seeds 1 for a first run of about 4 min",
        20.0: "3 students of 2,000 steps each: untaught; 2 at a time, about 40 s",
        float("nan"): "3 students of 2,000 steps each: untaught",
    }
    for seconds, plan in plans.items():
        with (tmp_path / "out").open("w", encoding="utf-8") as file:
            console = Console(file=file, width=80)
            with Display(console).watching([dict.fromkeys(jobs, Work(2000, seconds))], 2):
                pass
        assert (tmp_path / "out").read_text(encoding="utf-8") == f"training {plan}\n"
    assert [roughly(s) for s in (0.2, 89, 91, 5399, 5400)] == [
        "about 1 s",
        "about 89 s",
        "about 2 min",
        "about 90 min",
        "about 1.5 h",
    ]


def test_a_teacher_with_few_steps_is_told_of_once(pets, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "run_study", lambda *_: None)  # stopped
    words = ["--teacher", "margin-loss", "focal", "--out", "run"]
    answer = run("train", pets, *QUICK, *words)
    said = [line for line in answer.out.splitlines() if "--teacher-every" in line]
    assert said == [
        "margin-loss takes 2 steps only in 10 student steps, which is little to learn from: "
        "give more --epochs, or a smaller --teacher-every or --batch-size."
    ]
    enough = run("train", pets, *QUICK, *words[:-1], "other", "--epochs", "50")
    assert "little to learn" not in enough.out


def test_a_damaged_line_of_figures_is_left_out(copy) -> None:
    settings = TrainSettings(epochs=2)
    job = Job(copy, "margin-loss", 0, settings)
    assert figures(job).startswith("epoch 2/2, test ")
    for text in ("", "{", "[]", "3", '{"epoch": "x", "test_accuracy": 1}', '{"epoch": 2}'):
        (job.folder / "metrics.jsonl").write_text(text)
        assert figures(job) == ""
    (job.folder / "metrics.jsonl").write_text(
        '{"epoch": 1, "test_accuracy": 0.5, "weight_right": "x", "weight_wrong": 1}'
    )
    assert figures(job) == "epoch 1/2, test 50.0%"


def test_a_terminal_is_told_of_every_student_and_left_as_it_was(copy, tmp_path) -> None:
    file = (tmp_path / "tty").open("w", encoding="utf-8")
    console = Console(file=file, force_terminal=True, width=80)
    jobs = [Job(copy, arm, 0, TrainSettings(epochs=2)) for arm in ("untaught", "margin-loss")]
    with Display(console).watching([dict.fromkeys(jobs, Work(10, 1.0))], 2):
        pass
    file.close()
    text = (tmp_path / "tty").read_text(encoding="utf-8")
    assert "trained margin-loss, seed 0" in text
    assert "100% of all steps" in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is shown again


def test_episodes_are_shown_with_the_loss_and_some_are_left_out(tmp_path) -> None:
    for terminal in (False, True):
        file = (tmp_path / "out").open("w", encoding="utf-8")
        console = Console(file=file, force_terminal=terminal, width=80)
        with Episodes(console, 40) as episodes:
            for number in range(1, 41):
                episodes.update(number, 1 / number)
        file.close()
        text = (tmp_path / "out").read_text(encoding="utf-8")
        assert "held-out loss 0.0250" in text
        assert bool(CONTROL.search(text)) == terminal
        if not terminal:
            assert len(text.splitlines()) == 11
    assert episodes.losses[0] == 1


def test_a_commentary_and_the_names_are_told_as_json(pets, tmp_path) -> None:
    words = ["--teacher", "loss", "--episodes", "2", "--steps", "2", "--held-out", "9"]
    out = tmp_path / "kept"
    batch = QUICK[QUICK.index("--batch-size") :][:2]
    log = ["--log", "tensorboard"]
    told = run("commentary", "learn", pets, *words, *batch, *log, "--out", out, "--json")
    assert told.code == 0, told
    found = json.loads(told.out)
    assert found["commentary"] == str(out)
    assert len(found["held_out_loss"]) == found["episodes"] == 2
    assert "episode 2 of 2" in told.err
    curves = EventAccumulator(str(tmp_path / "kept.curves" / "tensorboard")).Reload()
    points = curves.Scalars("episode/held_out_loss")
    assert [point.step for point in points] == [1, 2]
    assert [point.value for point in points] == pytest.approx(found["held_out_loss"])
    shown = json.loads(run("commentary", "show", out, "--json").out)
    assert any("LossWeigher" in line for line in shown["lines"])
    assert not any("ignore" in line for line in shown["lines"])
    names = json.loads(run("list", "--json").out)
    assert "margin-loss" in names["teachers"]
    assert "cnn" in names["students"]
