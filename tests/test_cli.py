"""The command line: wrong use costs one clear line; flags come before files and defaults."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import yaml

from tests.trained import QUICK, Answer, found, one_line, pictures, run, unchecked
from tutelage.commentaries import save_commentary
from tutelage.models import TwoBlockCNN, build_student
from tutelage.teachers import Curriculum, InternalState
from tutelage_cli.config.settings_files import to_plain
from tutelage_cli.runner.run_folder import create_run
from tutelage_cli.train import check, material, study
from tutelage_cli.train.settings import TrainSettings


class Place(NamedTuple):
    """Where the commands run, and what lies there."""

    folder: Path
    pets: Path
    """sixty grey images of three classes, 16x16"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Data and commentaries that no test changes."""
    folder = tmp_path_factory.mktemp("made")
    pictures(folder / "pets")
    pictures(folder / "one", ("cat",))
    pictures(folder / "two", ("cat", "dog"))
    pictures(folder / "small", size=8)
    pictures(folder / "dots", size=4)
    pictures(folder / "colour", mode="RGB")
    student = build_student("cnn", classes=7, channels=1, size=32, seed=0)
    save_commentary(InternalState(student, classes=7), folder / "seven")
    save_commentary(Curriculum(TwoBlockCNN(2, 1, 16)), folder / "grey")
    save_commentary(InternalState(student, classes=3, tap="pool"), folder / "wide")
    rows = ["label,other"] + ["cat,dog"] * 48
    (folder / "labels.csv").write_text("\n".join(rows))
    (folder / "short.csv").write_text("\n".join(rows[:10]))
    (folder / "foreign.csv").write_text("label\n" + "\n".join(["horse"] * 48))
    return folder


