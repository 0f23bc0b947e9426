"""A commentary is learned, shown and used again from the command line."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.trained import PLAIN, content, one_line, pictures, run, same
from tutelage.commentaries import load_commentary, read_card
from tutelage.models import build_student
from tutelage_cli.commentary import algorithms
from tutelage_cli.commentary.learn import command_line
from tutelage_cli.commentary.settings import LEARNED, LearnSettings
from tutelage_cli.commentary.show import stand_in

SHORT = ["--steps", "2", "--episodes", "2", "--batch-size", "8", "--held-out", "9"]


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def learned(pets: Path, out: str, *words: object) -> dict[str, torch.Tensor]:
    answer = run("commentary", "learn", pets, *SHORT, *words, "--out", out)
    assert answer.code == 0, answer
    assert "episode 2 of 2: held-out loss" in answer.out
    return load_file(Path(out) / "weights.safetensors")


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize("algorithm", ["unroll", "implicit"])
@pytest.mark.parametrize("teacher", LEARNED)
def test_every_teacher_is_learned_shown_and_trains_another_student(pets, teacher, algorithm):
    learned(pets, "it", "--teacher", teacher, "--algorithm", algorithm)
    assert not Path("it.learning").exists()
    answer = run("commentary", "show", "it", "--data", pets)
    assert answer.code == 0, answer
    assert f"--teacher {teacher}" in answer.out or teacher == "curriculum"
    warned = algorithm == "implicit" and teacher not in {"curriculum", "blending", "mask"}
    assert answer.out.count("Caution: learned along one run") == warned
    page = Path("it.html").read_text(encoding="utf-8")
    assert 'id="learned"' in page
    assert "default-src 'none'" in page
    assert not re.search(r"<script[^>]* src", page)
    if teacher in {"curriculum", "mask"}:
        assert "data:image/png" in page
    student = "cnn" if teacher == "internal-state" else "cnn4"
    words = ["--epochs", 1, "--seeds", 1, "--held-out", 9, "--batch-size", 8, "--jobs", 1]
    controls = [] if (teacher, algorithm) == ("margin-loss", "unroll") else PLAIN
    answer = run("train", pets, "--commentary", "it", "--student", student, *words, *controls)
    assert answer.code == 0, answer
    assert answer.out.count("Caution: learned along one run") == warned


@pytest.mark.parametrize("algorithm", ["unroll", "implicit"])
def test_learning_that_was_stopped_ends_as_if_it_had_not_been(pets, monkeypatch, algorithm):
    words = ["--teacher", "blending", "--algorithm", algorithm]
    whole = learned(pets, "whole", *words)
    kind = algorithms.ALGORITHMS[algorithm]
    before = kind.episode

    def stopped(self, number):
        if number == 1:
            raise KeyboardInterrupt
        return before(self, number)

    monkeypatch.setattr(kind, "episode", stopped)
    answer = run("commentary", "learn", pets, *SHORT, *words, "--out", "other")
    assert answer.code == 130
    assert "goes on" in answer.out
    assert not Path("other").exists()
    monkeypatch.setattr(kind, "episode", before)
    one_line(
        run("commentary", "learn", pets, *SHORT, "--teacher", "loss", "--out", "other"),
        "other.learning",
        "other settings",
    )
    answer = run("commentary", "learn", pets, *SHORT, *words, "--out", "other")
    assert "episode 1 of 2" not in answer.out
    assert same(whole, load_file("other/weights.safetensors"))
    metrics = [content(Path(of) / "commentary.json")["learnt_on"] for of in ("whole", "other")]
    losses = [of["metrics"]["held_out_loss_first_episode"] for of in metrics]
    assert losses[0] == losses[1]


def test_learning_does_not_go_on_with_another_student_of_the_same_name(pets, monkeypatch):
    own = Path("own.py")
    text = (
        "from torch import nn\n\n\ndef net(classes, channels, size):\n"
        "    hidden = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, WIDTH)]\n"
        "    return nn.Sequential(*hidden, nn.Linear(WIDTH, classes))\n"
    )
    own.write_text(text.replace("WIDTH", "8"))
    words = ["commentary", "learn", pets, *SHORT, "--student", "own.py:net", "--out", "it"]
    words += ["--teacher", "loss"]
    before = algorithms.ALGORITHMS["unroll"].episode

    def stopped(self, number):
        if number == 1:
            raise KeyboardInterrupt
        return before(self, number)

    monkeypatch.setattr(algorithms.ALGORITHMS["unroll"], "episode", stopped)
    assert run(*words).code == 130
    monkeypatch.setattr(algorithms.ALGORITHMS["unroll"], "episode", before)
    own.write_text(text.replace("WIDTH", "16"))
    one_line(run(*words), "--student", "changed since", "delete it.learning", "--out")
    own.write_text(text.replace("WIDTH", "8"))
    assert run(*words).code == 0


@pytest.mark.parametrize("algorithm", ["unroll", "implicit"])
def test_an_error_in_a_resumed_episode_is_shown_as_it_is(pets, monkeypatch, algorithm):
    words = ["--teacher", "loss", "--algorithm", algorithm, "--out", "it"]
    kind, before = algorithms.ALGORITHMS[algorithm], algorithms.ALGORITHMS[algorithm].episode

    def failing(self, number):
        if number == 1:
            raise RuntimeError("the student's own fault")
        return before(self, number)

    monkeypatch.setattr(kind, "episode", failing)
    for _ in range(2):  # in the run itself, and where it goes on
        with pytest.raises(RuntimeError, match=r"^the student's own fault$"):
            run("commentary", "learn", pets, *SHORT, *words)
    assert Path("it.learning/state.pt").exists()
    monkeypatch.setattr(kind, "episode", before)
    assert run("commentary", "learn", pets, *SHORT, *words).code == 0


def test_a_seed_gives_the_same_commentary_and_another_seed_another(pets):
    words = ["--teacher", "blending", "--seed"]
    one, two, other = (learned(pets, f"{n}", *words, n // 2) for n in range(3))
    assert same(one, two)
    assert not same(one, other)


WRONG = {
    "teacher": (["--teacher", "blend"], ["'blend'", "Did you mean 'blending'?"]),
    "episodes": (["--episodes", 0], ["episodes", "at least 1"]),
    "rate": (["--teacher-lr", -1], ["--teacher-lr", "above 0"]),
    "a level of other weights": (["--level", "centred"], ["level", "curriculum"]),
    "sigma without masks": (["--sigma", 3], ["sigma", "curriculum"]),
    "student": (["--student", "rezn20"], ["'rezn20'", "resnet20"]),
    "batch": (["--batch-size", 400], ["--batch-size", "400"]),
    "held out": (["--held-out", 400], ["--held-out 400", "48"]),
    "noise": (["--noise", "flip9:1"], ["flip9"]),
    "device": (["--device", "tpu"], ["'tpu'", "cuda"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_of_learn_is_told_in_one_line_and_leaves_nothing(pets, tmp_path, name):
    flags, parts = WRONG[name]
    taken = set(flags)
    pairs = zip(SHORT[::2], SHORT[1::2], strict=True)
    kept = [word for pair in pairs if pair[0] not in taken for word in pair]
    answer = run("commentary", "learn", pets, *kept, *flags)
    one_line(answer, *parts)
    of_the_data = name in {"batch", "held out"}
    assert answer.out == ("Reading the data ...\n" if of_the_data else "")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_commentary_that_is_there_is_not_replaced(pets):
    learned(pets, "it", "--teacher", "loss")
    one_line(run("commentary", "learn", pets, *SHORT, "--out", "it"), "it exists", "--out")
    learned(pets, "it", "--teacher", "blending", "--overwrite")
    assert read_card(Path("it"))["teacher"] == "Blending"
    Path("other").mkdir()
    Path("other/mine").touch()
    words = ("commentary", "learn", pets, *SHORT, "--out", "other", "--overwrite")
    one_line(run(*words), "other holds something that is not a commentary")
    assert [path.name for path in Path("other").iterdir()] == ["mine"]


@pytest.mark.usefixtures("report_in_a_word")
def test_the_card_records_the_gain_beside_the_controls_of_a_run(pets):
    learned(pets, "it", "--teacher", "loss")
    answer = run("commentary", "card", "it")
    assert answer.code == 0, answer
    assert "Not recorded: gain in test accuracy." in answer.out
    words = ["--epochs", 1, "--seeds", 2, "--held-out", 9, "--batch-size", 8, "--jobs", 1]
    words += ["--controls", "early-stopped", "--out", "run"]
    assert run("train", pets, "--commentary", "it", *words).code == 0
    answer = run("commentary", "card", "it", "--run", "run", "--student", "a student")
    assert answer.code == 0, answer
    assert "The card says all that others need." in answer.out
    arms = content(Path("run/summary.json"))["arms"]
    mean = {arm: sum(of["test_accuracy"] for of in arms[arm]) / 2 for arm in arms}
    gains = read_card(Path("it"))["learnt_on"]["gains"]
    assert gains.keys() == {"untaught", "early-stopped"}
    for arm, gain in gains.items():
        assert gain == pytest.approx(100 * (mean["commentary"] - mean[arm]), abs=0.01)
    readme = Path("it/README.md").read_text(encoding="utf-8")
    assert "| Student | a student |" in readme
    assert "number of seeds: 2" in readme
    answer = run("commentary", "show", "it")
    assert "gain in test accuracy: " in answer.out
    one_line(run("commentary", "card", "it", "--run", "nowhere"), "nowhere")
    learned(pets, "other", "--teacher", "loss")
    one_line(run("commentary", "card", "other", "--run", "run"), "no run with", "--commentary")


@pytest.mark.usefixtures("report_in_a_word")
def test_the_commentary_of_a_run_says_what_it_gained_there(pets):
    words = ["--epochs", 1, "--seeds", 1, "--held-out", 9, "--batch-size", 8, "--jobs", 1]
    words += ["--controls", "none", "--teacher", "margin-loss", "--out", "run"]
    assert run("train", pets, *words).code == 0
    came = read_card(Path("run/commentary"))["learnt_on"]
    arms = content(Path("run/summary.json"))["arms"]
    gain = arms["margin-loss"][0]["test_accuracy"] - arms["untaught"][0]["test_accuracy"]
    assert came["gains"] == {"untaught": pytest.approx(100 * gain, abs=0.01)}
    assert came["seeds"] == [0]
    assert came["signal"].startswith("Reversible(")
    readme = Path("run/commentary/README.md").read_text(encoding="utf-8")
    assert "not recorded" not in readme.lower()
    assert "Caution: learned along one run" in readme


def test_images_that_do_not_fit_are_told(pets, tmp_path):
    colour = pictures(tmp_path / "colour", mode="RGB")
    learned(pets, "it")
    one_line(run("commentary", "show", "it", "--data", colour), "it", "does not fit")
    one_line(run("commentary", "show", "nowhere"), "nowhere", "no commentary")
    smaller = pictures(tmp_path / "smaller", size=14)  # as wide to the last layer as 16
    told = "does not fit", "16x16 pixels", "14x14", "tutelage commentary learn"
    one_line(run("commentary", "show", "it", "--data", smaller), *told)
    one_line(run("train", smaller, "--commentary", "it", *SHORT[-4:]), *told)


def test_a_run_named_instead_of_its_commentary_is_told(pets):
    learned(pets, "run/commentary", "--teacher", "loss")
    one_line(run("commentary", "show", "run"), "no commentary", "Did you mean run/commentary?")


def test_without_images_a_curriculum_says_what_to_give(pets):
    learned(pets, "it")
    answer = run("commentary", "show", "it", "--out", "new/page.html")
    assert answer.code == 0, answer
    assert "Give --data" in Path("new/page.html").read_text(encoding="utf-8")


def test_a_module_with_nested_taps_stands_in_for_a_student():
    made = stand_in({"tap": "a.b.c", "keeps": {"settings": {"tap": "a.d"}}})
    assert {"a.b.c", "a.d"} <= dict(made.named_modules()).keys()


def test_stored_internal_state_loads_into_a_student_of_the_same_width(pets):
    learned(pets, "it", "--teacher", "internal-state")
    student = build_student("cnn", classes=3, channels=1, size=16, seed=1)
    assert load_commentary("it", student, classes=("cat", "dog", "emu")) is not None


def test_the_command_that_is_kept_names_every_label_to_ignore():
    asked = LearnSettings("my images", ignore_labels=("255", "none"), steps=3)
    kept = shlex.split(command_line(asked))
    assert kept[3:] == ["my images", "--steps", "3", "--ignore-labels", "255", "none"]
    assert "ignore" not in command_line(LearnSettings())
