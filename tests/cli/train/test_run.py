"""A whole run of ``tutelage train``: what it leaves on disk and whether that is true."""

import contextlib
import io
import json
import shutil
from html.parser import HTMLParser
from statistics import fmean

import jaxtyping
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.optim import SGD

from tests.cli.train.conftest import TAUGHT
from tests.trained import (
    QUICK,
    checkpoint,
    content,
    lines,
    one_line,
    pictures,
    run,
    same,
    students,
)
from tutelage.commentaries import load_commentary, read_card
from tutelage.models import build_student
from tutelage.teachers import Curriculum, LossWeigher
from tutelage_cli.cli import main
from tutelage_cli.config.settings_files import from_plain, to_plain
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.summary import data_line

ARMS = ["untaught", "margin-loss", "internal-state"]


def test_functions_keep_the_types_they_promise(pets, tmp_path):
    jaxtyping.config.update("jaxtyping_disable", False)
    answer = run("train", pets, *QUICK, *TAUGHT, "--out", tmp_path / "run")
    assert answer.code == 0, answer


def test_settings_and_environment_are_those_of_the_run(trained, pets):
    settings = from_plain(TrainSettings, content(trained / "settings.json"))
    assert settings == TrainSettings(
        data=str(pets),
        teacher=("margin-loss", "internal-state"),
        controls=("none",),
        noise="uniform:0.6",
        epochs=2,
        seeds=1,
        held_out=9,
        batch_size=8,
        jobs=1,
    )
    environment = content(trained / "environment.json")
    assert environment["torch"] == torch.__version__.partition("+")[0]


def test_folder_holds_what_it_should_and_nothing_unfinished(trained):
    kept = {"settings.json", "environment.json", "summary.json", "report.html"}
    assert kept | {"commentary", "students"} <= {path.name for path in trained.iterdir()}
    assert [s.name for s in students(trained)] == sorted(f"{arm}-seed0" for arm in ARMS)
    for student in students(trained):
        own = {"checkpoint", "examples.parquet", "metrics.jsonl", "result.json"}
        if not student.name.startswith("untaught"):
            own.add("commentary")
        assert own <= {path.name for path in student.iterdir()}
    assert not any(path.name == "stop" or path.name[0] == "." for path in trained.rglob("*"))
    first = trained / "students" / "margin-loss-seed0" / "commentary"
    names = [file.name for file in first.iterdir()]
    assert sorted(names) == sorted(file.name for file in (trained / "commentary").iterdir())
    for name in {*names} - {"README.md", "commentary.json"}:  # its card has the gains, too
        assert (trained / "commentary" / name).read_bytes() == (first / name).read_bytes()


def test_metrics_have_a_line_for_every_epoch(trained):
    for student in students(trained):
        history = lines(student)
        assert [entry["epoch"] for entry in history] == [1, 2]
        assert [entry["step"] for entry in history] == [5, 10]
        assert history[0]["seconds"] < history[1]["seconds"]
        for entry in history:
            assert 0 <= entry["held_out_accuracy"] <= 1
            assert 0 <= entry["test_accuracy"] <= 1
            assert entry["train_loss"] > 0


def test_untaught_student_weighs_every_example_the_same(trained):
    student = trained / "students" / "untaught-seed0"
    assert set(pq.read_table(student / "examples.parquet")["weight"].to_pylist()) == {1.0}
    for entry in lines(student):
        assert entry["weight_right"] == entry["weight_wrong"] == 1.0


def test_weights_are_not_called_right_or_wrong_where_that_is_not_known(pets, tmp_path):
    answer = run("train", pets, *QUICK, "--teacher", "loss", "--out", tmp_path / "run")
    assert answer.code == 0, answer
    for student in students(tmp_path / "run"):
        told = content(student / "result.json").keys() | lines(student)[0].keys()
        assert told.isdisjoint({"weight_right", "weight_wrong", "auroc"})


