"""A commentary gives the same weights again, or a clear word why not; it never runs code."""

import contextlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tests.trained import found, unchecked
from tutelage.commentaries import (
    Provenance,
    amend_card,
    commentary,
    load_commentary,
    read_card,
    save_commentary,
)
from tutelage.errors import UsageError
from tutelage.functional.replay_context import replay_context
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.models import FourBlockCNN, FourBlocks, MaskUNet, TwoBlockCNN, build_student
from tutelage.teacher import acts_at_test, is_attached, normalise_of, taps_of, uses_progress
from tutelage.teachers import (
    PAPER_SURFACE_FEATURES,
    SURFACE_FEATURES,
    AttentionMask,
    AuxiliaryTargets,
    Blending,
    CombinedTeacher,
    Curriculum,
    DynamicLoss,
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LearnedAugmentation,
    LossWeigher,
    MentorNetDD,
    MentorNetPD,
    MetaLabelCorrection,
    MetaSoftLabelCorrector,
    Mixup,
    OutOfFoldTargets,
    PermutationControl,
    Plain,
    RandomBlending,
    RandomMask,
    SelfPaced,
    Shuffled,
    SupportWeights,
)
from tutelage.teachers.hook_calls import prepare, weigh
from tutelage.types import Batch, Observation, PreparedBatch, Progress

C, SIZE = 3, 16
CLASSES = ("cat", "dog", "emu")
CARD, WEIGHTS = "commentary.json", "weights.safetensors"


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Functions are not type checked, as users run them."""
    with unchecked():
        yield


def student_of(classes: int = C, seed: int = 0) -> nn.Module:
    return build_student("cnn", classes=classes, channels=1, size=SIZE, seed=seed)


STUDENT = student_of()
ONE_FACT = {
    f"only {fact}": {"surface": (fact,), "label": False, "level": "free"}
    for fact in SURFACE_FEATURES
}
INTERNAL: dict[str, dict[str, Any]] = ONE_FACT | {
    "paper, I0 + M0": {"tap": "pool"},
    "paper, I0 + M0 + M1": {"tap": "pool", "surface": PAPER_SURFACE_FEATURES},
    "only the tap": {"tap": "pool", "label": False},
    "only the label": {"level": "free"},
    "logits as the tap": {"tap": "fc"},
    "a tap whose width was given": {"tap": "conv2", "tap_width": 576},
    "everything, two layers": {
        "tap": "pool",
        "surface": tuple(SURFACE_FEATURES),
        "hidden_layers": 2,
    },
    "everything, narrow": {
        "surface": tuple(SURFACE_FEATURES),
        "hidden_layers": 1,
        "width": 4,
        "level": "free",
    },
    "attached": {
        "surface": ("margin", "loss"),
        "hidden_layers": 1,
        "width": 8,
        "attached": True,
    },
}


def curriculum(*, iteration: bool = True) -> Curriculum:
    return Curriculum(TwoBlockCNN(1 + iteration, 1, SIZE), iteration=iteration)


def teacher_named(name: str) -> nn.Module:
    """The teacher, with weights that are nowhere zero."""
    torch.manual_seed(0)
    if name in INTERNAL:
        teacher = InternalState(STUDENT, classes=C, **INTERNAL[name])
    elif name in OTHERS:
        return OTHERS[name]()
    elif name.startswith("curriculum"):
        teacher = curriculum(iteration=name == "curriculum")
    else:
        teacher = LossWeigher(width=100 if name == "loss" else 7)
    for p in teacher.parameters():
        nn.init.normal_(p, std=0.3)
    return teacher


def blending() -> Blending:
    teacher = Blending(C)
    nn.init.normal_(teacher.phi)
    return teacher


def remembering(teacher: MentorNetPD | MentorNetDD) -> nn.Module:
    teacher.average.level.fill_(0.7)
    return teacher


def learned_augmentation() -> nn.Module:
    teacher = LearnedAugmentation("standard", most=3, mean=(0.5,), std=(0.05,))
    for p in teacher.parameters():
        nn.init.normal_(p)
    for _ in range(3):
        for name, value in teacher.remember(*seen_by(STUDENT, ())).items():
            teacher.get_buffer(name).copy_(value)
    return teacher


def out_of_fold_targets() -> nn.Module:
    p, ids = torch.randn(9, C).softmax(1), torch.arange(9).flip(0)
    extra, given = torch.randn(9, 2), torch.arange(9) % C
    teacher = OutOfFoldTargets(ids, p, given, extra=extra, width=5, share=0.75)
    for parameter in teacher.parameters():
        nn.init.normal_(parameter)
    return teacher


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "safe curriculum": lambda: Curriculum(FourBlockCNN(2, 1, SIZE, width=4), beyond="safe"),
    "support weights": lambda: SupportWeights(
        FourBlocks(2, SIZE, width=4), features=4, classes=C, width=8
    ),
    "blending": blending,
    "random blending": lambda: RandomBlending(C, seed=3),
    "shuffled": lambda: Shuffled(blending(), seed=3),
    "mixup": lambda: Mixup(C, alpha=0.4),
    "out-of-fold targets": out_of_fold_targets,
    "meta label correction": lambda: MetaLabelCorrection(
        STUDENT, classes=C, tap="pool", embedding=3, width=4
    ),
    "meta soft label corrector": lambda: MetaSoftLabelCorrector(
        torch.arange(8).flip(0), torch.randn(8, C).softmax(1), width=5
    ),
    "mask": lambda: AttentionMask(MaskUNet(1, width=4, levels=1), sigma=3.0, background=0.1),
    "random mask": lambda: RandomMask(sigma=3.0),
    "auxiliary targets": lambda: AuxiliaryTargets(TwoBlockCNN(1, 5, SIZE)),
    "permuted mask": lambda: PermutationControl(AttentionMask(MaskUNet(1, width=2), sigma=3.0)),
    "permuted weights": lambda: PermutationControl(LossWeigher(width=4)),
    "keep or drop": lambda: KeepOrDrop(
        InternalState(STUDENT, classes=C, tap="pool", surface=PAPER_SURFACE_FEATURES)
    ),
    "learning to teach": lambda: KeepOrDrop(KeepProbability(C)),
    "learned augmentation": learned_augmentation,
    "together": lambda: CombinedTeacher(blending(), LossWeigher(width=4)),
    "dynamic loss": lambda: DynamicLoss(C, width=4),
    "self-paced": lambda: SelfPaced(start=0.25, full_at=0.75),
    "MentorNet PD": lambda: remembering(MentorNetPD(width=0.5, percentile=0.75)),
    "MentorNet DD": lambda: remembering(MentorNetDD(C, decay=0.25)),
}


TEACHERS = [*INTERNAL, "loss", "loss, narrow", "curriculum", "curriculum without iteration"]


def seen_by(student: nn.Module, taps: Sequence[str]) -> tuple[PreparedBatch, Observation]:
    """Eight random images and what a student's forward pass reveals about them."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(8, 1, SIZE, SIZE, generator=generator)
    targets = torch.randint(0, C, (8,), generator=generator)
    with torch.no_grad(), record_outputs(student.eval(), taps) as features:
        logits = student(images)
    student.train()
    losses = nn.functional.cross_entropy(logits, targets, reduction="none")
    ids = torch.arange(8)
    progress = Progress(0.25, 1.5, 0.5)
    return PreparedBatch(images, targets, ids, ids), Observation(
        losses, logits, features, progress
    )


