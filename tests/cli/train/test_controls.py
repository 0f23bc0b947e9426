"""Controls of a study: each is what somebody would write by hand with the checked examples."""

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from tests.cli.train.conftest import TAUGHT
from tests.trained import (
    QUICK,
    assert_same_run,
    at_call,
    checkpoint,
    content,
    found,
    of_version,
    one_line,
    run,
    same,
    unchecked,
)
from tests.trained import lines as history
from tutelage.commentaries import load_commentary
from tutelage.crossfit import stratified_folds
from tutelage.crossfit.chance import Predicted
from tutelage.crossfit.transitions import conditioned
from tutelage.errors import UsageError
from tutelage.models import build_student
from tutelage.randomness import mixed_seed
from tutelage.teachers import OutOfFoldTargets
from tutelage.training.tutor import Tutor
from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.train import student_training, worker
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.controls import folds, tuning
from tutelage_cli.train.controls.folds import (
    CHECKPOINTS,
    PLAIN,
    STAGES,
    TRIED,
    chosen_distilled,
    chosen_settings,
    content_digests,
    fold_seed,
    fold_stages_of,
    folds_of,
    read_out_of_fold,
    read_predictions,
)
from tutelage_cli.train.controls.job_stages import steps_of
from tutelage_cli.train.controls.plan_parts import load_trained
from tutelage_cli.train.controls.plans import plan_of
from tutelage_cli.train.controls.tuning import ControlInputs
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import open_streams, read_source, seed_material
from tutelage_cli.train.names import CONTROLS, OUT_OF_FOLD, takes_chosen_decay
from tutelage_cli.train.settings import TrainSettings

WITHOUT = ["--controls", "none"]
THREE = [word for word in QUICK if word not in WITHOUT]
THREE[THREE.index("--epochs") + 1] = "3"
"""three epochs of five steps, so that folds have one, and all controls"""
WORDS = [*THREE, "--teacher", "loss", "--noise", "uniform:0.6", "--rounds", "2"]
FOLDS = 5
RATE, DECAY, STEPS = 0.1, 5e-4, 15
CPU = torch.device("cpu")
Loss = Callable[[Tensor, Tensor], Tensor]