def test_result_is_what_the_examples_and_the_curve_say(trained):
    for student in students(trained):
        result = content(student / "result.json")
        table = pq.read_table(student / "examples.parquet")
        given, true, weight = (
            torch.tensor(table[name].to_pylist()) for name in ("given", "true", "weight")
        )
        assert len(set(table["id"].to_pylist())) == 39
        wrong = given != true
        assert 0.2 < float(wrong.double().mean()) < 0.6
        assert result["weight_wrong"] == pytest.approx(float(weight[wrong].mean()))
        assert result["weight_right"] == pytest.approx(float(weight[~wrong].mean()))
        pairs = weight[~wrong, None] - weight[wrong]
        auroc = ((pairs > 0).double() + (pairs == 0).double() / 2).mean()
        assert result["auroc"] == pytest.approx(float(auroc))
        history = lines(student)
        assert result["held_out_accuracy"] == history[-1]["held_out_accuracy"]
        assert result["test_accuracy"] == history[-1]["test_accuracy"]
        assert result["best_test_accuracy"] == max(e["test_accuracy"] for e in history)
        assert result["seconds"] == history[-1]["seconds"]
        assert result["skipped_teacher_steps"] == 0


def test_summary_is_what_the_files_say(trained):
    summary = content(trained / "summary.json")
    assert list(summary["arms"]) == ARMS
    for arm, results in summary["arms"].items():
        file = content(trained / "students" / f"{arm}-seed0" / "result.json")
        ratio = file["seconds"] / summary["arms"]["untaught"][0]["seconds"]
        assert results == [{"seed": 0} | file | {"ratio": ratio}]
    table = pq.read_table(trained / "students" / "untaught-seed0" / "examples.parquet")
    wrong = [g != t for g, t in zip(table["given"], table["true"], strict=True)]
    assert summary["data"] == {
        "name": "pets [v1] é",
        "of": "images",
        "train": 39,
        "held_out": 9,
        "test": 12,
        "classes": ["cat", "dog", "emu"],
        "noise": "uniform:0.6",
        "wrong_labels": pytest.approx(fmean(wrong)),
    }
    accuracy = {arm: r[0]["test_accuracy"] for arm, r in summary["arms"].items()}
    for arm in ARMS[1:]:
        gain = 100 * (accuracy[arm] - accuracy["untaught"])
        assert any(f"by {arm}: {gain:+.1f} points" in said for said in summary["verdict"])


def test_what_is_printed_names_the_data_the_run_and_the_report_as_they_are(trained):
    printed = (trained.parent / "printed").read_text(encoding="utf-8")
    assert "pets [v1] é: 39 training, 9 held-out and 12 test images" in printed
    assert f"{trained}\n" in printed
    assert f"{trained / 'report.html'}\n" in printed
    for arm in ARMS:
        assert f"\n{arm} " in printed