def weights_of(teacher: nn.Module, student: nn.Module) -> Tensor:
    weigh: Callable[[PreparedBatch, Observation], Tensor] = teacher.weigh  # pyright: ignore[reportAssignmentType] - the interface
    with torch.no_grad():
        return weigh(*seen_by(student, taps_of(teacher)))


@pytest.mark.parametrize("name", TEACHERS)
def test_loaded_teacher_gives_the_same_weights(tmp_path, name):
    teacher = teacher_named(name)
    save_commentary(teacher, tmp_path / "p [v1] (copy)" / "données")
    other = student_of(seed=5)
    folder = tmp_path / "p [v1] (copy)" / "données"
    loaded = load_commentary(folder, other, classes=CLASSES)
    expected = weights_of(teacher, other)
    assert (expected - 0.5).abs().max() > 1e-2
    assert weights_of(loaded, other).equal(expected)
    assert type(loaded) is type(teacher)
    assert loaded.training
    for trait in (taps_of, is_attached, normalise_of, uses_progress):
        assert trait(loaded) == trait(teacher)
    assert all(p.requires_grad for p in loaded.parameters())


def work_of(teacher: nn.Module) -> tuple[Tensor, ...]:
    """Everything that a teacher makes of a batch, with the same random numbers each time."""
    shown, seen = seen_by(STUDENT, taps_of(teacher))
    batch = Batch(shown.inputs, shown.targets, shown.ids)
    with torch.no_grad(), replay_context(batch, 3):
        prepared = prepare(teacher, {}, batch)
        weights = weigh(teacher, {}, prepared, seen)
    aux = torch.zeros(0) if prepared.aux is None else prepared.aux
    return prepared.inputs, prepared.targets, aux, weights