@pytest.fixture(scope="module")
def controlled(pets, tmp_path_factory) -> Path:
    """A whole run with all controls; not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "controlled"
    with unchecked():
        answer = run("train", pets, *WORDS, "--out", out)
    assert answer.code == 0, answer
    (out.parent / "printed").write_text(answer.out, encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def data(controlled) -> Any:
    """Settings, data and batches of that run."""
    settings = from_plain(TrainSettings, content(controlled / "settings.json"))
    material = seed_material(read_source(settings), settings, 0)
    return SimpleNamespace(
        settings=settings,
        material=material,
        streams=open_streams(material, settings, 0, CPU),
        job=Job(controlled, "untaught", 0, settings),
    )


def new() -> nn.Module:
    return build_student("cnn", classes=3, channels=1, size=16, seed=0)


def batches(data: Any, images: Any) -> Batches:
    mean, std = statistics(data.material.train)
    return Batches(images, 8, 0, CollateImages(mean, std), CPU)


def endless(of: Batches) -> Iterator[Any]:
    epoch = 0
    while True:
        yield from of.epoch(epoch)
        epoch += 1


def by_hand(
    model: nn.Module,
    feed: Batches,
    targets: Tensor,
    loss: Loss,
    *,
    rates: list[float],
    decay: float = DECAY,
) -> nn.Module:
    """Plain training in plain torch; targets by the place of an example in the feed."""
    place = {number: row for row, number in enumerate(feed.examples.ids.tolist())}
    optimizer = SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=decay)
    model.train()
    for rate, batch in zip(rates, endless(feed), strict=False):
        optimizer.param_groups[0]["lr"] = rate
        rows = torch.tensor([place[number] for number in batch.ids.tolist()])
        optimizer.zero_grad()
        loss(model(batch.inputs), targets[rows]).backward()
        optimizer.step()
    return model


def schedule(rate: float = RATE, steps: int = STEPS) -> list[float]:
    """Divided by ten after two thirds and after five sixths, epochs rounded down."""
    per_epoch = steps // 3
    return [rate] * 2 * per_epoch + [rate / 100] * per_epoch  # int(5/6 of 3 epochs) is 2, too


def assert_trained(controlled: Path, arm: str, model: nn.Module) -> None:
    stored = checkpoint(controlled / "students" / f"{arm}-seed0")["tutor"]["student"]
    for name, value in model.state_dict().items():
        # the weighted mean rounds otherwise than the plain one
        torch.testing.assert_close(stored[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_every_control_is_an_arm_in_one_table_and_report(controlled) -> None:
    summary = content(controlled / "summary.json")
    assert list(summary["arms"]) == ["untaught", "loss", *CONTROLS]
    printed = (controlled.parent / "printed").read_text(encoding="utf-8")
    page = (controlled / "report.html").read_text(encoding="utf-8")
    for arm, results in summary["arms"].items():
        assert f"\n{arm} " in printed
        assert f'<th scope="row">{arm}</th>' in page
        file = content(controlled / "students" / f"{arm}-seed0" / "result.json")
        assert results[0]["test_accuracy"] == file["test_accuracy"]
    assert summary["verdict"][0].startswith("No verdict: one seed")
    assert summary["verdict"][0] in page


def test_every_final_student_takes_as_many_steps_as_the_untaught_one(controlled) -> None:
    for arm in CONTROLS:
        if arm not in ("fine-tuned", "early-stopped", "regularised"):
            last = history(controlled / "students" / f"{arm}-seed0")[-1]
            assert (last["epoch"], last["step"]) == (3, STEPS)
    for fold in range(1, FOLDS):  # the first is a trial's student
        last = history(controlled / "folds" / f"folds-seed0-{fold}")[-1]
        assert (last["epoch"], last["step"]) == (CHECKPOINTS, 2 * CHECKPOINTS)


def test_what_a_control_builds_on_counts_in_its_seconds(controlled) -> None:
    def seconds(*parts: str) -> float:
        return content(controlled.joinpath(*parts) / "result.json")["seconds"]

    def of_folds(arm: str) -> float:
        return sum(seconds("folds", f"{arm}-seed0-{fold}") for fold in range(FOLDS))

    for arm in ("pruned", "forward-corrected"):
        assert seconds("students", f"{arm}-seed0") > of_folds("folds") > 0
    kinds = ("folds", "corrected-folds", "distilled-folds")
    trials = sum(seconds("folds", f"fold-trials-seed0-{k}") for k in range(len(TRIED)))
    stronger = seconds("folds", f"fold-trials-seed0-{len(TRIED)}")
    assert seconds("students", "loss-seed0") > trials + stronger
    assert seconds("students", "regularised-seed0") > trials + stronger > stronger > 0
    decays = sum(seconds("folds", f"distilled-trials-seed0-{k}") for k in range(2))
    every = sum(map(of_folds, kinds)) + trials + decays
    assert seconds("students", "cross-fitted-seed0") > every
    untaught = seconds("students", "untaught-seed0")
    assert seconds("students", "fine-tuned-seed0") > untaught
    assert seconds("students", "early-stopped-seed0") == untaught


def test_held_out_examples_of_students_that_were_trained_on_them_are_no_measure(
    controlled,
) -> None:
    kept = {
        folder.name.removesuffix("-seed0")
        for folder in (controlled / "students").iterdir()
        if (folder / "held-out.parquet").exists()
    }
    assert kept == {"untaught", "loss", "early-stopped", "regularised"}


def test_checked_only_is_plain_training_on_the_checked_examples(controlled, data) -> None:
    chosen = content(controlled / "students" / "checked-only-seed0" / "chosen.json")
    assert chosen["lr"] in (0.1, pytest.approx(0.01))
    assert chosen["weight_decay"] in (5e-4, pytest.approx(5e-3))
    checked = data.material.held_out
    model = by_hand(
        new(),
        batches(data, checked),
        checked.labels,
        F.cross_entropy,
        rates=schedule(chosen["lr"]),
        decay=chosen["weight_decay"],
    )
    assert_trained(controlled, "checked-only", model)


def test_fine_tuned_goes_on_from_the_untaught_student(controlled, data) -> None:
    chosen = content(controlled / "students" / "fine-tuned-seed0" / "chosen.json")
    assert chosen["lr"] in map(pytest.approx, (0.03, 0.01, 0.003))
    assert chosen["steps"] in (1, 2)  # of 15: a fortieth and a sixteenth, and an eighth
    model, checked = new(), data.material.held_out
    untaught = checkpoint(controlled / "students" / "untaught-seed0")["tutor"]["student"]
    model.load_state_dict(untaught)
    rates = [chosen["lr"]] * chosen["steps"]
    by_hand(model, batches(data, checked), checked.labels, F.cross_entropy, rates=rates)
    assert_trained(controlled, "fine-tuned", model)
    assert len(history(controlled / "students" / "fine-tuned-seed0")) == 4


def log_likelihood(model: nn.Module, feed: Batches) -> Tensor:
    model.eval()
    with torch.no_grad():
        batch = next(feed.whole(100))
        return (
            model(batch.inputs)
            .double()
            .log_softmax(1)[torch.arange(len(batch.targets)), batch.targets]
        )


def test_settings_are_chosen_by_cross_validated_log_likelihood(controlled, data) -> None:
    chosen = content(controlled / "students" / "fine-tuned-seed0" / "chosen.json")
    untaught = checkpoint(controlled / "students" / "untaught-seed0")["tutor"]["student"]
    checked = data.material.held_out
    plan = dict[tuple[float, int], float]()
    fold = stratified_folds(checked.labels, 4, seed=mixed_seed(11, 0))
    for rate in (0.3 * RATE, 0.1 * RATE, 0.03 * RATE):
        for steps in (1, 2):
            said = []
            for k in range(4):
                model = new()
                model.load_state_dict(untaught)
                others = checked.rows((fold != k).nonzero()[:, 0])
                ours = checked.rows((fold == k).nonzero()[:, 0])
                rates = [rate] * steps
                by_hand(
                    model, batches(data, others), others.labels, F.cross_entropy, rates=rates
                )
                said.append(log_likelihood(model, batches(data, ours)))
            plan[rate, steps] = float(torch.cat(said).mean())
    best = max(plan, key=lambda pair: plan[pair])
    assert (chosen["lr"], chosen["steps"]) == (pytest.approx(best[0]), best[1])
    assert chosen["log_likelihood"] == pytest.approx(plan[best], rel=1e-4)


def test_checked_included_trains_on_both(controlled, data) -> None:
    train, checked = data.material.train, data.material.held_out
    whole = train.concatenated(checked)
    labels = torch.cat([train.labels, checked.labels])
    model = by_hand(new(), batches(data, whole), labels, F.cross_entropy, rates=schedule())
    assert_trained(controlled, "checked-included", model)


def test_early_stopped_is_the_untaught_student_after_its_best_epoch(controlled, data) -> None:
    train = data.material.train
    feed, held_out = batches(data, train), batches(data, data.material.held_out)
    best: tuple[float, int, nn.Module] = (-np.inf, 0, new())
    for epoch in (1, 2, 3):
        model = by_hand(
            new(), feed, train.labels, F.cross_entropy, rates=schedule()[: 5 * epoch]
        )
        said = float(log_likelihood(model, held_out).mean())
        best = max(best, (said, epoch, deepcopy(model)), key=lambda found: found[0])
    assert len(history(controlled / "students" / "early-stopped-seed0")) == best[1]
    assert_trained(controlled, "early-stopped", best[2])


def of_fold(data: Any, fold: int, arm: str) -> Any:
    """A fold's student of a stage, the training rows of others and of its own."""
    part = folds_of(data.material, data.job)
    model = build_student("cnn", classes=3, channels=1, size=16, seed=0)
    state = checkpoint(data.job.with_arm(arm, fold).folder)["tutor"]["student"]
    model.load_state_dict(state)
    return model, (part != fold).nonzero()[:, 0], (part == fold).nonzero()[:, 0]


