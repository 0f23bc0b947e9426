"""The probability that each label is wrong, by the out-of-fold predictions of a run."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tutelage.crossfit import LabelErrors, label_errors, match_error_counts
from tutelage.crossfit.fold_settings import READABLE
from tutelage.errors import UsageError
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.inspect.example_tables import ExampleTable
from tutelage_cli.inspect.reading import ClassNames, read_examples_of, students_of
from tutelage_cli.inspect.run import Run
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.controls.fold_check import check_folds
from tutelage_cli.train.controls.folds import (
    CORRECTED,
    DISTILLED,
    PLAIN,
    fold_jobs,
    read_out_of_fold,
)
from tutelage_cli.train.evaluation import EXAMPLES, HELD_OUT
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material

COUNTING = (PLAIN, CORRECTED)
"""students of folds that no given label of their fold has reached: they say together how many
labels are wrong, and without distilled ones, which rank labels best, also which"""
BASE = "untaught"
"""the arm of every run whose tables list the training and the checked examples"""
DRAWS = 32
"""of the probability that a label is wrong, by all kinds of students together"""


def by_folds(run: Run, seed: int | None) -> list[ExampleTable]:
    """A table for each seed; none where the folds of a seed are incomplete."""
    seeds = run.finished[BASE] if seed is None else (seed,)
    jobs = [run.job(BASE, one) for one in seeds if one in run.finished[BASE]]
    kinds = [_kinds(job) for job in jobs]
    if len(jobs) < len(seeds) or not all(kinds):
        return []
    of_seeds = [_labels_of(job) for job in jobs]
    pairs = [(job, material) for job, (_, material, _) in zip(jobs, of_seeds, strict=True)]
    try:
        check_folds(pairs, (DISTILLED, *COUNTING), READABLE)
    except UsageError as error:
        raise UsageError(f"{error} Or inspect without them, by --by loss.") from error
    return [
        _table_of(run, job, there, *labels)
        for job, there, labels in zip(jobs, kinds, of_seeds, strict=True)
    ]


def with_probabilities(
    like: ExampleTable,
    probabilities: Tensor,
    given: Tensor,
    checked: Tensor,
    right: Tensor,
    draws: int = DRAWS,
) -> ExampleTable:
    """Add the probability that each of N labels is wrong, by out-of-fold predictions [N, C]."""
    found = label_errors(probabilities, given, checked, right, draws=draws)
    return replace(like, losses=losses_of(probabilities, given), wrong=found.draws.T.numpy())


def _kinds(job: Job) -> list[str]:
    if not all(exists(job.folder / name) for name in (EXAMPLES, HELD_OUT)):
        return []

    def finished(kind: str) -> bool:
        return all(exists(one.folder / "result.json") for one in fold_jobs(job, kind))

    counting = [kind for kind in COUNTING if finished(kind)]
    return [*counting, DISTILLED] if counting and finished(DISTILLED) else counting


def _labels_of(job: Job) -> tuple[ClassNames, Material, np.ndarray]:
    """Names of classes, data as far as folds depend on them, and losses of checked examples."""
    names = ClassNames()
    checked, train = (read_examples_of(job, name, names) for name in (HELD_OUT, EXAMPLES))
    ours, others = _labels_alone(train), _labels_alone(checked)
    return names, Material(ours, None, others, others), checked["loss"]


def _table_of(
    run: Run,
    job: Job,
    kinds: Sequence[str],
    names: ClassNames,
    material: Material,
    untaught: np.ndarray,
) -> ExampleTable:
    given, right = material.train.labels, material.held_out.labels
    each = {kind: read_out_of_fold(job, kind, material, READABLE) for kind in kinds}
    ranking = [DISTILLED] if DISTILLED in each else [*each]
    counting = [kind for kind in COUNTING if kind in each]
    draws = {kind: DRAWS // (1 if kind == DISTILLED else len(counting)) for kind in each}
    found = {
        kind: label_errors(
            predictions.train, given, predictions.checked, right, draws=draws[kind]
        )
        for kind, predictions in each.items()
    }
    errors = _joined([found[kind] for kind in counting])
    if DISTILLED in found:
        errors = match_error_counts(found[DISTILLED], errors)
    p = torch.stack([each[kind].train for kind in ranking])
    (like,) = students_of(run, BASE, job.seed)
    return replace(
        like,
        student=f"{' and '.join(ranking)}, seed {job.seed}",
        predicted=names.of(p.mean(0).argmax(1).numpy()),
        weights=np.full(len(given), np.nan),
        held_out=None,
        epochs=(),
        past_losses=None,
        past_weights=None,
        losses=np.mean([losses_of(one, given) for one in p], axis=0),
        learned=_learned([each[kind].checked for kind in ranking], right, untaught),
        wrong=errors.draws.T.numpy(),
    )


def losses_of(probabilities: Tensor, given: Tensor) -> np.ndarray:
    """Losses of given labels [N], in nats, under probabilities [N, C]."""
    own = probabilities.double().gather(1, given[:, None]).squeeze(1)
    return -own.clamp(min=1e-12).log().numpy()


def _joined(each: Sequence[LabelErrors]) -> LabelErrors:
    draws = torch.cat([one.draws for one in each])
    return each[0]._replace(probabilities=draws.mean(0), draws=draws)


def _learned(each: Sequence[Tensor], right: Tensor, untaught: np.ndarray) -> float:
    p = torch.stack(list(each)).mean(0).double().gather(1, right[:, None])
    shares = torch.bincount(right).double() / len(right)
    alike = float(torch.special.entr(shares).sum())
    gain = alike + float(p.clamp(min=1e-12).log().mean())
    beside = alike - float(np.nan_to_num(untaught, nan=np.inf).mean())
    if gain <= 0:
        return 0.0
    return gain / beside if beside > 0 else float("inf")


def _labels_alone(table: dict[str, Sequence[int]]) -> FeatureSet:
    labels, ids = (torch.as_tensor(np.array(table[n], dtype=np.int64)) for n in ("given", "id"))
    names = tuple(map(str, range(int(labels.max()) + 1)))
    return FeatureSet(torch.empty(len(ids), 0), labels, ids, names, "labels")