@pytest.mark.parametrize("name", OTHERS)
def test_loaded_teacher_of_another_kind_does_the_same(tmp_path, name):
    torch.manual_seed(0)
    teacher = OTHERS[name]()
    save_commentary(teacher, tmp_path / "a")
    loaded = load_commentary(tmp_path / "a", student_of(seed=5), classes=CLASSES)
    assert type(loaded) is type(teacher)
    for got, wanted in zip(work_of(loaded), work_of(teacher), strict=True):
        assert torch.equal(got, wanted)
    for trait in (taps_of, is_attached, normalise_of, uses_progress, acts_at_test):
        assert trait(loaded) == trait(teacher)
    save_commentary(loaded, tmp_path / "b")
    assert found(tmp_path / "a") == found(tmp_path / "b")


@pytest.mark.parametrize(
    ("key", "value"),
    [("examples", 8), ("examples", 2**31 - 1), ("facts", 5), ("width", 0), ("share", 1.5)],
)
def test_damaged_out_of_fold_targets_are_refused(tmp_path, key, value):
    save_commentary(out_of_fold_targets(), tmp_path / "a")
    card = json.loads((tmp_path / "a" / CARD).read_text())
    card["settings"][key] = value
    (tmp_path / "a" / CARD).write_text(json.dumps(card))
    with pytest.raises(UsageError, match=r"damaged|does not fit"):
        load_commentary(tmp_path / "a", STUDENT)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("space", "standrad"),
        ("space", 3),
        ("most", 0),
        ("most", 15),
        ("mean", ["a"]),
        ("std", [0.0]),
        ("std", [0.05, 0.05]),
        ("std", [[]]),
    ],
)
def test_a_damaged_learned_augmentation_is_refused(tmp_path, key, value):
    save_commentary(learned_augmentation(), tmp_path / "a")
    card = json.loads((tmp_path / "a" / CARD).read_text())
    card["settings"][key] = value
    (tmp_path / "a" / CARD).write_text(json.dumps(card))
    with pytest.raises(UsageError, match=r"damaged|does not fit"):
        load_commentary(tmp_path / "a", STUDENT)


def test_part_made_for_other_classes_is_refused(tmp_path):
    save_commentary(OTHERS["together"](), tmp_path / "a")
    with pytest.raises(UsageError, match=r"made for 3 classes.* has 4\."):
        load_commentary(tmp_path / "a", student_of(4), classes=("a", "b", "c", "d"))