def rates_of_a_fold(feed: Batches) -> list[float]:
    """Of a run this short students of folds take all steps, in six parts."""
    each = round(3 * len(feed) / CHECKPOINTS)
    return [RATE] * 4 * each + [RATE / 10] * each + [RATE / 100] * each


def predicted(model: nn.Module, data: Any, examples: Any) -> Tensor:
    model.eval()
    with torch.no_grad():
        return model(next(batches(data, examples).whole(100)).inputs).softmax(1)


@pytest.mark.parametrize(("count", "steps"), [(2, 500), (3, 667), (5, 800)])
def test_the_plan_counts_epochs_over_the_other_folds(count, steps) -> None:
    settings = TrainSettings(epochs=30, folds=count)
    job = Job(Path("run"), "untaught", 0, settings).with_arm(PLAIN, 1)
    assert steps_of(job, 100) == steps  # a third of the epochs of 3,000 steps


def test_a_fold_is_predicted_by_a_student_that_never_saw_it(data) -> None:
    train = data.material.train
    part = folds_of(data.material, data.job)
    assert part.bincount().tolist() == [8, 8, 8, 8, 7]
    out_of_fold = read_out_of_fold(data.job, PLAIN, data.material)
    decay = DECAY * chosen_settings(data.job).decay_factor
    for fold in range(FOLDS):
        others = train.rows((part != fold).nonzero()[:, 0])
        ours = (part == fold).nonzero()[:, 0]
        seed = fold_seed(data.job.with_arm(PLAIN, fold))
        model = build_student("cnn", classes=3, channels=1, size=16, seed=seed)
        feed = batches(data, others)
        rates = rates_of_a_fold(feed)
        by_hand(model, feed, others.labels, F.cross_entropy, rates=rates, decay=decay)
        wanted = predicted(model, data, train.rows(ours))
        torch.testing.assert_close(out_of_fold.train[ours], wanted, rtol=1e-3, atol=1e-4)


def test_the_settings_of_folds_are_those_that_predict_given_labels_best(data) -> None:
    train, part, said = data.material.train, folds_of(data.material, data.job), []
    ours, others = (part == 0).nonzero()[:, 0], (part != 0).nonzero()[:, 0]
    for place, settings in enumerate(TRIED):
        seed = fold_seed(data.job.with_arm("fold-trials", place))
        model = build_student("cnn", classes=3, channels=1, size=16, seed=seed)
        feed = batches(data, train.rows(others))
        rates = rates_of_a_fold(feed)
        labels, decay = train.labels[others], DECAY * settings.decay_factor
        by_hand(model, feed, labels, F.cross_entropy, rates=rates, decay=decay)
        log_p = predicted(model, data, train.rows(ours)).double().clamp(min=1e-6).log()
        at_temperatures = [
            F.cross_entropy(log_p / 10**power, train.labels[ours])
            for power in torch.linspace(-1, 1, 41).tolist()
        ]
        said.append(-float(min(at_temperatures)))
    for place, likelihood in enumerate(said):
        stored = content(data.job.with_arm("fold-trials", place).folder / "result.json")
        assert stored["log_likelihood"] == pytest.approx(likelihood, abs=1e-4)
    chosen = chosen_settings(data.job)
    assert said[TRIED.index(chosen)] == max(said)


def test_regularised_trains_on_all_given_labels_as_the_best_trial_does(
    controlled, data
) -> None:
    train, settings = data.material.train, chosen_settings(data.job, stronger=True)
    feed, decay = batches(data, train), DECAY * settings.decay_factor
    rates = rates_of_a_fold(feed)
    model = by_hand(new(), feed, train.labels, F.cross_entropy, rates=rates, decay=decay)
    assert_trained(controlled, "regularised", model)


def test_taught_students_have_the_weight_decay_of_regularised(controlled, data) -> None:
    chosen = chosen_settings(data.job, stronger=True)
    of_arm = {arm: data.job.with_arm(arm) for arm in ("untaught", "loss")}
    decays = {}
    for arm, job in of_arm.items():
        plan = plan_of(ControlInputs(job, data.material, data.streams, lambda: False))
        decays[arm] = plan.tutor.optimizer.param_groups[0]["weight_decay"]
        assert plan.epochs == 3
    assert decays == {"untaught": DECAY, "loss": chosen.decay_factor * DECAY}
    group = checkpoint(controlled / "students" / "loss-seed0")["tutor"]["optimizer"]
    assert group["param_groups"][0]["weight_decay"] == decays["loss"]


