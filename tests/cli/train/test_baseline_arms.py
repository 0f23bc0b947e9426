"""Baselines are trained, judged and reported beside teachers that learn."""

import pytest
import torch
from torch import Tensor, nn

from tests.trained import QUICK, content, one_line, run
from tutelage.commentaries import read_card
from tutelage.losses.probability import Focal, GeneralisedCrossEntropy
from tutelage.signals import Lookahead, Reversible
from tutelage.teachers import InternalState
from tutelage_cli.commentary.settings import LEARNED
from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.train import arms
from tutelage_cli.train.arms import TAUGHT, build_tutor
from tutelage_cli.train.names import BASELINES, LEARNERS, LEARNING, POLICIES, TAUGHT_BY, USED_BY
from tutelage_cli.train.settings import TrainSettings


def test_arms_leave_a_result_and_what_was_learned_a_commentary(pets, tmp_path) -> None:
    names = ["reweight", "mentornet-dd", "mentornet"]
    flags = ["--noise", "uniform:0.6", "--epochs", "1", "--teacher", *names]
    answer = run("train", pets, *QUICK, *flags, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for arm in ("untaught", *names):
        folder = tmp_path / "run" / "students" / f"{arm}-seed0"
        result = content(folder / "result.json")
        assert 0 <= result["test_accuracy"] <= 1
        assert "auroc" in result
        assert (folder / "commentary").exists() == (arm == "mentornet-dd")
        assert arm in page
    assert read_card(tmp_path / "run" / "commentary")["teacher"] == "MentorNetDD"


def test_every_word_has_an_arm_and_only_what_learns_may_be_learned_as_a_commentary() -> None:
    assert TAUGHT.keys() == TAUGHT_BY.keys()
    assert not (BASELINES | POLICIES).keys() & LEARNED.keys()
    assert all(TAUGHT[name].signal is not None for name in LEARNING)
    assert set(LEARNERS) == {name for name, way in TAUGHT.items() if way.signal is not None}


def some_images() -> ImageSet:
    images = torch.zeros(6, 1, 16, 16, dtype=torch.uint8)
    labels = torch.arange(6) % 3
    return ImageSet(images, labels, torch.arange(6), classes=("a", "b", "c"), name="none")


@pytest.mark.parametrize("level", ["free", "centred"])
@pytest.mark.parametrize("arm", USED_BY["level"])
def test_a_held_level_is_that_of_the_teacher(arm, level) -> None:
    settings = from_plain(TrainSettings, {"held_out": 3, "level": level, "teacher": [arm]})
    teacher = build_tutor(arm, 0, some_images(), settings, 10).teacher
    assert isinstance(teacher, InternalState)
    assert teacher.level == level


@pytest.mark.parametrize(("given", "every"), [(None, 2), (1, 1), (7, 7)])
@pytest.mark.parametrize("arm", USED_BY["layers"])
def test_the_last_layer_is_that_of_the_signal(arm, given, every) -> None:
    flags = {"held_out": 3, "layers": "last", "teacher": [arm], "teacher_every": given}
    updater = build_tutor(
        arm, 0, some_images(), from_plain(TrainSettings, flags), 10
    ).teacher_updater
    assert updater is not None
    assert (updater.signal, updater.every) == (Lookahead(layers="last"), every)


def some_features() -> FeatureSet:
    labels = torch.arange(6) % 3
    return FeatureSet(torch.zeros(6, 4), labels, torch.arange(6), classes=tuple("abc"), name="")


LAST = (Lookahead(layers="last"), 2)


@pytest.mark.parametrize(
    ("arm", "data", "flags", "learns", "level"),
    [
        ("margin-loss", some_images(), {}, (Reversible(2), 5), "centred"),
        ("margin-loss", some_images(), {"level": "free"}, (Reversible(2), 5), "free"),
        ("margin-loss", some_images(), {"layers": "last"}, LAST, "centred"),
        ("margin-loss", some_features(), {}, LAST, "centred"),
        ("margin-loss", some_features(), {"student": "linear"}, LAST, "centred"),
        ("margin-loss", some_features(), {"unroll_steps": 2}, (Reversible(2), 5), "centred"),
        ("margin-loss", some_features(), {"layers": "all"}, (Reversible(2), 5), "centred"),
        ("internal-state", some_features(), {}, (Reversible(2), 5), "free"),
        ("internal-state", some_images(), {"unroll_steps": 3}, (Reversible(3), 5), "free"),
    ],
)
def test_margin_loss_learns_through_the_last_layer_of_students_of_features(
    arm, data, flags, learns, level
) -> None:
    settings = from_plain(TrainSettings, {"held_out": 3, "teacher": [arm], **flags})
    tutor = build_tutor(arm, 0, data, settings, 10)
    updater, teacher = tutor.teacher_updater, tutor.teacher
    assert updater is not None
    assert isinstance(teacher, InternalState)
    assert (updater.signal, updater.every, teacher.level) == (*learns, level)


def test_settings_stored_by_runs_with_the_former_defaults_are_read() -> None:
    former = {"level": "free", "layers": "all", "unroll_steps": 2}
    for teacher in TAUGHT_BY:
        settings = from_plain(TrainSettings, {"held_out": 3, "teacher": [teacher], **former})
        assert settings.layers == "all"


class Spare(nn.Module):
    """A student with a layer that forward does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.spare = nn.Linear(256, 3), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1))


def test_a_last_layer_that_takes_no_part_is_refused_with_the_flag_that_helps(
    pets, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(arms, "new_student", lambda *_: Spare())
    words = ["train", pets, *QUICK, "--epochs", "1", "--out", tmp_path / "run"]
    one_line(run(*words, "--layers", "last"), "spare", "--layers all")
    assert run(*words).code == 0


@pytest.mark.parametrize(
    ("arm", "objective"), [("focal", Focal(2.0)), ("gce", GeneralisedCrossEntropy(0.7))]
)
def test_an_arm_of_another_loss_descends_it(arm, objective) -> None:
    settings = from_plain(TrainSettings, {"held_out": 3, "teacher": [arm]})
    assert build_tutor(arm, 0, some_images(), settings, 10).problem.objective == objective


@pytest.mark.parametrize(("given", "rates"), [(None, (0.02, 1e-4)), (0.5, (0.5, 0.5))])
def test_the_learned_loss_learns_slower_unless_told_otherwise(given, rates) -> None:
    for arm, rate in zip(("margin-loss", "l2t-loss"), rates, strict=True):
        settings = from_plain(
            TrainSettings, {"held_out": 3, "teacher": [arm], "teacher_lr": given}
        )
        learner = build_tutor(arm, 0, some_images(), settings, 10).teacher_updater
        assert learner is not None
        assert [group["lr"] for group in learner.optimizer.param_groups] == [rate]