@pytest.fixture(autouse=True)
def place(made, tmp_path, monkeypatch) -> Iterator[Place]:
    """An empty folder to run in; functions are not type checked, as users run them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with unchecked():
        yield Place(tmp_path, made / "pets")


@pytest.fixture
def settings_of(monkeypatch) -> Callable[..., TrainSettings]:
    """What a command would train with; the data is read, but nothing is trained."""
    seen: list[TrainSettings] = []

    def record(_run: Path, settings: TrainSettings, *_: object) -> None:
        seen.append(settings)

    monkeypatch.setattr(study, "run_study", record)

    def ask(*words: object) -> TrainSettings:
        answer = run(*words)
        assert answer.code == 130, answer
        return seen[-1]

    return ask


WRONG = {
    "no such source": ("no/such/folder", (), ["'no/such/folder'", "mnist5k", "folder"]),
    "name too long": ("x" * 300, (), ["x" * 300]),
    "one class": ("one", (), ["one class only", "'cat'", "two or more"]),
    "noise rate": ("pets", ["--noise", "flip2:1.4"], ["flip2", "1.4", "0..1"]),
    "noise kind": (
        "pets",
        ["--noise", "flip9:0.4"],
        ["'flip9'", "Did you mean 'flip'?", "none, uniform, flip, flip2"],
    ),
    "noise without a rate": ("pets", ["--noise", "flip2"], ["'flip2'", "uniform:0.4"]),
    "flip2 of two classes": ("two", ["--noise", "flip2:0.4"], ["flip2", "3", "uniform"]),
    "held out": ("pets", ["--held-out", 500], ["--held-out 500", "48 training images"]),
    "teacher": (
        "pets",
        ["--teacher", "marginloss"],
        ["'marginloss'", "Did you mean 'margin-loss'?", "internal-state, loss, curriculum"],
    ),
    "no teacher": ("pets", ["--teacher"], ["teacher", "margin-loss"]),
    "student": (
        "pets",
        ["--student", "rezn20"],
        ["'rezn20'", "Did you mean 'resnet20'?", "cnn, cnn4, resnet8", "wrn-D-K"],
    ),
    "tap": (
        "pets",
        ["--tap", "pol", "--teacher", "internal-state"],
        ["'pol'", "Did you mean 'pool'?", "conv1, bn1, conv2, bn2, pool", "fc"],
    ),
    "tap of unknown width": (
        "pets",
        ["--tap", "bn1", "--teacher", "internal-state"],
        ["'bn1'", "--tap"],
    ),
    "a tap that nothing looks at": (
        "pets",
        ["--tap", "pool", "--teacher", "margin-loss"],
        ["tap does nothing", "untaught, margin-loss", "internal-state"],
    ),
    "a tap beside a commentary": (
        "pets",
        ["--tap", "pool", "--commentary", "{made}/seven"],
        ["tap does nothing", "untaught, commentary"],
    ),
    "a level of other weights": (
        "pets",
        ["--level", "centred", "--teacher", "loss"],
        ["level does nothing", "margin-loss, internal-state"],
    ),
    "a metric where nothing learns": (
        "pets",
        ["--metric", "expected-accuracy", "--teacher", "focal", "self-paced"],
        ["metric does nothing", "untaught, focal, self-paced", "mentornet-dd"],
    ),
    "a rate where nothing learns": (
        "pets",
        ["--teacher-lr", 0.1, "--commentary", "{made}/seven"],
        ["--teacher-lr does nothing"],
    ),
    "steps to look back over where only the last counts": (
        "pets",
        ["--unroll-steps", 3, "--teacher", "loss"],
        ["--unroll-steps does nothing", "l2t-loss"],
    ),
    "classes of a commentary": (
        "pets",
        ["--commentary", "{made}/seven"],
        ["{made}/seven", "7 classes", "has 3"],
    ),
    "channels of a commentary": (
        "colour",
        ["--commentary", "{made}/grey"],
        ["{made}/grey", "does not fit", "16x16x3 images (height, width, channels)"],
    ),
    "width of a commentary": (
        "pets",
        ["--commentary", "{made}/wide"],
        ["{made}/wide", "'pool'", "64", "256"],
    ),
    "no commentary": ("pets", ["--commentary", "nowhere"], ["nowhere", "no commentary"]),
    "a file of a commentary": (
        "pets",
        ["--commentary", "{made}/seven/weights.safetensors"],
        ["no commentary", "Did you mean {made}/seven?"],
    ),
    "a commentary and a teacher": (
        "pets",
        ["--commentary", "{made}/seven", "--teacher", "loss"],
        ["instead of loss", "not both"],
    ),
    "labels without a column": (
        "pets",
        ["--labels-from", "{made}/labels.csv"],
        ["--labels-from", "needs --label-column"],
    ),
    "labels of other rows": (
        "pets",
        ["--labels-from", "{made}/short.csv", "--label-column", "label"],
        ["{made}/short.csv", "9 rows", "48"],
    ),
    "labels of no column": (
        "pets",
        ["--labels-from", "{made}/labels.csv", "--label-column", "lable"],
        ["'lable'", "{made}/labels.csv", "label", "other"],
    ),
    "labels of other classes": (
        "pets",
        ["--labels-from", "{made}/foreign.csv", "--label-column", "label"],
        ["'horse'", "cat, dog, emu"],
    ),
    "limit": ("pets", ["--limit", 0], ["limit", "at least 1", "got 0"]),
    "look back": (
        "pets",
        ["--unroll-steps", 9],
        ["--unroll-steps", "9", "5", "--teacher-every"],
    ),
    "momentum too small to look back through": (
        "pets",
        ["--momentum", "1e-6"],
        ["momentum", "--unroll-steps"],
    ),
    "device": ("pets", ["--device", "nonsense"], ["'nonsense'", "cpu", "cuda", "auto"]),
    "device without data": ("pets", ["--device", "meta"], ["'meta'", "cpu", "cuda"]),
    "seeds": ("pets", ["--seeds", -3], ["seeds", "at least 1", "got -3"]),
    "decay": ("pets", ["--decay-at", 2], ["--decay-at", "(0, 1]", "2"]),
    "batch": ("pets", ["--batch-size", 500], ["batch", "500", "39"]),
    "small images": ("small", (), ["8x8", "13x13"]),
    "images smaller than a torchvision student takes": (
        "colour",
        ["--student", "squeezenet1_0", "--teacher", "loss"],
        ["squeezenet1_0", "16x16"],
    ),
    "batch of one": (
        "dots",
        ["--student", "resnet8", "--batch-size", 1],
        ["batch", "1"],
    ),
    "held-out batch of one": (
        "dots",
        ["--student", "resnet8", "--held-out", 1, "--teacher", "loss"],
        ["--held-out 1", "give --held-out 2 or more"],
    ),
}
"""data, flags, and what the one line must say"""


def quick_but(flags: Sequence[str]) -> list[str]:
    """The flags of a short run without those that are given anyway."""
    pairs = zip(QUICK[::2], QUICK[1::2], strict=True)
    return [word for pair in pairs if pair[0] not in flags for word in pair]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_told_in_one_line_and_leaves_nothing_behind(place, made, name):
    data, flags, parts = WRONG[name]
    source = made / data if (made / data[:99]).exists() else data
    flags = [str(flag).format(made=made) for flag in flags]
    answer = run("train", source, *quick_but(flags), *flags)
    one_line(answer, *(part.format(made=made) for part in parts))
    assert list(place.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("pets", ["--student", "rezn20"]),
        ("pets", ["--student", "torchvision:rezn20"]),
        ("pets", ["--student", "timm:rezn20"]),
        ("pets", ["--student", "gone.py:build"]),
        ("pets", ["--student", "own.py:gone"]),
        ("texts.csv", ["--student", "bags"]),
        ("rows.npz", ["--student", "mpl"]),
        ("pets", ["--teacher", "marginloss"]),
        ("pets", ["--controls", "finetuned"]),
    ],
)
def test_unknown_names_are_refused_before_the_data_are_read(place, monkeypatch, data, words):
    (place.folder / "texts.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    np.savez(place.folder / "rows.npz", features=np.eye(20), label=np.arange(20) % 2)
    (place.folder / "own.py").write_text("number = 3\n")

    def read(*_: object) -> None:
        pytest.fail("the data were read")

    monkeypatch.setattr(material, "read_data", read)
    answer = run("train", place.pets if data == "pets" else data, *words)
    one_line(answer, words[1].rpartition(":")[2])
    assert answer.out == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_is_told(place):
    one_line(run("train", place.pets, *QUICK, "--device", "cuda"), "cuda", "cpu")
    assert list(place.folder.iterdir()) == []


def test_output_that_is_taken_is_told_and_left_alone(place):
    create_run(place.folder / "run", {"data": "other"})
    (place.folder / "file").write_text("precious")
    (place.folder / "thesis").mkdir()
    (place.folder / "thesis" / "notes").write_text("precious")
    before = found(place.folder)
    for out, parts in {
        "run": ["run holds another run", "--out", "--resume run"],
        "file": ["file exists", "--out"],
        "thesis": ["thesis", "something else", "--out"],
        "file/below": ["file/below cannot be written", "--out"],
        "y" * 300: ["cannot be written", "--out"],
    }.items():
        one_line(run("train", place.pets, *QUICK, "--out", out), *parts)
    assert found(place.folder) == before


@pytest.mark.usefixtures("settings_of")  # nothing is to be trained if it is not refused
def test_resume_without_a_run_or_with_other_flags_is_told(place):
    settings = TrainSettings(str(place.pets), epochs=2, held_out=9, batch_size=8, seeds=1)
    create_run(place.folder / "run", to_plain(settings))
    (place.folder / "empty").mkdir()
    before = found(place.folder)
    for folder in ("nowhere", "empty"):
        one_line(run("train", "--resume", folder), folder, "no run", "settings.json")
    (place.folder / "all.yaml").write_text("epochs: 3")
    for flags in (
        ["--epochs", 3],
        ["--out", "new"],
        [place.pets.parent / "two"],
        ["--config", "all.yaml"],
        ["--epochs", 12],  # the default, but not what the run was made with
    ):
        answer = run("train", "--resume", "run", *flags)
        one_line(answer, "--resume run", "its own settings", "--out")
    (place.folder / "all.yaml").unlink()
    assert found(place.folder) == before


def test_settings_file_with_mistakes_tells_them_all_at_once(place):
    file = place.folder / "a b.yaml"
    file.write_text("epochs: '3'\nlearning_rate: 0.1\nhelt-out: 3\nseeds: 1.5\ndata: 3\n")
    answer = run("train", "--config", file, "--out", "new")
    one_line(answer, "a b.yaml: ", "learning_rate: unknown key", "did you mean 'held_out'?")
    one_line(answer, "epochs: '3', wanted int", "seeds: 1.5, wanted int", "data: 3, wanted str")
    one_line(run("train", "--config", "gone.yaml"), "gone.yaml", "cannot be read")
    assert list(place.folder.iterdir()) == [file]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["--nonsense"],
        ["train", "--nonsense"],
        ["train", "--epochs", "ten"],
        ["train", "--epochs"],
        ["train", "--config"],
        ["train", "--augment", "sideways"],
        ["train", "a", "b"],
        ["list", "more"],
    ],
)
def test_words_that_do_not_parse_are_told_without_a_traceback(place, words):
    answer = run(*words)
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert answer.out == ""
    for word in words[1 + (len(words) == 3) :]:
        assert word in answer.err
    assert "help" in answer.err
    assert list(place.folder.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["train"], ["list"]])
def test_help_needs_no_torch(words):
    code = (
        "import sys; from tutelage_cli.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = {'torch', 'datasets', 'sklearn', 'scipy', 'joblib', 'altair'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stderr == ""
    assert "usage: tutelage" in child.stdout


def test_help_shows_examples_defaults_units_and_every_setting():
    general, answer = run("--help"), run("train", "--help")
    assert general.code == answer.code == 0
    assert "tutelage train my-images/" in general.out
    assert "tutelage train my-images/" in answer.out
    shown = " ".join(answer.out.replace("│", " ").split())
    for name in to_plain(TrainSettings()):
        assert name == "data" or re.search(f"--{name.replace('_', '-')},? ", shown), name
    for text in (
        "(default: 12)",
        "(default: margin-loss)",
        "(default: 0.1)",
        "Images per student step",
        "RATE in 0..1",
        "in (0, 1)",
    ):
        assert text in shown


def test_help_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = run("train", "--help").out.partition("positional arguments")[2]
    assert text.count("\n") > 100
    assert max(map(len, text.splitlines())) <= 60


def test_list_names_teachers_and_students():
    answer = run("list")
    assert answer.code == 0
    for name in ("margin-loss", "internal-state", "curriculum", "cnn", "resnet20", "wrn-D-K"):
        assert name in answer.out


def test_flags_come_before_the_file_and_the_file_before_the_defaults(place, settings_of):
    (place.folder / "one.yaml").write_text(
        f"data: {place.pets}\nlr: 2e-2\nepochs: 7\nteacher: [loss]\nheld-out: 9\n"
        "decay_at: [0.5]\nbatch_size: 8\n"
    )
    read = settings_of("train", "--config", "one.yaml")
    assert read == TrainSettings(
        data=str(place.pets),
        lr=0.02,
        epochs=7,
        teacher=("loss",),
        held_out=9,
        decay_at=(0.5,),
        batch_size=8,
    )
    two = place.pets.parent / "two"
    read = settings_of(
        "train", two, "--config=one.yaml", "--lr", "0.3", "--teacher", "margin-loss"
    )
    assert read == TrainSettings(
        data=str(two),
        lr=0.3,
        epochs=7,
        teacher=("margin-loss",),
        held_out=9,
        decay_at=(0.5,),
        batch_size=8,
    )
    assert settings_of("train", place.pets, *QUICK).lr == TrainSettings().lr


def test_settings_file_may_name_every_field(place, made, settings_of):
    whole = TrainSettings(
        data=str(place.pets),
        teacher=("internal-state", "curriculum"),
        student="resnet8",
        tap="pool",
        level="centred",
        commentary=None,
        noise="uniform:0.25",
        held_out=6,
        labels_from=made / "labels.csv",
        label_column="label",
        image_column=None,
        limit=20,
        augment="crop",
        epochs=3,
        batch_size=10,
        lr=0.05,
        momentum=0.8,
        weight_decay=1e-4,
        decay_at=(0.5, 1.0),
        teacher_lr=1e-3,
        teacher_every=4,
        unroll_steps=3,
        layers="all",
        seeds=2,
        jobs=1,
        device="cpu",
    )
    (place.folder / "all.yaml").write_text(yaml.safe_dump(to_plain(whole)))
    assert settings_of("train", "--config", "all.yaml") == whole


def test_settings_of_a_stopped_run_are_those_it_was_started_with(place, settings_of):
    first = settings_of("train", place.pets, *QUICK, "--out", "run", "--lr", "0.3")
    assert settings_of("train", "--resume", "run") == first
    assert first.lr == 0.3


def test_runs_are_numbered_and_named_after_the_data(place, settings_of):
    for _ in range(3):
        settings_of("train", place.pets, *QUICK)
    names = sorted(path.name for path in (place.folder / "runs").iterdir())
    assert names == ["pets", "pets-2", "pets-3"]


@pytest.mark.parametrize("data", ["..", "../../pets", "../", "."])
def test_run_of_any_folder_goes_below_runs(place, settings_of, monkeypatch, data):
    pets = pictures(place.folder / "pets")
    inside = pets / "cat" if data.startswith("..") else pets
    if data == "../../pets":
        inside = pets / "dog"
    monkeypatch.chdir(inside)
    before = {path.name for path in inside.iterdir()}
    settings_of("train", data, *QUICK)
    assert {path.name for path in inside.iterdir()} - before == {"runs"}
    assert [path.name for path in (inside / "runs").iterdir()] in (["pets"], ["run"])


@pytest.mark.parametrize("out", ["p [v1] (copy)/données", "[bold] x", "[red]/[/red]"])
@pytest.mark.usefixtures("settings_of")  # stops before training
def test_folder_is_printed_as_it_is_and_the_way_on_can_be_pasted(place, out):
    answer = run("train", place.pets, *QUICK, "--out", out)
    way = answer.out.split("Continue with: ")[1]
    assert shlex.split(way) == ["tutelage", "train", "--resume", out]
    assert (place.folder / out / "settings.json").exists()


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_interrupt_before_training_ends_without_a_traceback(place, monkeypatch):
    monkeypatch.setattr(check, "check", interrupt)
    answer: Answer = run("train", place.pets, *QUICK)
    assert answer.code == 130
    assert "Traceback" not in answer.err
    assert answer.err.count("\n") <= 1
    assert list(place.folder.iterdir()) == []


def test_interrupt_after_training_says_how_to_continue(place, monkeypatch):
    monkeypatch.setattr(study, "run_study", interrupt)
    answer = run("train", place.pets, *QUICK, "--out", "run")
    assert answer.code == 130
    assert "Traceback" not in answer.err
    assert "tutelage train --resume run" in answer.out + answer.err