@pytest.mark.parametrize(
    ("arm", "arms", "same"),
    [
        ("margin-loss", CONTROLS, False),
        ("focal", CONTROLS, False),
        ("weights", CONTROLS, False),
        ("commentary", CONTROLS, True),
        ("margin-loss", (), True),  # nothing has chosen it
        ("margin-loss", ("pruned",), True),
        ("learned-augmentation", CONTROLS, True),
        ("gce", CONTROLS, True),  # descends another loss
        ("l2t-loss", CONTROLS, True),
        (OUT_OF_FOLD, CONTROLS, True),  # has that of cross-fitting
        ("untaught", CONTROLS, True),
        ("pruned", CONTROLS, True),
    ],
)
def test_which_arms_take_a_chosen_weight_decay(arm, arms, same) -> None:
    assert takes_chosen_decay(arm, arms) != same


def refined(p: Tensor, given: Tensor, rough: Tensor) -> Tensor:
    """The joint of predictions and given labels, with a prior."""
    counts = p.T @ F.one_hot(given, len(rough)).to(p) + 10 * rough
    return counts / counts.sum(1, keepdim=True)


def transitions_of(data: Any, **shrinkage: float) -> Tensor:
    """Which label each class is given, as the plain students of folds show."""
    plain = read_out_of_fold(data.job, PLAIN, data.material)
    return fold_stages_of(data.material, data.job).transitions(plain, **shrinkage)


def test_a_corrected_fold_goes_on_from_the_plain_one_and_sees_no_checked_example(
    data,
) -> None:
    train, checked = data.material.train, data.material.held_out
    transitions = transitions_of(data)
    out_of_fold = read_out_of_fold(data.job, "corrected-folds", data.material)
    decay = DECAY * max(1, chosen_settings(data.job).decay_factor / 2)
    checked_folds = fold_stages_of(data.material, data.job).checked_folds

    def loss(logits: Tensor, column: Tensor) -> Tensor:
        return -(logits.softmax(1) * column).sum(1).log().mean()

    for fold in (0, 3):
        model, others, ours = of_fold(data, fold, PLAIN)
        feed, columns = batches(data, train.rows(others)), transitions.T[train.labels[others]]
        by_hand(model, feed, columns, loss, rates=rates_of_a_fold(feed), decay=decay)
        wanted = predicted(model, data, train.rows(ours))
        torch.testing.assert_close(out_of_fold.train[ours], wanted, rtol=1e-3, atol=1e-4)
        own = (checked_folds == fold).nonzero()[:, 0]
        wanted = predicted(model, data, checked.rows(own))
        torch.testing.assert_close(out_of_fold.checked[own], wanted, rtol=1e-3, atol=1e-4)


def posteriors(data: Any, arm: str) -> Tensor:
    """Of the right classes of all training examples, by the students of folds of a stage."""
    given = data.material.train.labels
    rough = transitions_of(data)
    p = read_out_of_fold(data.job, arm, data.material).train
    joint = p * refined(p, given, rough)[:, given].T
    return joint / joint.sum(1, keepdim=True)


def test_a_distilled_fold_is_a_fresh_student_of_the_posteriors_of_the_others(data) -> None:
    train, checked = data.material.train, data.material.held_out
    believed = posteriors(data, "corrected-folds")
    out_of_fold = read_out_of_fold(data.job, "distilled-folds", data.material)
    decay = DECAY * chosen_distilled(data.job, data.material).decay_factor
    part = folds_of(data.material, data.job)
    checked_folds = fold_stages_of(data.material, data.job).checked_folds
    for fold in (0, 3):
        others, ours = (part != fold).nonzero()[:, 0], (part == fold).nonzero()[:, 0]
        right = checked.rows((checked_folds != fold).nonzero()[:, 0].repeat(3))
        whole = batches(data, train.rows(others).concatenated(right))
        targets = torch.cat([believed[others], F.one_hot(right.labels, 3).float()])
        seed = fold_seed(data.job.with_arm("distilled-folds", fold))
        model = build_student("cnn", classes=3, channels=1, size=16, seed=seed)
        rates = rates_of_a_fold(whole)
        by_hand(model, whole, targets, F.cross_entropy, rates=rates, decay=decay)
        wanted = predicted(model, data, train.rows(ours))
        torch.testing.assert_close(out_of_fold.train[ours], wanted, rtol=1e-3, atol=1e-4)
        own = (checked_folds == fold).nonzero()[:, 0]
        wanted = predicted(model, data, checked.rows(own))
        torch.testing.assert_close(out_of_fold.checked[own], wanted, rtol=1e-3, atol=1e-4)


def test_weight_decays_are_tried_on_posteriors_without_a_checked_example(data) -> None:
    train, checked = data.material.train, data.material.held_out
    others = (folds_of(data.material, data.job) != 0).nonzero()[:, 0]
    targets = posteriors(data, "corrected-folds")[others]
    decay_factor, tried = chosen_settings(data.job).decay_factor, []
    factors = sorted({decay_factor, max(1, decay_factor / 4)})[::-1]
    if len(factors) == 1:
        pytest.skip("the plain students have the decay of the run: nothing is tried")
    for place, factor in enumerate(factors):
        job = data.job.with_arm("distilled-trials", place)
        model = build_student("cnn", classes=3, channels=1, size=16, seed=fold_seed(job))
        feed = batches(data, train.rows(others))
        rates, decay = rates_of_a_fold(feed), DECAY * factor
        by_hand(model, feed, targets, F.cross_entropy, rates=rates, decay=decay)
        found = read_predictions(job, content_digests(data.material)).checked
        wanted = predicted(model, data, checked)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
        tried.append(factor)
    assert chosen_distilled(data.job, data.material).decay_factor in tried


