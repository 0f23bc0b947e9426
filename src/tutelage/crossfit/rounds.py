"""Cross-fitting in rounds: folds are trained again with the targets of the round before."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.crossfit.out_of_fold import Fit, out_of_fold
from tutelage.crossfit.posterior import label_posterior, refined_transitions
from tutelage.crossfit.transitions import ForwardCorrected, estimate_transitions
from tutelage.errors import UsageError
from tutelage.losses.objectives import Objective, cross_entropy


class Training(NamedTuple):
    """What one student is trained on: M rows of the data."""

    rows: Int64[Tensor, "M"]
    targets: Tensor
    """[M] given labels, or [M, C] soft labels"""
    weights: Float[Tensor, "M"]
    objective: Objective
    """from logits and targets to losses [B]; the student descends their weighted mean"""


class CrossFitted(NamedTuple):
    """The result of cross-fitting N examples, H of them checked."""

    probabilities: tuple[Float[Tensor, "N C"], ...]
    """of each round, by students that were not trained on the example"""
    log_likelihoods: tuple[float, ...]
    """of each round: mean log p of the right class of the checked examples, nats"""
    kept: int
    """the round whose probabilities the targets are made of"""
    transitions: Float[Tensor, "C C"]
    """of the kept round: row right class, column given label"""
    targets: Float[Tensor, "N C"]
    """to train a student on: the right class of checked examples, the posteriors of the kept
    round for the others"""
    weights: Float[Tensor, "N"]


FitRows = Callable[[Training, Tensor, int], Tensor]
"""From what to train a fresh student on, the rows to predict [K] and the fold to probabilities
[K, C]. Fold F, above all others, is the student that shows the transitions. It is to seed
itself by the fold. In later rounds it may go on from the student that it trained for the same
fold before, which saw none of these rows either."""
Retarget = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a round's probabilities [N, C] and the transitions to targets [N, C] and weights [N]"""


def cross_fit(
    fit: FitRows,
    given: Tensor,
    folds: Int64[Tensor, "N"],
    checked: Tensor,
    checked_labels: Tensor,
    *,
    classes: int,
    rounds: int = 2,
    corrected: int = 1,
    refine: bool = True,
    prior_count: float = 1.0,
    shrinkage: float = 0.0,
    retarget: Retarget | None = None,
    jobs: int = 1,
    cache: str | Path | None = None,
    key: str = "",
) -> CrossFitted:
    """Predict every example out of fold, allowing for wrong labels, in rounds.

    A student trained on the given labels of all but the checked examples shows the class
    transitions (``estimate_transitions``). The first ``corrected`` rounds train each fold's
    student by forward correction with them, without checked examples; after each round they
    are refined by its probabilities of all examples (``refined_transitions``). Later rounds
    train on the targets of the round before, the checked examples of the other folds included
    with their right labels and weight 1. So no checked example is predicted by a student that
    was trained on it, and their likelihood evaluates a round: it goes on until the likelihood
    falls by more than two standard errors, and the last round before that is kept. A smaller
    fall may come of surer predictions alone, which sharper transitions make. From the second
    of the later rounds on it is too high: targets then come from students that saw checked
    examples of the fold that is predicted.

    Source: round 0 is the gold loss correction of Hendrycks et al. 2018 within folds, the rest
    is ours, the refinement after Dawid and Skene 1979.

    Args:
        fit: See ``FitRows``.
        given: The given labels of all N examples; those of checked ones are not used.
        folds: The fold of each, as ``stratified_folds`` gives them.
        checked: Rows of the H examples whose right class is known, each once.
        checked_labels: Their right classes [H].
        classes: C.
        rounds: How many at most, 1 and above.
        corrected: How many of them train by forward correction, 1 and above.
        refine: By ``refined_transitions``; otherwise they stay what the checked examples show,
            and one round is corrected.
        prior_count: Of ``estimate_transitions``.
        shrinkage: The same.
        retarget: Targets and weights of a round; None: the posterior of the label, weight 1.
        jobs: As of ``out_of_fold``.
        cache: The same; of later rounds, their targets enter the key.
        key: The same.

    Returns:
        The probabilities of each round that was trained, the transitions, the targets.

    Raises:
        UsageError: If arguments do not fit, there are no rounds, or a checked row is none.
    """
    known = _checked_mask(checked, len(given))
    checked = checked.cpu().long()
    if folds.shape != given.shape:
        raise UsageError(
            f"folds have shape {tuple(folds.shape)} for {len(given)} labels; allowed: one fold "
            "for each example."
        )
    if rounds < 1 or corrected < 1:
        raise UsageError(
            f"rounds is {rounds} and corrected {corrected}; allowed: 1 and above, both."
        )
    labels = require_labels("given", given.cpu().where(~known, 0), len(given), classes)
    right = require_labels("checked_labels", checked_labels.cpu(), len(checked), classes)
    rows = (~known).nonzero().squeeze(1)
    plain = Training(rows, labels[rows], torch.ones(len(rows)), cross_entropy)
    predictions = fit(plain, checked, int(folds.max()) + 1).cpu()
    _require_classes(predictions, classes)
    checked_transitions = estimate_transitions(
        predictions, right, prior_count=prior_count, shrinkage=shrinkage
    )
    data = _Data(fit, labels, known, checked, right, classes, checked_transitions, retarget)

    probabilities, likelihoods, best = list[Tensor](), list[Tensor](), _start(data)
    for number in range(rounds):
        by_given = number < (corrected if refine else 1)
        problem = data.corrected(best) if by_given else data.distilled(best)
        p = out_of_fold(
            problem.fit, folds, labels=problem.content, jobs=jobs, cache=cache, key=key
        )
        probabilities.append(p)
        likelihoods.append(data.log_likelihoods(p))
        if number and _dropped(likelihoods[-1] - likelihoods[-2]):
            break
        best = data.outcome(number, p, refine=refine)
    means = tuple(float(found.mean()) for found in likelihoods)
    return CrossFitted(tuple(probabilities), means, *best)