def test_part_of_a_part_is_refused(tmp_path):
    nested = CombinedTeacher(blending(), PermutationControl(LossWeigher()))
    with pytest.raises(
        UsageError, match="PermutationControl cannot be stored as part of a commentary"
    ):
        save_commentary(nested, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", TEACHERS)
def test_saved_again_it_is_the_same_commentary(tmp_path, name):
    save_commentary(teacher_named(name), tmp_path / "one")
    loaded = load_commentary(tmp_path / "one", student_of())
    save_commentary(loaded, tmp_path / "two")
    assert found(tmp_path / "one") == found(tmp_path / "two")


def test_folder_holds_no_pickle_and_can_be_read_by_everybody(tmp_path):
    save_commentary(teacher_named("loss"), tmp_path / "a")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {CARD, WEIGHTS, "README.md"}
    for content in found(tmp_path / "a").values():
        assert not content.startswith((b"\x80", b"PK"))
    (tmp_path / "usual").write_text("")
    usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    for file in (tmp_path / "a").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == usual, file.name


def test_provenance_is_kept(tmp_path):
    came = Provenance(
        "cnn",
        "pets [v1] é",
        CLASSES,
        (0.5,),
        (0.25,),
        (("auroc", 0.75),),
        "learn",
        20,
        (16, 8),
        "Replayed",
        (3,),
        (("untaught", 7.1), ("pruned", -0.25)),
        "resnet8, 3 seeds",
    )
    save_commentary(teacher_named("loss"), tmp_path / "a", came)
    card = read_card(tmp_path / "a")
    assert card["schema"] == 1
    assert card["teacher"] == "LossWeigher"
    assert card["settings"] == {"width": 100, "normalise": "mean"}
    assert card["learnt_on"] == {
        "student": "cnn",
        "data": "pets [v1] é",
        "classes": ["cat", "dog", "emu"],
        "mean": [0.5],
        "std": [0.25],
        "metrics": {"auroc": 0.75},
        "command": "learn",
        "runs": 20,
        "sides": [16, 8],
        "signal": "Replayed",
        "seeds": [3],
        "gains": {"untaught": 7.1, "pruned": -0.25},
        "measured_on": "resnet8, 3 seeds",
    }
    assert "torch" in card["environment"]
    readme = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert "pets [v1] é" in readme
    assert "cat, dog, emu" in readme
    assert "| Gain in test accuracy | +7.1 over untaught, -0.2 over pruned, " in readme
    assert "not recorded" not in readme.lower()


def test_what_is_not_recorded_is_said_and_can_be_recorded_later(tmp_path):
    folder = tmp_path / "a"
    save_commentary(teacher_named("loss"), folder)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for fact in ("Data", "Classes", "Student", "Signal", "Seeds", "Gain in test accuracy"):
        assert f"| {fact} | not recorded |" in readme
    before = load_file(folder / WEIGHTS)
    amend_card(folder, data="a|b", seeds=(0, 1), gains=(("untaught", 1.0),), runs=1)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "| Data | a\\|b |" in readme
    assert "| Seeds | 0, 1 |" in readme
    assert "+1.0 over untaught, percentage points (on what: not recorded)" in readme
    assert "| Student | not recorded |" in readme
    assert "Caution: learned along one run" in readme
    assert "Not recorded: classes, student, signal." in readme
    assert read_card(folder)["learnt_on"]["gains"] == {"untaught": 1.0}
    assert load_file(folder / WEIGHTS).keys() == before.keys()
    with pytest.raises(TypeError):
        amend_card(folder, colour="red")
    with pytest.raises(UsageError, match="no commentary"):
        amend_card(tmp_path, data="x")


def test_another_commentary_is_refused_unless_it_is_to_be_replaced(tmp_path):
    save_commentary(teacher_named("curriculum"), tmp_path / "a")
    before = found(tmp_path)
    with pytest.raises(UsageError, match=r"holds another commentary.*overwrite=True"):
        save_commentary(teacher_named("loss"), tmp_path / "a")
    assert found(tmp_path) == before
    save_commentary(teacher_named("loss"), tmp_path / "a", overwrite=True)
    assert isinstance(load_commentary(tmp_path / "a", STUDENT), LossWeigher)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["write_atomically", "write_json", "replace_folder"])
def test_failed_save_leaves_the_old_commentary_and_nothing_else(tmp_path, monkeypatch, step):
    save_commentary(teacher_named("loss"), tmp_path / "a")
    before = found(tmp_path)
    monkeypatch.setattr(commentary, step, fail)
    with pytest.raises((OSError, UsageError), match="No space left"):
        save_commentary(teacher_named("curriculum"), tmp_path / "a", overwrite=True)
    assert found(tmp_path) == before


@pytest.mark.parametrize("number", [1, 2, 3])
def test_save_that_fails_at_a_rename_loses_no_commentary(tmp_path, monkeypatch, number):
    save_commentary(teacher_named("loss"), tmp_path / "a")
    calls = 0

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def rename(*args: Any, **kwargs: Any) -> object:
            nonlocal calls
            calls += "weights" not in str(args[0])  # how a file is written is another matter
            return fail() if calls == number else real(*args, **kwargs)

        return rename

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    with contextlib.suppress(OSError, UsageError):
        save_commentary(teacher_named("curriculum"), tmp_path / "a", overwrite=True)
    loaded = load_commentary(tmp_path / "a", STUDENT)
    assert isinstance(loaded, Curriculum if calls < number else LossWeigher)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def foreign(folder: Path) -> None:
    (folder / "thesis.txt").write_text("precious")


def foreign_card(folder: Path) -> None:
    foreign(folder)
    (folder / CARD).write_text("{}")


def own_notes(folder: Path) -> None:
    save_commentary(teacher_named("loss"), folder)
    foreign(folder)