def confident_learning(p: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Confident learning, written out."""
    thresholds = [p[given == c, c].mean() for c in range(p.shape[1])]
    found = np.zeros(len(p), dtype=bool)
    for row, label in enumerate(given):
        likely = [c for c in range(p.shape[1]) if p[row, c] >= thresholds[c] - 1e-6]
        if likely:
            best = max(likely, key=lambda c: p[row, c])
            found[row] = best != label and p[row].argmax() != label
    return found


def test_pruned_trains_on_exactly_the_rows_that_confident_learning_leaves(
    controlled, data
) -> None:
    train, checked = data.material.train, data.material.held_out
    p = read_out_of_fold(data.job, PLAIN, data.material).train.double().numpy()
    wrong = confident_learning(p, train.labels.numpy())
    assert 0 < wrong.sum() < len(wrong)
    table = pq.read_table(controlled / "students" / "pruned-seed0" / "examples.parquet")
    assert [w == 0 for w in table["weight"].to_pylist()] == wrong.tolist()
    left = torch.from_numpy(~wrong).nonzero()[:, 0]
    case = ControlInputs(
        data.job.with_arm("pruned"), data.material, data.streams, lambda: False
    )
    plan = plan_of(case)
    seen = {n for epoch in range(3) for b in plan.train.epoch(epoch) for n in b.ids.tolist()}
    whole = train.rows(left).concatenated(checked)
    assert seen == set(whole.ids.tolist())
    model = by_hand(
        new(), batches(data, whole), whole.labels, F.cross_entropy, rates=schedule()
    )
    assert_trained(controlled, "pruned", model)


def test_transitions_are_the_mean_predictions_of_the_checked_of_each_class(
    controlled, data
) -> None:
    stored = [
        np.load(controlled / "folds" / f"folds-seed0-{fold}" / "out-of-fold.npz")["checked"]
        for fold in range(FOLDS)
    ]
    p = np.stack(stored).astype(np.float64).mean(0)
    labels = data.material.held_out.labels.numpy()
    kept = p[np.arange(len(p)), labels].mean()
    wanted = np.empty((3, 3))
    for c in range(3):  # a prior that counts as one example of the class
        others = p.mean(0) * (np.arange(3) != c)
        prior = (1 - kept) * others / others.sum()
        prior[c] = kept
        wanted[c] = (p[labels == c].sum(0) + prior) / ((labels == c).sum() + 1)
    transitions = transitions_of(data, shrinkage=0.0)
    np.testing.assert_allclose(transitions.numpy(), wanted, rtol=1e-5)
    moved = transitions_of(data)
    np.testing.assert_allclose(moved.numpy(), 0.7 * wanted + 0.3 * np.eye(3), rtol=1e-5)


def test_transitions_are_moved_to_the_identity_as_far_as_they_must() -> None:
    clear = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    assert conditioned(clear).equal(clear)
    unsure = torch.tensor([[0.51, 0.49], [0.48, 0.52]])
    found = conditioned(unsure)
    least = np.linalg.svd(found.numpy(), compute_uv=False).min()
    assert 0.25 <= least < 0.265
    share = (found - unsure)[0, 0] / 0.49
    torch.testing.assert_close(found, (1 - share) * unsure + share * torch.eye(2))


def of_columns(logits: Tensor, column: Tensor) -> Tensor:
    """The loss of given labels by the column of the transitions that each has."""
    return -(logits.softmax(1) * column).sum(1).log().mean()


def columns(data, transitions: Tensor) -> Tensor:
    of_given = transitions.T[data.material.train.labels]
    return torch.cat([of_given, F.one_hot(data.material.held_out.labels, 3).float()])


def test_forward_corrected_descends_the_corrected_loss(controlled, data) -> None:
    targets = columns(data, conditioned(transitions_of(data, shrinkage=0.0)))
    feed = batches(data, data.material.train.concatenated(data.material.held_out))
    model = by_hand(new(), feed, targets, of_columns, rates=schedule())
    assert_trained(controlled, "forward-corrected", model)


def test_cross_fitted_trains_under_the_loss_that_students_of_folds_gained_more_by(
    controlled, data
) -> None:
    train, checked = data.material.train, data.material.held_out
    believed = posteriors(data, "distilled-folds")
    stages = [read_out_of_fold(data.job, arm, data.material) for arm in STAGES]
    found = fold_stages_of(data.material, data.job)
    loss, targets = F.cross_entropy, torch.cat([believed, F.one_hot(checked.labels, 3).float()])
    if found.gains_by_correction(stages):
        refined = found.refined_transitions(stages[2], stages[0])
        loss, targets = of_columns, columns(data, conditioned(refined))
    decay = DECAY * chosen_distilled(data.job, data.material).decay_factor
    feed, rates = batches(data, train.concatenated(checked)), schedule()
    model = by_hand(new(), feed, targets, loss, rates=rates, decay=decay)
    assert_trained(controlled, "cross-fitted", model)
    how = "given labels, loss corrected" if loss is of_columns else "posteriors"
    assert (
        content(controlled / "students" / "cross-fitted-seed0" / "selected.json")["trained_on"]
        == how
    )
    table = pq.read_table(controlled / "students" / "cross-fitted-seed0" / "examples.parquet")
    own = believed[torch.arange(len(train)), train.labels]
    assert table["weight"].to_numpy() == pytest.approx(own.numpy(), rel=1e-5)


def stop_after(monkeypatch: pytest.MonkeyPatch, out: Path, steps: int) -> None:
    """Ask a run to stop before one of its students' steps, those of choosing included."""
    taken, step = [0], Tutor.step

    def counted(self: Tutor, *args: Any) -> Any:
        taken[0] += 1
        if taken[0] == steps:
            (out / "stop").touch()
        return step(self, *args)

    monkeypatch.setattr(student_training, "POLL_EVERY", -1.0)
    train = worker.train_student

    def armed(*args: Any) -> bool:
        monkeypatch.setattr(Tutor, "step", counted)
        return train(*args)

    monkeypatch.setattr(worker, "train_student", armed)


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize("every", [37, 64])
def test_stopped_again_and_again_in_controls_is_the_unbroken_run(
    controlled, pets, tmp_path, monkeypatch, every
) -> None:
    out, stops = tmp_path / "run", 0
    words: list[object] = ["train", pets, *WORDS, "--out", out]
    while True:
        with monkeypatch.context() as patch:
            stop_after(patch, out, every)
            code = run(*words).code
        words = ["train", "--resume", out]
        if code == 0:
            break
        assert code == 130
        stops += 1
        assert stops < 60
    assert stops > 2
    assert_same_run(controlled, out)
    assert found(out).keys() == found(controlled).keys()
    for file in sorted(controlled.glob("folds/*/out-of-fold.npz")):
        with np.load(file) as one, np.load(out / file.relative_to(controlled)) as other:
            assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.usefixtures("report_in_a_word")
def test_two_processes_train_the_same_controls_as_one(controlled, pets, tmp_path) -> None:
    words = [
        *WORDS[: WORDS.index("--jobs")],
        "--jobs",
        "2",
        *WORDS[WORDS.index("--jobs") + 2 :],
    ]
    answer = run("train", pets, *words, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    assert_same_run(controlled, tmp_path / "run")
    assert answer.out.count("trained folds, seed 0, fold") == FOLDS
    assert answer.out.count("trained corrected-folds, seed 0, fold") == FOLDS
    assert answer.out.count("trained distilled-folds, seed 0, fold") == FOLDS


@pytest.mark.usefixtures("report_in_a_word")
def test_settings_of_folds_that_diverge_are_not_chosen(pets, tmp_path, monkeypatch) -> None:
    words = [*WORDS, "--controls", "pruned", "--out", tmp_path / "run"]
    monkeypatch.setattr(
        folds, "TRIED", (folds.FoldSettings(1, 1e9), folds.FoldSettings(1 / 3, 1))
    )
    answer = run("train", pets, *words)
    assert answer.code == 0, answer
    settings = from_plain(TrainSettings, content(tmp_path / "run" / "settings.json"))
    job = Job(tmp_path / "run", "untaught", 0, settings)
    assert chosen_settings(job) == folds.FoldSettings(1 / 3, 1)
    for file in (tmp_path / "run" / "folds").glob("fold-trials-*/result.json"):
        file.write_text(json.dumps(content(file) | {"log_likelihood": None}), "utf-8")
    with pytest.raises(UsageError, match="All untaught students of a fold of seed 0 diverged"):
        chosen_settings(job)


@pytest.mark.usefixtures("report_in_a_word")
def test_only_the_controls_that_are_named_are_trained_and_what_they_need(
    pets, tmp_path
) -> None:
    out = tmp_path / "run"
    words = ["--controls", "pruned", "early-stopped"]
    answer = run("train", pets, *WORDS, *words, "--out", out)
    assert answer.code == 0, answer
    arms = content(out / "summary.json")["arms"]
    assert list(arms) == ["untaught", "loss", "early-stopped", "pruned"]
    kinds = {p.name.split("-seed")[0] for p in (out / "folds").iterdir()}
    assert kinds == {"folds", "fold-trials"}


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["prune"], ("Unknown control 'prune'", "Did you mean 'pruned'?", "fine-tuned")),
        (["all", "pruned"], ("controls is all pruned", "all or none alone")),
        (["none", "pruned"], ("controls is none pruned", "all or none alone")),
        (["pruned", "pruned"], ("controls names one twice",)),
    ],
)
def test_controls_that_are_none_are_refused_in_one_line(pets, tmp_path, names, parts) -> None:
    words = [*THREE, "--controls", *names, "--out", tmp_path / "run"]
    one_line(run("train", pets, *words), *parts)


