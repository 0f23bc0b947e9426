"""Policies of augmentation from the command line: trained, reported, stored, exported."""

import json
import shutil

import pytest
import torch
from torch import nn

from tests.trained import (
    QUICK,
    assert_same_run,
    at_call,
    content,
    one_line,
    run,
    students,
    unchecked,
)
from tutelage.commentaries import load_commentary, save_commentary
from tutelage.signals import GradientAlignment
from tutelage.teachers import FixedAugmentation, LearnedAugmentation, LossWeigher
from tutelage.training.tutor import Tutor
from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.images import ImageSet
from tutelage_cli.train import student_training
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.names import OLA, POLICIES
from tutelage_cli.train.policies import describe_policy, policy_record
from tutelage_cli.train.settings import TrainSettings

FLAGS = ["--noise", "uniform:0.6", "--teacher", OLA, "rand-augment"]


@pytest.fixture(scope="module")
def policies(pets, tmp_path_factory):
    """A whole run, and what it printed."""
    folder = tmp_path_factory.mktemp("runs") / "policies"
    with unchecked():
        answer = run("train", pets, *QUICK, *FLAGS, "--seeds", 2, "--out", folder)
    assert answer.code == 0, answer
    return folder, answer.out


def test_policies_are_told_and_drawn_without_a_word_of_weights(policies):
    folder, out = policies
    assert f"The policy of {OLA} keeps most often" in " ".join(out.split())
    assert "times the weight of right" not in out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"Which augmentations were kept: {OLA}" in page
    assert "Expected level, 0 to 30" in page
    assert "Weights by the teacher" not in page
    assert page.count("lowest to highest seed. Where all logits") == 1


def test_a_policy_that_has_not_moved_is_not_told_by_its_order():
    assert "is where it started" in describe_policy(policy_record(OLA, [LearnedAugmentation()]))


def test_the_learned_policy_is_the_run_s_commentary_and_moved(policies):
    folder, _ = policies
    assert (folder / "commentary").exists()
    for seed in range(2):
        stored = folder / "students" / f"{OLA}-seed{seed}" / "commentary"
        teacher = load_commentary(stored, nn.Module())
        assert isinstance(teacher, LearnedAugmentation)
        assert int(teacher.taken) == 5
        assert all(p.abs().max() > 0.1 for p in teacher.parameters())
    assert not (folder / "students" / "rand-augment-seed0" / "commentary").exists()


def test_a_run_stopped_between_a_policy_s_step_and_its_judge_ends_the_same(
    pets, policies, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    monkeypatch.setattr(student_training, "POLL_EVERY", -1.0)
    train = student_training.train_student
    begun = []

    def stopped_once(job, material, stopped):
        # the policy's first step is the second of all; the third judges it
        if job.arm == OLA and not begun:
            begun.append(job)
            step = at_call(Tutor.step, 2, (out / "stop").touch)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Tutor, "step", step)
                return train(job, material, stopped)
        return train(job, material, stopped)

    monkeypatch.setattr("tutelage_cli.train.worker.train_student", stopped_once)
    assert run("train", pets, *QUICK, *FLAGS, "--seeds", 2, "--out", out).code == 130
    assert not lines_of(out)
    assert run("train", "--resume", out).code == 0
    assert_same_run(out, policies[0])


def lines_of(out):
    return [s for s in students(out) if OLA in s.name and (s / "metrics.jsonl").exists()]


def some_images() -> ImageSet:
    images = torch.arange(6 * 256).view(6, 1, 16, 16).to(torch.uint8)
    return ImageSet(images, torch.arange(6) % 3, torch.arange(6), ("a", "b", "c"), name="none")


@pytest.mark.parametrize("arm", POLICIES)
def test_policies_know_what_batches_are_normalised_by(arm):
    settings = from_plain(TrainSettings, {"held_out": 3, "teacher": [arm]})
    tutor = build_tutor(arm, 0, some_images(), settings, 10)
    teacher = tutor.teacher
    assert isinstance(teacher, LearnedAugmentation | FixedAugmentation)
    assert (teacher.mean, teacher.std) == tuple(v.tolist() for v in statistics(some_images()))
    assert (tutor.teacher_updater is not None) == (arm == OLA)


def test_the_learned_policy_alternates_at_the_paper_s_rate():
    settings = from_plain(TrainSettings, {"held_out": 3, "teacher": [OLA]})
    learner = build_tutor(OLA, 0, some_images(), settings, 10).teacher_updater
    assert learner is not None
    assert isinstance(learner.signal, GradientAlignment)
    assert (learner.every, learner.signal.evaluate_on) == (2, "plain")
    assert [group["lr"] for group in learner.optimizer.param_groups] == [0.1]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--teacher", "rand-augment", "--teacher-lr", "1"], ["--teacher-lr", OLA]),
        (["--teacher", OLA, "--unroll-steps", "1"], ["--unroll-steps does nothing"]),
        (["--teacher", OLA, "--metric", "expected-accuracy"], ["metric does nothing"]),
        (["--teacher", "randaugment"], ["Did you mean 'rand-augment'"]),
    ],
)
def test_wrong_use_is_told(words, parts, pets, tmp_path):
    one_line(run("train", pets, *QUICK, *words, "--out", tmp_path / "run"), *parts)


def test_learning_it_over_fresh_students_is_refused_with_the_way_out():
    one_line(run("commentary", "learn", "--teacher", OLA), f"tutelage train --teacher {OLA}")


def test_what_was_learned_is_exported_for_the_size_of_its_images(policies, tmp_path):
    folder = tmp_path / "it"
    shutil.copytree(policies[0] / "commentary", folder)
    answer = run("commentary", "export", folder)
    assert answer.code == 0, answer
    assert "for images of 16x16 pixels" in answer.out
    assert "Approximate, torchvision has none: blur, cutout" in answer.out
    policy = json.loads((tmp_path / "it.json").read_text())
    assert policy["size"] == [16, 16]
    assert len(policy["operations"]) == 19
    assert sum(policy["count"]) == pytest.approx(1)
    other = tmp_path / "other.json"
    assert run("commentary", "export", folder, "--size", 8, 9, "--out", other).code == 0
    assert content(other)["size"] == [8, 9]


def test_what_cannot_be_exported_is_told(tmp_path):
    save_commentary(LossWeigher(), tmp_path / "loss")
    one_line(run("commentary", "export", tmp_path / "loss"), "LossWeigher", "only a learned")
    save_commentary(LearnedAugmentation(), tmp_path / "policy")
    policy = tmp_path / "policy"
    one_line(run("commentary", "export", policy), "give --size HEIGHT WIDTH")
    one_line(run("commentary", "export", policy, "--size", 0, 4), "allowed: 1 and above")
    one_line(run("commentary", "export", tmp_path / "none"), "no commentary")