class Words(HTMLParser):
    """The text of a page, and what it would take from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.inside, self.outside = "", "", []

    def handle_data(self, data: str) -> None:
        self.text += data * (self.inside != "script")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values, self.inside = dict(attrs), tag
        source = values.get("src") or (values.get("href") if tag == "link" else None) or ""
        if source and not source.startswith("data:"):
            self.outside.append((tag, source))


def words(html: str) -> Words:
    page = Words()
    page.feed(html)
    return page


def test_report_stands_alone_and_says_what_the_summary_says(trained):
    page = words((trained / "report.html").read_text(encoding="utf-8"))
    assert page.outside == []
    for sentence in content(trained / "summary.json")["verdict"]:
        assert sentence in page.text
    for arm in ARMS:
        assert arm in page.text
    assert "pets [v1] é" in page.text
    assert "--noise uniform:0.6" in page.text


@pytest.mark.usefixtures("report_in_a_word")
def test_all_arms_of_a_seed_saw_the_same_data_order_and_first_student(pets, tmp_path):
    # A student that does not learn keeps its first weights, while the running statistics of
    # its batch normalisation tell every batch that it saw and their order.
    teachers = ["--teacher", "margin-loss", "loss", "curriculum"]
    flags = ["--lr", "0", "--noise", "uniform:0.6", "--augment", "crop"]
    answer = run("train", pets, *QUICK, *teachers, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    first = build_student("cnn", classes=3, channels=1, size=16, seed=0)
    moved = ("running_mean", "running_var", "num_batches_tracked")
    untaught = checkpoint(tmp_path / "run" / "students" / "untaught-seed0")["tutor"]["student"]
    for name, value in first.state_dict().items():
        assert name.endswith(moved) != bool(untaught[name].equal(value)), name
    columns = ["id", "given", "true", "predicted", "loss"]
    tables = []
    for student in students(tmp_path / "run"):
        assert same(checkpoint(student)["tutor"]["student"], untaught), student.name
        tables.append(pq.read_table(student / "examples.parquet", columns=columns))
    assert all(table.equals(tables[0]) for table in tables)
    assert len(tables) == 4


def test_untaught_arm_equals_plain_training(trained):
    settings = from_plain(TrainSettings, content(trained / "settings.json"))
    material = seed_material(read_source(settings), settings, 0)
    mean, std = statistics(material.train)
    cpu = torch.device("cpu")
    collate = CollateImages(mean, std)
    train = Batches(material.train, 8, 0, collate, cpu)
    test = next(Batches(material.test, 8, 0, collate, cpu).whole(100))
    model = build_student("cnn", classes=3, channels=1, size=16, seed=0)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for epoch in range(2):
        if epoch == 1:  # after two thirds of two epochs, rounded down, and five sixths
            for group in optimizer.param_groups:
                group["lr"] = 0.001
        for batch in train.epoch(epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(batch.inputs), batch.targets).backward()
            optimizer.step()
    student = trained / "students" / "untaught-seed0"
    stored = checkpoint(student)["tutor"]["student"]
    for name, value in model.state_dict().items():
        # the weighted mean rounds otherwise than the plain one
        torch.testing.assert_close(stored[name], value, rtol=1e-4, atol=1e-5)
    model.eval()
    right = (model(test.inputs).argmax(1) == test.targets).double().mean()
    assert content(student / "result.json")["test_accuracy"] == float(right)


@pytest.mark.usefixtures("report_in_a_word")
def test_same_command_gives_the_same_students(trained, pets, tmp_path):
    answer = run("train", pets, *QUICK, *TAUGHT, "--out", tmp_path / "again")
    assert answer.code == 0, answer
    for one, other in zip(students(trained), students(tmp_path / "again"), strict=True):
        assert same(checkpoint(one)["tutor"], checkpoint(other)["tutor"])


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A source with its own test split, and human labels for its training rows."""
    root = tmp_path_factory.mktemp("halves")
    pictures(root / "pets" / "train")
    pictures(root / "pets" / "test", count=4, seed=1)
    names = [name for name in ("cat", "dog", "emu") for _ in range(20)]
    human = [names[(place + 20) % 60] if place % 4 == 0 else n for place, n in enumerate(names)]
    (root / "human.csv").write_text(
        "\n".join(["id,worse", *[f"{place},{n}" for place, n in enumerate(human)]])
    )
    return root, names, human


def test_human_labels_are_trained_on_and_counted_against_the_datas_own(halves, tmp_path):
    root, names, human = halves
    flags = ["--labels-from", root / "human.csv", "--label-column", "worse"]
    out = tmp_path / "run"
    answer = run(
        "train", root / "pets", *QUICK, *flags, "--teacher", "margin-loss", "--out", out
    )
    assert answer.code == 0, answer
    classes = ["cat", "dog", "emu"]
    table = pq.read_table(out / "students" / "margin-loss-seed0" / "examples.parquet")
    assert len(table) == 51
    for row in table.to_pylist():
        assert classes[row["given"]] == human[row["id"]]
        assert classes[row["true"]] == names[row["id"]]
    facts = content(out / "summary.json")["data"]
    wrong = fmean(human[i] != names[i] for i in table["id"].to_pylist())
    assert facts["wrong_labels"] == pytest.approx(wrong)
    assert facts["labels"] == f"worse of {root / 'human.csv'}"
    assert f"{100 * wrong:.1f}% of the training labels are wrong" in " ".join(
        answer.out.split()
    )


def test_commentary_is_trained_with_as_it_is(trained, pets, tmp_path):
    flags = ["--commentary", trained / "commentary", "--noise", "uniform:0.6"]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    student = tmp_path / "run" / "students" / "commentary-seed0"
    stored = load_file(trained / "commentary" / "weights.safetensors")
    assert same(dict(checkpoint(student)["tutor"]["teacher"]), stored)
    assert any(bool(value.any()) for value in stored.values())
    weights = pq.read_table(student / "examples.parquet")["weight"].to_pylist()
    assert len(set(weights)) > 10
    summary = content(tmp_path / "run" / "summary.json")
    assert list(summary["arms"]) == ["untaught", "commentary"]
    assert not (student / "commentary").exists()
    assert "Commentary:" not in answer.out