def test_too_few_examples_for_folds_are_refused_in_one_line(pets, tmp_path) -> None:
    words = [*THREE, "--limit", "4", "--batch-size", "2", "--teacher", "loss"]
    answer = run("train", pets, *words, "--out", tmp_path / "run")
    one_line(answer, "5 folds", "4 images to train on", "--controls none")


def test_one_checked_example_is_enough_for_every_control(pets, tmp_path) -> None:
    words = [*THREE, "--held-out", "1", "--teacher", "loss", "--student", "resnet8"]
    words += ["--folds", "2"]  # one of them without a checked example
    answer = run("train", pets, *words, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    assert not list((tmp_path / "run").glob("students/*/chosen.json"))


def test_a_run_of_a_release_without_controls_goes_on_without_them(trained, tmp_path) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    stored = content(out / "settings.json")
    assert stored.pop("controls") == ["none"]
    (out / "settings.json").write_text(json.dumps(stored), encoding="utf-8")
    answer = run("train", "--resume", out)
    assert answer.code == 0, answer
    assert list(content(out / "summary.json")["arms"]) == ["untaught", *TAUGHT[1:3]]


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize("damage", ["cut", "other labels", "gone"])
def test_damaged_predictions_of_a_fold_are_told_in_one_line(
    controlled, tmp_path, damage
) -> None:
    out = tmp_path / "run"
    shutil.copytree(controlled, out)
    (out / "students" / "pruned-seed0" / "result.json").unlink()
    file = out / "folds" / "folds-seed0-2" / "out-of-fold.npz"
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "gone":
        file.unlink()
    else:
        with np.load(file) as stored:
            train, checked = stored["train"], stored["checked"]
        np.savez(file, train=train, checked=checked, content=np.array("0" * 32))
    one_line(run("train", "--resume", out), file, "is damaged", f"Delete {file.parent}, ")
    shutil.rmtree(file.parent)
    assert run("train", "--resume", out).code == 0
    assert_same_run(controlled, out)


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize(
    ("arm", "name"), [("fine-tuned", "state.pt"), ("early-stopped", "best.pt")]
)
def test_a_missing_checkpoint_of_the_untaught_is_told_in_one_line(
    controlled, tmp_path, arm, name
) -> None:
    out = tmp_path / "run"
    shutil.copytree(controlled, out)
    (out / "students" / f"{arm}-seed0" / "result.json").unlink()
    file = out / "students" / "untaught-seed0" / "checkpoint" / name
    if name == "best.pt":
        file.unlink()
    else:
        shutil.rmtree(file.parent)
    remedy = f"Delete {file.parents[1]}, then go on with --resume."
    one_line(run("train", "--resume", out), file, "is damaged", remedy)
    shutil.rmtree(file.parents[1])
    assert run("train", "--resume", out).code == 0
    assert_same_run(controlled, out)


def test_weights_of_a_missing_student_are_told(data, tmp_path) -> None:
    tutor = build_tutor("untaught", 0, data.material.train, data.settings, 1)
    load_trained(tutor, data.job)
    gone = Job(tmp_path, "untaught", 0, data.settings)
    with pytest.raises(UsageError, match=rf"state\.pt is damaged .*Delete {gone.folder}, then"):
        load_trained(tutor, gone)


def test_how_folds_predict_given_labels_is_recorded(data) -> None:
    predictions = read_out_of_fold(data.job, PLAIN, data.material).train
    wanted = Predicted.of(predictions.argmax(1), data.material.train.labels)
    assert folds.held_back(data.job) == wanted
    assert 0 < wanted.correct < wanted.rows


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize("arms", [("folds", "distilled-folds"), ("fold",)], ids=len)
def test_all_damaged_predictions_of_folds_are_named_at_once(controlled, tmp_path, arms) -> None:
    out = tmp_path / "run"
    shutil.copytree(controlled, out)
    (out / "students" / "pruned-seed0" / "result.json").unlink()
    there = list((out / "folds").iterdir())
    damaged = [folder for folder in there if folder.name.startswith(arms)]
    if len(arms) == 1:  # all of them
        damaged = there
    assert len(damaged) >= 10
    for folder in damaged:
        trial = folder.name.startswith("fold-trials")
        (folder / ("result.json" if trial else "out-of-fold.npz")).write_bytes(b"[]")
    answer = run("train", "--resume", out)
    one_line(answer, f"{len(damaged)} of {len(there)} students of folds", f"--resume {out}:")
    if damaged == there:
        assert f"Delete {out / 'folds'}; then" in answer.err
    else:
        named = answer.err.partition("Delete these folders in ")[2].partition(";")[0]
        place, _, names = named.partition(": ")
        assert (place, {*names.split(", ")}) == (
            str(out / "folds"),
            {folder.name for folder in damaged},
        )
    for folder in damaged:
        shutil.rmtree(folder)
    assert run("train", "--resume", out).code == 0
    assert_same_run(controlled, out)


@pytest.mark.usefixtures("report_in_a_word")
def test_a_finished_run_with_folds_of_another_version_is_not_trained_anew(
    controlled, tmp_path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(controlled, out)
    of_version(out, 3)
    for folder in list((out / "folds").glob("distilled-trials-*")):
        shutil.rmtree(folder)  # version 3 has none
    before = found(out / "folds")
    answer = run("train", "--resume", out)
    assert answer.code == 0, answer
    assert found(out / "folds") == before
    assert_same_run(controlled, out)
    (out / "students" / "pruned-seed0" / "result.json").unlink()
    count = len(list((out / "folds").iterdir()))
    read = count - len(list((out / "folds").glob("fold-trials-*")))
    one_line(run("train", "--resume", out), f"{read} of {count} students of folds", "Delete")


@pytest.mark.usefixtures("report_in_a_word")
def test_deleted_predictions_of_a_finished_run_are_made_again(controlled, tmp_path) -> None:
    out = tmp_path / "run"
    shutil.copytree(controlled, out)
    shutil.rmtree(out / "folds" / "corrected-folds-seed0-1")
    assert run("train", "--resume", out).code == 0
    for name in ("train", "checked"):
        files = [
            of / "folds" / "corrected-folds-seed0-1" / "out-of-fold.npz"
            for of in (controlled, out)
        ]
        one, other = (np.load(file)[name] for file in files)
        np.testing.assert_array_equal(one, other)


def test_seeds_have_folds_and_choices_of_their_own(data) -> None:
    other = seed_material(read_source(data.settings), data.settings, 1)
    job = replace(data.job, seed=1)
    assert not torch.equal(folds_of(data.material, data.job), folds_of(other, job))
    job = replace(data.job, seed=1)
    assert job.with_arm(PLAIN, 0).folder != data.job.with_arm(PLAIN, 0).folder


@pytest.mark.usefixtures("report_in_a_word")
def test_every_arm_of_a_seed_gets_the_rate_that_the_checked_examples_choose(
    pets, tmp_path
) -> None:
    out = tmp_path / "run"
    rates = (1e-5, 0.05, 1e9)  # hardly learns, learns, diverges
    words = ["--controls", "fine-tuned", "pruned", "--choose-lr", *rates]
    answer = run("train", pets, *WORDS, *words, "--out", out)
    assert answer.code == 0, answer
    said = [
        content(out / "folds" / f"learning-rates-seed0-{n}" / "result.json")["log_likelihood"]
        for n in range(3)
    ]
    usable = [
        (value, rate) for value, rate in zip(said, rates, strict=True) if value is not None
    ]
    chosen = max(usable)[1]
    facts = content(out / "summary.json")["data"]
    assert facts["lr"] == [chosen]
    assert f"learning rate chosen for each seed: {chosen:g}" in " ".join(answer.out.split())
    for arm in ("untaught", "loss", "pruned"):
        state = checkpoint(out / "students" / f"{arm}-seed0")["tutor"]["optimizer"]
        assert state["param_groups"][0]["lr"] == pytest.approx(chosen / 100)  # at the end
    tuned = content(out / "students" / "fine-tuned-seed0" / "chosen.json")["lr"]
    assert tuned / chosen in map(pytest.approx, (0.3, 0.1, 0.03))
    again = tmp_path / "again"
    words = ["--controls", "pruned", "--lr", chosen]
    assert run("train", pets, *WORDS, *words, "--out", again).code == 0
    for arm in ("untaught", "loss", "pruned"):
        states = [checkpoint(of / "students" / f"{arm}-seed0")["tutor"] for of in (out, again)]
        assert same(states[0]["student"], states[1]["student"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--choose-lr", "0.1"], "--choose-lr is 0.1; allowed: none, or two and more"),
        (["--choose-lr", "0.1", "0.1"], "--choose-lr is 0.1 0.1; allowed"),
        (["--choose-lr", "0.1", "0"], "every number of --choose-lr must be above 0"),
        (["--choose-lr", "0.1", "0.2", "--lr", "0.3"], "--lr and --choose-lr both give"),
    ],
)
def test_rates_that_cannot_be_chosen_from_are_refused(pets, tmp_path, flags, message) -> None:
    one_line(run("train", pets, *THREE, *flags, "--out", tmp_path / "run"), message)


def full_disk() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("module", "call", "control"),
    [(folds, 3, "pruned"), (tuning, 1, "fine-tuned"), (student_training, 2, "early-stopped")],
    ids=["fold", "choice", "best"],
)
@pytest.mark.usefixtures("report_in_a_word")
def test_a_full_disk_in_a_control_is_told_and_the_run_goes_on(
    pets, tmp_path, monkeypatch, module, call, control
) -> None:
    unbroken, out = tmp_path / "unbroken", tmp_path / "run"
    words = [*WORDS, "--controls", control]
    assert run("train", pets, *words, "--out", unbroken).code == 0
    name = "save_checkpoint" if module is student_training else "write_json"
    monkeypatch.setattr(module, name, at_call(getattr(module, name), call, full_disk))
    one_line(run("train", pets, *words, "--out", out), "No space left on device", out)
    monkeypatch.undo()
    assert run("train", "--resume", out).code == 0
    assert_same_run(unbroken, out)
    assert found(out).keys() == found(unbroken).keys()


def test_what_a_control_distrusts_can_be_inspected(controlled, tmp_path) -> None:
    for arm, key in (("cross-fitted", "weight"), ("checked-only", "loss")):
        words = ["--arm", arm, "--by", key, "--out", tmp_path / arm, "--json"]
        answer = run("inspect", controlled, *words)
        assert answer.code == 0, answer
        told = json.loads(answer.out)
        assert told["likely_wrong"] is None  # nothing unseen is left to promise by
        table = pq.read_table(controlled / "students" / f"{arm}-seed0" / "examples.parquet")
        values = table[key].to_numpy()
        worst = values.argmin() if key == "weight" else values.argmax()
        assert told["examples"][0][key] == pytest.approx(float(values[worst]))


@pytest.mark.usefixtures("report_in_a_word")
def test_the_teacher_of_out_of_fold_predictions_starts_at_their_closed_form(
    pets, tmp_path
) -> None:
    out, words = tmp_path / "run", [*THREE, *WITHOUT, "--noise", "uniform:0.6"]
    with unchecked():
        answer = run(
            "train", pets, *words, "--teacher", "out-of-fold", "--rounds", "2", "--out", out
        )
    assert answer.code == 0, answer
    settings = from_plain(TrainSettings, content(out / "settings.json"))
    material = seed_material(read_source(settings), settings, 0)
    job = Job(out, "out-of-fold", 0, settings)
    out_of_fold = read_out_of_fold(job, "distilled-folds", material)
    own = load_commentary(out / "students" / "out-of-fold-seed0" / "commentary", new())
    assert isinstance(own, OutOfFoldTargets)
    plain, train = read_out_of_fold(job, PLAIN, material), material.train
    rough = fold_stages_of(material, job).transitions(plain)
    transitions = refined(out_of_fold.train, train.labels, rough)
    joint = out_of_fold.train * transitions[:, train.labels].T
    believed = joint / joint.sum(1, keepdim=True)
    start = 0.08 * F.one_hot(train.labels, 3) + 0.92 * believed
    order = train.ids.argsort()
    torch.testing.assert_close(own.targets()[0], start[order], rtol=0, atol=0.05)
    assert len(list((out / "folds").iterdir())) == 3 * FOLDS + len(TRIED) + 2


@pytest.mark.usefixtures("report_in_a_word")
def test_fewer_folds_and_rounds_train_fewer_students(pets, tmp_path) -> None:
    out = tmp_path / "run"
    words = ["--controls", "cross-fitted", "--folds", "3", "--rounds", "1", "--out", out]
    answer = run("train", pets, *WORDS, *words)
    assert answer.code == 0, answer.err
    names = {folder.name for folder in (out / "folds").iterdir()}
    arms = ("folds", "corrected-folds")
    assert names == {f"{arm}-seed0-{fold}" for arm in arms for fold in range(3)} | {
        f"fold-trials-seed0-{place}" for place in range(len(TRIED))
    }