class _Outcome(NamedTuple):
    """The result of a round, in the order of ``CrossFitted``."""

    kept: int
    transitions: Tensor
    targets: Tensor
    weights: Tensor


class _Round(NamedTuple):
    """How the students of a round are trained, and what that depends on."""

    fit: Fit
    content: Tensor


@dataclass(frozen=True, eq=False)
class _Data:
    """What stays the same from round to round."""

    fit: FitRows
    labels: Tensor
    known: Tensor
    checked: Tensor
    right: Tensor
    classes: int
    checked_transitions: Tensor
    retarget: Retarget | None

    def corrected(self, before: _Outcome) -> _Round:
        # on given labels alone, by forward correction
        objective = ForwardCorrected(before.transitions)

        def fit(train: Tensor, predict: Tensor, fold: int) -> Tensor:
            rows = train[~self.known[train]]
            training = Training(rows, self.labels[rows], torch.ones(len(rows)), objective)
            return self.fit(training, predict, fold)

        by_given = before.transitions.T[self.labels]
        return _Round(fit, by_given.where(~self.known[:, None], 0))

    def distilled(self, before: _Outcome) -> _Round:
        # on what the round before says
        _, _, targets, weights = before

        def fit(train: Tensor, predict: Tensor, fold: int) -> Tensor:
            training = Training(train, targets[train], weights[train], cross_entropy)
            return self.fit(training, predict, fold)

        return _Round(fit, torch.cat([targets, weights[:, None].to(targets)], 1))

    def outcome(self, number: int, p: Tensor, *, refine: bool) -> _Outcome:
        # transitions, targets and weights by a round's probabilities
        transitions, rest = self.checked_transitions, ~self.known
        if refine:
            transitions = refined_transitions(
                p[rest], self.checked_transitions, self.labels[rest]
            )
        if self.retarget is None:
            targets = label_posterior(p, transitions, self.labels)
            weights = torch.ones(len(p))
        else:
            targets, weights = (x.clone() for x in self.retarget(p, transitions))
            _require_targets(targets, weights, *p.shape)
        targets[self.checked] = F.one_hot(self.right, self.classes).to(targets)
        weights[self.checked] = 1
        return _Outcome(number, transitions, targets, weights)

    def log_likelihoods(self, p: Tensor) -> Tensor:
        # log p of the right class of the checked examples
        own = p[self.checked].gather(1, self.right[:, None])
        return own.clamp(min=torch.finfo(p.dtype).tiny).log().squeeze(1)


def _require_classes(probabilities: Tensor, classes: int) -> None:
    require_probabilities("the predictions of fit", probabilities)
    if probabilities.shape[1] != classes:
        raise UsageError(
            f"fit predicts {probabilities.shape[1]} classes, but classes is {classes}."
        )


def _require_targets(targets: Tensor, weights: Tensor, rows: int, classes: int) -> None:
    require_probabilities("the targets of retarget", targets)
    fits = targets.shape == (rows, classes) and weights.shape == (rows,)
    if not fits or not bool(((weights >= 0) & weights.isfinite()).all()):
        raise UsageError(
            f"retarget gives targets of shape {tuple(targets.shape)} and weights of shape "
            f"{tuple(weights.shape)}; allowed: [{rows}, {classes}] and [{rows}], weights 0 and "
            "above and finite."
        )


def _dropped(gains: Tensor) -> bool:
    # whether gains of the checked examples are below 0 by more than two standard errors
    spread = gains.std(correction=1 if len(gains) > 1 else 0)
    return bool(gains.mean() < -2 * spread / len(gains) ** 0.5)


def _start(data: _Data) -> _Outcome:
    # before there is a round: what the checked examples show
    nothing = data.checked_transitions.new_zeros(len(data.labels), data.classes)
    return _Outcome(0, data.checked_transitions, nothing, nothing[:, 0])


def _checked_mask(checked: Tensor, count: int) -> Tensor:
    # which of all rows are checked
    rows = require_labels("checked", checked.cpu(), len(checked), count)
    known = torch.zeros(count, dtype=torch.bool)
    known[rows] = True
    if int(known.sum()) < len(rows) or len(rows) in (0, count):
        raise UsageError(
            f"checked names {len(rows)} rows, {int(known.sum())} of them different, of "
            f"{count}; allowed: each once, one and above, and not all."
        )
    return known