def test_learned_commentary_says_where_it_comes_from(trained):
    card = read_card(trained / "commentary")
    learnt_on = card["learnt_on"]
    assert learnt_on["data"] == "pets [v1] é"
    assert learnt_on["student"] in ("cnn", "TwoBlockCNN")
    assert learnt_on["classes"] == ["cat", "dog", "emu"]
    assert len(learnt_on["mean"]) == len(learnt_on["std"]) == 1
    result = content(trained / "students" / "margin-loss-seed0" / "result.json")
    assert learnt_on["metrics"] == result


def test_curriculum_and_loss_teachers_run_and_can_be_used_again(pets, tmp_path):
    flags = ["--teacher", "curriculum", "loss", "--noise", "flip2:0.5"]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    student = build_student("cnn", classes=3, channels=1, size=16, seed=1)
    for arm, kind in (("curriculum", Curriculum), ("loss", LossWeigher)):
        folder = tmp_path / "run" / "students" / f"{arm}-seed0"
        teacher = load_commentary(folder / "commentary", student, classes=("a", "b", "c"))
        assert isinstance(teacher, kind)
        assert same(dict(teacher.state_dict()), dict(checkpoint(folder)["tutor"]["teacher"]))
        again = tmp_path / f"again-{arm}"
        assert run(
            "train", pets, *QUICK, "--commentary", folder / "commentary", "--out", again
        ).code == 0  # fmt: skip


def test_two_seeds_differ_in_data_and_student_and_are_summed_up(pets, tmp_path):
    flags = ["--teacher", "loss", "--noise", "uniform:0.6", "--seeds", "2"]
    short = [word for word in QUICK if word not in ("--seeds", "1", "--jobs")]
    answer = run("train", pets, *short, *flags, "--jobs", "1", "--out", tmp_path / "run")
    assert answer.code == 0, answer
    one, two = (tmp_path / "run" / "students" / f"loss-seed{seed}" for seed in (0, 1))
    tables = [pq.read_table(student / "examples.parquet") for student in (one, two)]
    assert tables[0]["id"].to_pylist() != tables[1]["id"].to_pylist()
    summary = content(tmp_path / "run" / "summary.json")
    assert [r["seed"] for r in summary["arms"]["loss"]] == [0, 1]
    gains = [
        100 * (t["test_accuracy"] - u["test_accuracy"])
        for t, u in zip(summary["arms"]["loss"], summary["arms"]["untaught"], strict=True)
    ]
    said = next(line for line in summary["verdict"] if line.startswith("Taught by loss: "))
    assert f"{fmean(gains):+.1f} points of test accuracy over untaught, 90% interval" in said
    better = sum(gain > 0 for gain in gains)
    assert f"better in {better} of 2 seeds" in said


def test_teacher_that_has_hardly_learned_is_reported_all_the_same(pets, tmp_path):
    flags = ["--teacher", "margin-loss", "--teacher-lr", "1e-8", "--noise", "uniform:0.6"]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    assert (tmp_path / "run" / "report.html").exists()


def test_teacher_that_could_never_learn_is_told(pets, tmp_path):
    # Two steps in all, but a teacher step only after every fifth.
    flags = ["--epochs", "1", "--batch-size", "20", "--teacher", "margin-loss"]
    rest = ["--seeds", "1", "--held-out", "9", "--jobs", "1"]
    answer = run("train", pets, *rest, *flags, "--out", tmp_path / "run")
    one_line(answer, "2", "5", "--teacher-every")
    assert not (tmp_path / "run").exists()


def test_student_that_diverged_is_reported_without_a_traceback(pets, tmp_path):
    flags = ["--lr", "1e9", "--noise", "uniform:0.6"]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    if answer.code == 2:
        one_line(answer, "lr")
    else:
        assert answer.code == 0, answer
        for file in (tmp_path / "run").rglob("*.json"):
            content(file)


@pytest.mark.filterwarnings("ignore:.* batches carried no weight")
def test_teacher_that_gives_no_weight_at_all_is_reported_all_the_same(pets, tmp_path):
    flags = ["--teacher", "margin-loss", "--teacher-lr", "1e4", "--level", "free"]
    flags += ["--noise", "uniform:0.6"]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    result = content(tmp_path / "run" / "students" / "margin-loss-seed0" / "result.json")
    assert 0 in (result["weight_right"], result["weight_wrong"])