@pytest.mark.parametrize("fill", [foreign, foreign_card, own_notes])
def test_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path, fill):
    (tmp_path / "a").mkdir()
    fill(tmp_path / "a")
    before = found(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(UsageError, match=r"a holds something that is not a commentary"):
            save_commentary(teacher_named("curriculum"), tmp_path / "a", overwrite=overwrite)
    assert found(tmp_path) == before


def test_place_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("precious")
    for place in ("file", "file/below", "x" * 300):
        with pytest.raises(UsageError, match=place[:4]):
            save_commentary(teacher_named("loss"), tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    monkeypatch.chdir(tmp_path)
    save_commentary(teacher_named("loss"), "relative")
    assert (tmp_path / "relative" / CARD).exists()


def test_folder_behind_a_link_is_written_to(tmp_path):
    save_commentary(teacher_named("loss"), tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_commentary(teacher_named("curriculum"), tmp_path / "link", overwrite=True)
    assert isinstance(load_commentary(tmp_path / "link", STUDENT), Curriculum)


def test_teacher_that_cannot_be_stored_is_refused_before_anything_is_written(tmp_path):
    for teacher in (Plain(), Curriculum(nn.Sequential(nn.Flatten(), nn.Linear(512, 1)))):
        with pytest.raises(
            UsageError, match=r"cannot be stored.*: (InternalState|TwoBlockCNN)"
        ):
            save_commentary(teacher, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


KINDS = (
    *("everything, narrow", "paper, I0 + M0", "loss", "curriculum"),
    *("mask", "together", "shuffled", "support weights"),
    *("self-paced", "MentorNet DD"),
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    """A commentary of each kind, not to be changed."""
    root = tmp_path_factory.mktemp("stored")
    for kind in KINDS:
        save_commentary(teacher_named(kind), root / kind)
    return root


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Whatever happens inside must be over by then, and within 100 MB."""

    def late(*_: object) -> None:
        raise AssertionError(f"took longer than {seconds} s")

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    before, start = signal.signal(signal.SIGALRM, late), peak()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert peak() - start < 100


def refused(folder: Path, *parts: str, student: nn.Module = STUDENT) -> None:
    """Loading is refused in one line that names the folder."""
    with within(3), pytest.raises(UsageError) as caught:
        load_commentary(folder, student, classes=CLASSES)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    for part in parts:
        assert part in message


def changed(stored: Path, tmp_path: Path, kind: str, change: Callable[[Any], Any]) -> Path:
    """A copy of a commentary whose card was changed."""
    folder = tmp_path / "copy"
    shutil.copytree(stored / kind, folder)
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    other = change(card)
    (folder / CARD).write_text(json.dumps(card if other is None else other), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b'{"schema": 1, "teacher": "LossWeigher", "settings": {"width',
        b"[1, 2]",
        b"null",
        b'"text"',
        b"7",
        b"\xff\xfe{}",
        b'{"schema": 1, "teacher": "\xe9", "settings": {}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
    ],
    ids=lambda content: repr(content)[:20],
)
def test_card_that_is_no_json_object_is_refused(stored, tmp_path, content):
    shutil.copytree(stored / "loss", tmp_path / "copy")
    if content is None:
        (tmp_path / "copy" / CARD).unlink()
    else:
        (tmp_path / "copy" / CARD).write_bytes(content)
    refused(tmp_path / "copy", "no commentary")


def test_folder_without_a_commentary_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        refused(folder, "no commentary")


@pytest.mark.parametrize("schema", [2, 0, -1, None, "1", [1], 10**30])
def test_other_schema_is_refused(stored, tmp_path, schema):
    folder = changed(stored, tmp_path, "loss", lambda card: card.update(schema=schema))
    newer = ["newer version of tutelage wrote it"] if schema in (2, 10**30) else []
    refused(folder, "schema", str(schema)[:5], "this version reads 1", *newer)


@pytest.mark.parametrize("teacher", ["LossWeiger", "os.system", "Plain", None, 3, [], {}])
def test_unknown_teacher_is_refused_with_the_nearest_name(stored, tmp_path, teacher):
    folder = changed(stored, tmp_path, "loss", lambda card: card.update(teacher=teacher))
    nearest = ["Did you mean 'LossWeigher'?"] if teacher == "LossWeiger" else []
    refused(folder, "unknown teacher", "InternalState, LossWeigher, Curriculum", *nearest)


@pytest.mark.parametrize("settings", [None, [], 3, "x"])
def test_settings_that_are_no_object_are_refused(stored, tmp_path, settings):
    refused(changed(stored, tmp_path, "loss", lambda card: card.update(settings=settings)))


def keys(kind: str) -> list[str]:
    return [key for key in commentary.describe(teacher_named(kind))[1] if key != "level"]


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind in KINDS for key in keys(kind)])
def test_missing_setting_is_refused(stored, tmp_path, kind, key):
    def drop(card: dict[str, Any]) -> None:
        del card["settings"][key]

    refused(changed(stored, tmp_path, kind, drop), key)


def test_a_commentary_stored_before_levels_were_held_has_a_free_one(stored, tmp_path):
    folder = changed(
        stored,
        tmp_path,
        "everything, narrow",
        lambda card: card["settings"].pop("level") and None,
    )
    loaded = load_commentary(folder, STUDENT)
    assert isinstance(loaded, InternalState)
    assert loaded.level == "free"


@pytest.mark.parametrize("level", [[], "high", None])
def test_a_damaged_level_is_refused(stored, tmp_path, level):
    refused(
        changed(
            stored,
            tmp_path,
            "paper, I0 + M0",
            lambda card: card["settings"].update({"level": level}),
        ),
        "level",
    )


def test_other_classes_are_refused_with_the_way_out_or_zeroed_on_request(stored, tmp_path):
    folder = changed(stored, tmp_path, "paper, I0 + M0", lambda _: None)
    more = (*CLASSES, "one more")
    with pytest.raises(UsageError, match=r"made for \d+ classes.*zero_label"):
        load_commentary(folder, STUDENT, classes=more)
    loaded = load_commentary(folder, STUDENT, classes=more, zero_label=True)
    assert isinstance(loaded, InternalState)
    assert loaded.classes == len(more)
    known = load_commentary(folder, STUDENT).state_dict()["net.0.weight"]
    found, where = loaded.state_dict()["net.0.weight"], loaded.columns()
    assert not found[:, where["label"]].any()
    assert torch.equal(found[:, where["tap"]], known[:, where["tap"]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["foo", "student", "self", "", "net", "__class__"])
def test_setting_that_does_not_exist_is_refused(stored, tmp_path, kind, key):
    refused(changed(stored, tmp_path, kind, lambda card: card["settings"].update({key: 1})))


HUGE = 10**12
NUMBERS = (HUGE, 10**30, -1, 0, 2.5, float("inf"), float("nan"))
WRONG_VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "everything, narrow": {
        "classes": (*NUMBERS, "3", None, [3], True),
        "label": ("no", 2, [], {}, None),
        "surface": ("margin", 3, None, [3], [["margin"]], ["margni"], {"margin": 1}, []),
        "hidden_layers": (HUGE, 10**6, -1, 2.5, "1", None, [1], True),
        "width": (*NUMBERS, 10**7, "4", [4], True),
        "attached": ("no", 2, [], {}, None),
    },
    "paper, I0 + M0": {
        "tap": ("pol", 3, ["pool"], "", {}, True),
        "tap_width": (*NUMBERS, "64", [64], True),
    },
    "loss": {
        "width": (*NUMBERS, 5 * 10**7, "100", None, [100], True),
        "normalise": ("group", "", 1, ["mean"], True),
    },
    "curriculum": {
        "iteration": ("no", 2, [], {}, None, 0),
        "network": (
            None,
            [],
            3,
            {},
            {"channels": HUGE, "outputs": 1, "size": SIZE},
            {"channels": 2, "outputs": HUGE, "size": SIZE},
            {"channels": 2, "outputs": 1, "size": HUGE},
            {"channels": 2, "outputs": 1, "size": 20_000},
            {"channels": 2, "outputs": 1, "size": 12},
            {"channels": 2, "outputs": 1, "size": "16"},
            {"channels": 2.0, "outputs": 1, "size": SIZE},
            {"channels": -1, "outputs": 1, "size": SIZE},
            {"channels": 3, "outputs": 1, "size": SIZE},
            {"channels": 2, "outputs": 1, "size": SIZE, "more": 1},
        ),
    },
}
NET = {"kind": "MaskUNet", "channels": 1, "width": 4, "levels": 1}
CNN = {"kind": "TwoBlockCNN", "channels": 2, "outputs": 1, "size": SIZE}
PART = {"teacher": "LossWeigher", "settings": {"width": 4, "normalise": "mean"}}
WRONG_VALUES["curriculum"]["beyond"] = (None, 3, "save", "", [], {})
WRONG_VALUES["curriculum"]["network"] += (
    *({**CNN, "size": size} for size in (HUGE, 20_000, 12, "16", 2.0, -1, None)),
    *({**CNN, "kind": kind} for kind in ("", None, 3, [], "FourBlocks", "os.system")),
    {**CNN, "more": 1},
)
WRONG_VALUES["mask"] = {
    "sigma": (HUGE, 0.0, -1.0, float("nan"), float("inf"), "3", None, True, [3.0]),
    "background": (float("nan"), float("inf"), "0", None, False, 0),
    "network": (
        *(None, [], {}, "MaskUNet"),
        *({**NET, "levels": levels} for levels in (0, 2, 10, 10**6, HUGE, -1, "1", True)),
        *({**NET, "width": width} for width in (0, 5, 2**31 - 1, HUGE, -1, "4", 4.0)),
        *({**NET, "channels": channels} for channels in (0, 3, HUGE, None)),
    ),
}
WRONG_VALUES["shuffled"] = {"classes": (*NUMBERS, 10**7, 2**31 - 1, "3", None, True)}
WRONG_VALUES["support weights"] = {
    "features": (*NUMBERS, 10**7, "4", None),
    "width": (*NUMBERS, 10**7, "4", None),
    "network": ({**CNN, "kind": "FourBlocks"}, NET, CNN, {}, None),
}
WRONG_VALUES["together"] = {
    "weighs": (
        *(None, 3, [], {}, "LossWeigher", {**PART, "more": 1}, {"teacher": "LossWeigher"}),
        *({**PART, "teacher": name} for name in ("", None, [], "Together", "Mixup", "Losser")),
        *({**PART, "settings": inside} for inside in (None, [], {}, {"width": 4})),
        {**PART, "settings": {"width": 5, "normalise": "mean"}},
        {"teacher": "Permuted", "settings": {"learned": PART}},
    ),
    "prepares": (None, {}, PART, {"teacher": "Blending", "settings": {"classes": 4}}),
}
WRONG_VALUES["self-paced"] = {"start": (0.0, 1.5, float("nan"), "1", None, True, 1)}
WRONG_VALUES["MentorNet DD"] = {
    "classes": (*NUMBERS, 10**7, "3", None),
    "decay": (1.0, -0.1, float("inf"), "0.5", None, True),
    "burn_in": (-0.1, 1.5, float("nan"), None),
}
SETTINGS = [
    pytest.param(kind, key, value, id=f"{kind}-{key}-{value!r:.40}")
    for kind, settings in WRONG_VALUES.items()
    for key, values in settings.items()
    for value in values
]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("kind", "key", "value"), SETTINGS)
def test_setting_of_another_type_or_size_is_refused(stored, tmp_path, kind, key, value):
    refused(changed(stored, tmp_path, kind, lambda card: card["settings"].update({key: value})))


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4])


def longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")


def header_only(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def huge_header(file: Path) -> None:
    file.write_bytes((2**62).to_bytes(8, "little") + b"{}")


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


class Marker:
    """Touches a file if it is unpickled without a guard."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def pickled(file: Path) -> None:
    file.write_bytes(pickle.dumps(Marker(file.with_name("marker"))))


def zipped(file: Path) -> None:
    torch.save({"net.0.weight": torch.zeros(1)}, file)


def rewritten(
    change: Callable[[dict[str, Tensor]], dict[str, Tensor]],
) -> Callable[[Path], None]:
    def rewrite(file: Path) -> None:
        save_file(change(load_file(file)), file)

    return rewrite


DAMAGE: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "empty": empty,
    "cut": cut,
    "longer": longer,
    "header only": header_only,
    "huge header": huge_header,
    "a folder": folder_instead,
    "a pickle": pickled,
    "a torch file": zipped,
    "transposed": rewritten(lambda ts: {k: t.t().contiguous() for k, t in ts.items()}),
    "one more row": rewritten(lambda ts: {k: torch.cat([t, t[:1]]) for k, t in ts.items()}),
    "flat": rewritten(lambda ts: {k: t.flatten() for k, t in ts.items()}),
    "one tensor less": rewritten(lambda ts: dict(list(ts.items())[1:])),
    "one tensor more": rewritten(lambda ts: ts | {"evil": torch.zeros(1)}),
    "no tensors": rewritten(lambda _: {}),
    "other names": rewritten(lambda ts: {f"x{k}": t for k, t in ts.items()}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_weights_are_refused_and_no_code_is_run(stored, tmp_path, damage):
    folder = tmp_path / "copy"
    shutil.copytree(stored / "loss", folder)
    DAMAGE[damage](folder / WEIGHTS)
    refused(folder, "damaged")
    assert not (folder / "marker").exists()


def test_refusal_of_other_shapes_says_which_tensor(stored, tmp_path):
    shutil.copytree(stored / "loss", tmp_path / "copy")
    file = tmp_path / "copy" / WEIGHTS
    save_file(load_file(file) | {"net.0.weight": torch.zeros(3, 1)}, file)
    refused(tmp_path / "copy", "net.0.weight")


def test_other_number_of_classes_is_refused(stored):
    folder = stored / "paper, I0 + M0"
    for classes in (("a",), ("a", "b"), ("a", "b", "c", "d")):
        with pytest.raises(UsageError, match=rf"made for 3 classes.* has {len(classes)}\."):
            load_commentary(folder, student_of(len(classes)), classes=classes)
    for kind in ("loss", "curriculum"):  # these never see a class
        load_commentary(stored / kind, student_of(4), classes=("a", "b", "c", "d"))


def test_images_of_another_size_are_refused_where_a_network_has_one(stored):
    for sides in ((SIZE - 1, SIZE - 1), (SIZE, SIZE - 1)):
        told = rf"for images of {SIZE}x{SIZE} pixels.* {sides[0]}x{sides[1]}\..*learn"
        with pytest.raises(UsageError, match=told):
            load_commentary(stored / "curriculum", STUDENT, sides=sides)
    for kind in ("loss", "mask", "shuffled"):  # any size will do
        load_commentary(stored / kind, STUDENT, sides=(SIZE - 1, SIZE))
    load_commentary(stored / "curriculum", STUDENT, sides=(SIZE, SIZE))


def test_images_of_another_size_are_refused_by_a_part(tmp_path):
    part = Curriculum(TwoBlockCNN(2, 1, SIZE))
    save_commentary(PermutationControl(part), tmp_path / "it")
    with pytest.raises(UsageError, match=f"images of {SIZE}x{SIZE} pixels"):
        load_commentary(tmp_path / "it", STUDENT, sides=(SIZE + 1, SIZE + 1))


def test_student_without_the_tap_or_with_another_width_there_is_refused(stored):
    folder = stored / "paper, I0 + M0"
    bare = nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, C))
    refused(folder, "does not fit", "'pool'", "Allowed: 0, 1", student=bare)
    wide = build_student("cnn", classes=C, channels=1, size=32, seed=0)
    refused(folder, "does not fit", "'pool'", "64", "256", student=wide)


NASTY: tuple[Any, ...] = (
    *(HUGE, 10**7, 10**30, -1, 0, 1, 2, 3.5, float("nan"), float("inf"), True, False, None),
    *("", "pool", "fc", "margin", "é\x00", "x" * 1000, "../../etc/passwd"),
    *([], [1], [[[]]], {}, {"a": 1}, ["margin"] * 1000),
)
SPLICES = (
    b"",
    b"\x00",
    b"\xff",
    b'"',
    b"{",
    b"}",
    b"[",
    b",",
    b":",
    b"9",
    b"-",
    b"null",
    b"\\u",
)


def mutate_value(value: Any, draw: random.Random) -> Any:
    """The same plain value with something nasty at a random place in it."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(sorted(value))
        other = {key + "x" if draw.random() < 0.1 else key: mutate_value(value[key], draw)}
        return {k: v for k, v in value.items() if k != key} | other
    return draw.choice(NASTY)


def mutate_bytes(data: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        # half of the changes to weights in their header
        reach = min(len(data), 400) if draw.random() < 0.5 else len(data)
        at = draw.randrange(reach + 1)
        drop = draw.choice([0, 0, 1, 1, 8, 100])
        new = draw.choice([*SPLICES, draw.randbytes(draw.randint(1, 8))])
        data = data[:at] + new + data[at + drop :]
    return data


@pytest.mark.filterwarnings("ignore")  # torch's about odd sizes
def test_no_mutation_raises_anything_but_a_usage_error(stored, tmp_path):
    draw = random.Random(0)
    loaded = 0
    for kind in KINDS:  # what torch imports at first is not what a change costs
        load_commentary(stored / kind, STUDENT, classes=CLASSES)
    with within(15):
        for number in range(500):
            kind = draw.choice(KINDS)
            folder = tmp_path / f"{number}"
            shutil.copytree(stored / kind, folder)
            name = draw.choice([CARD, CARD, CARD, WEIGHTS])
            if name == CARD and draw.random() < 0.6:
                card = json.loads((folder / CARD).read_text())
                if draw.random() < 0.7:
                    card["settings"] = mutate_value(card["settings"], draw)
                else:
                    card = mutate_value(card, draw)
                (folder / CARD).write_text(json.dumps(card))
            else:
                (folder / name).write_bytes(mutate_bytes((folder / name).read_bytes(), draw))
            try:
                load_commentary(folder, STUDENT, classes=CLASSES)
                loaded += 1
            except UsageError as error:
                assert str(folder) in str(error)  # noqa: PT017 - not every one is refused
    assert 20 < loaded < 400