def test_summary_is_printed_where_the_output_is_not_unicode(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    for encoding in ("ascii", "cp1252"):
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with contextlib.redirect_stdout(out):
            assert main(["train", "--resume", str(tmp_path / "run")]) == 0


def test_noise_on_top_of_human_labels_is_told():
    facts = {"name": "pets", "train": 9, "held_out": 3, "test": 3, "classes": ["a", "b"]}
    line = data_line(facts | {"labels": "worse of human.csv", "noise": "uniform:0.3"})
    assert "worse of human.csv" in line
    assert "uniform:0.3" in line


def test_class_names_are_shown_as_they_are(tmp_path):
    names = ("<script>alert(1)<", "a&b", "[red]x", "100%")
    pets = pictures(tmp_path / "[bold]<b>", names, count=10)
    flags = ["--teacher", "loss", "--noise", "uniform:0.6"]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    assert "[bold]<b>: 23 training" in answer.out
    page = words((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert page.outside == []
    assert all(name in page.text for name in names)
    card = read_card(tmp_path / "run" / "commentary")
    assert card["learnt_on"]["classes"] == sorted(names)


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        (["--held-out", "1", "--teacher", "loss"], (47, 1)),
        (["--limit", "3", "--teacher", "loss"], (3, 9)),
        (["--epochs", "1", "--batch-size", "1", "--teacher", "loss"], (39, 9)),
    ],
    ids=["one held-out image", "one training image of each class", "batches of one"],
)
def test_least_of_everything_still_runs(pets, tmp_path, flags, sizes):
    pairs = zip(QUICK[::2], QUICK[1::2], strict=True)
    rest = [word for pair in pairs if pair[0] not in flags for word in pair]
    if "--limit" in flags:  # as many images in a batch as there are
        rest[rest.index("--batch-size") + 1] = "1"
    answer = run("train", pets, *rest, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    facts = content(tmp_path / "run" / "summary.json")["data"]
    assert (facts["train"], facts["held_out"]) == sizes


def test_one_test_image_of_a_mix_of_grey_and_colour_runs(tmp_path):
    pets = pictures(tmp_path / "pets" / "train", ("cat", "dog"), size=32)
    for name in ("cat", "dog"):
        pictures(tmp_path / "more", (name,), size=32, mode="RGB", seed=2, count=5)
        for file in (tmp_path / "more" / name).iterdir():
            shutil.move(file, pets / name / f"colour-{file.name}")
    pictures(tmp_path / "pets" / "test", ("dog",), size=32, count=1)
    flags = ["--student", "resnet8", "--teacher", "internal-state"]
    answer = run("train", tmp_path / "pets", *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    assert content(tmp_path / "run" / "summary.json")["data"]["test"] == 1
    weights = checkpoint(tmp_path / "run" / "students" / "untaught-seed0")["tutor"]["student"]
    assert next(iter(weights.values())).shape[1] == 3


def test_table_shows_whole_numbers_on_a_narrow_terminal(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shutil.copytree(trained, tmp_path / "run")
    answer = run("train", "--resume", tmp_path / "run")
    assert answer.code == 0, answer
    assert "…" not in answer.out
    result = content(trained / "students" / "margin-loss-seed0" / "result.json")
    assert f"{result['auroc']:.3f}" in answer.out


def test_report_repeats_the_command(trained, pets, tmp_path):
    page = words((trained / "report.html").read_text(encoding="utf-8"))
    settings = json.loads((trained / "settings.json").read_text(encoding="utf-8"))
    start = page.text.index("tutelage train '") + len("tutelage train ")
    assert page.text[start:].startswith(f"'{pets}'")
    for name in ("held_out", "batch_size", "epochs"):
        assert f"--{name.replace('_', '-')} {settings[name]}" in page.text
    assert to_plain(TrainSettings())["lr"] == settings["lr"]
    assert " --lr " not in page.text
    assert tmp_path.exists()


def test_a_second_run_from_another_folder_is_written_there(pets, tmp_path, monkeypatch):
    words = [*QUICK]
    words[words.index("--jobs") + 1] = "2"
    for name in ("first", "second"):  # the second has the workers of the first
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        answer = run("train", pets, *words, "--teacher", "loss", "--out", "run")
        assert answer.code == 0, answer
        assert (tmp_path / name / "run" / "students" / "loss-seed0" / "result.json").exists()
