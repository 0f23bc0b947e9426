"""Cross-fitting in rounds: folds are trained again on what the round before says."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tutelage.crossfit.checks import require_labels
from tutelage.crossfit.out_of_fold import Fit, out_of_fold
from tutelage.crossfit.posterior import label_posterior
from tutelage.crossfit.transitions import ForwardCorrected, estimate_transitions
from tutelage.errors import UsageError
from tutelage.objectives import Objective, cross_entropy


class Training(NamedTuple):
    """What one student is trained on: M rows of the data."""

    rows: Int64[Tensor, "M"]
    targets: Tensor
    """[M] given labels, or [M, C] soft labels"""
    weights: Float[Tensor, "M"]
    objective: Objective
    """from logits and targets to losses [B]; the student descends their weighted mean"""


class CrossFitted(NamedTuple):
    """What cross-fitting says of N examples, H of them checked."""

    probabilities: tuple[Float[Tensor, "N C"], ...]
    """of each round, by students that were not trained on the example"""
    log_likelihoods: tuple[float, ...]
    """of each round: mean log p of the right class of the checked examples, nats"""
    kept: int
    """the round whose probabilities the targets are made of"""
    transitions: Float[Tensor, "C C"]
    """row: right class, column: given label"""
    targets: Float[Tensor, "N C"]
    """to train a student on: the right class of checked examples, what the kept round says of
    the others"""
    weights: Float[Tensor, "N"]


FitRows = Callable[[Training, Tensor, int], Tensor]
"""From what to train a fresh student on, the rows to predict [K] and the fold to probabilities
[K, C]. Fold F, above all others, is the student that shows the transitions. It is to seed
itself by the fold."""
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
    prior_count: float = 1.0,
    retarget: Retarget | None = None,
    jobs: int = 1,
    cache: str | Path | None = None,
    key: str = "",
) -> CrossFitted:
    """Predict every example out of fold, allowing for wrong labels, in rounds.

    A student trained on the given labels of all but the checked examples shows the class
    transitions (``estimate_transitions``). Round 0 trains each fold's student by forward
    correction with them, without checked examples. Each later round trains it on the targets of
    the round before, the checked examples of the other folds included with their right labels
    and weight 1. So no checked example is predicted by a student that was trained on it, and
    their likelihood can judge a round: it goes on until the likelihood falls, and the last
    round before that is kept.

    Source: round 0 is the gold loss correction of Hendrycks et al. 2018 within folds, the rest
    is ours.

    Args:
        fit: See ``FitRows``.
        given: The given labels of all N examples; those of checked ones are not used.
        folds: The fold of each, as ``stratified_folds`` gives them.
        checked: Rows of the H examples whose right class is known, each once.
        checked_labels: Their right classes [H].
        classes: C.
        rounds: How many at most, 1 and above.
        prior_count: Of ``estimate_transitions``.
        retarget: Targets and weights of a round; None: the posterior of the label, weight 1.
        jobs: As of ``out_of_fold``.
        cache: The same; of later rounds, their targets enter the key.
        key: The same.

    Returns:
        The probabilities of each round that was trained, the transitions, the targets.

    Note: raises ``UsageError`` where arguments do not fit, there are no rounds, or a checked
    row is none.
    """
    known = _checked_mask(checked, len(given), rounds)
    labels = require_labels("given", given.cpu().where(~known, 0), len(given), classes)
    right = require_labels("checked_labels", checked_labels.cpu(), len(checked), classes)
    rows = (~known).nonzero().squeeze(1)
    plain = Training(rows, labels[rows], torch.ones(len(rows)), cross_entropy)
    seen = fit(plain, checked.cpu(), int(folds.max()) + 1).cpu()
    transitions = estimate_transitions(seen, right, prior_count=prior_count)
    data = _Data(fit, labels, known, checked.cpu(), right, classes, transitions, retarget)

    def trained(fit_fold: Fit, content: Tensor) -> Tensor:
        return out_of_fold(fit_fold, folds, labels=content, jobs=jobs, cache=cache, key=key)

    by_given = transitions.T[labels].where(~known[:, None], 0)
    found, likelihoods, kept = [trained(data.corrected, by_given)], list[float](), 0
    targets, weights = data.made_of(found[0])
    while True:
        likelihoods.append(data.log_likelihood(found[-1]))
        if len(found) > 1 and likelihoods[-1] < likelihoods[-2]:
            break
        kept = len(found) - 1
        targets, weights = data.made_of(found[-1])
        if len(found) == rounds:
            break
        content = torch.cat([targets, weights[:, None].to(targets)], 1)
        found.append(trained(data.on(targets, weights), content))
    return CrossFitted(tuple(found), tuple(likelihoods), kept, transitions, targets, weights)


@dataclass(frozen=True, eq=False)
class _Data:
    """What stays the same from round to round."""

    fit: FitRows
    labels: Tensor
    known: Tensor
    checked: Tensor
    right: Tensor
    classes: int
    transitions: Tensor
    retarget: Retarget | None

    def corrected(self, train: Tensor, predict: Tensor, fold: int) -> Tensor:
        # round 0: given labels alone, by forward correction
        rows = train[~self.known[train]]
        objective = ForwardCorrected(self.transitions)
        taken = Training(rows, self.labels[rows], torch.ones(len(rows)), objective)
        return self.fit(taken, predict, fold)

    def on(self, targets: Tensor, weights: Tensor) -> Fit:
        # a later round
        def fit(train: Tensor, predict: Tensor, fold: int) -> Tensor:
            taken = Training(train, targets[train], weights[train], cross_entropy)
            return self.fit(taken, predict, fold)

        return fit

    def made_of(self, p: Tensor) -> tuple[Tensor, Tensor]:
        # targets and weights that a round gives
        if self.retarget is None:
            targets = label_posterior(p, self.transitions, self.labels)
            weights = torch.ones(len(p))
        else:
            targets, weights = (x.clone() for x in self.retarget(p, self.transitions))
        targets[self.checked] = F.one_hot(self.right, self.classes).to(targets)
        weights[self.checked] = 1
        return targets, weights

    def log_likelihood(self, p: Tensor) -> float:
        # mean log p of the right class of the checked examples
        own = p[self.checked].gather(1, self.right[:, None])
        return float(own.clamp(min=torch.finfo(p.dtype).tiny).log().mean())


def _checked_mask(checked: Tensor, count: int, rounds: int) -> Tensor:
    # which of all rows are checked
    if rounds < 1:
        raise UsageError(f"rounds is {rounds}; allowed: 1 and above.")
    rows = require_labels("checked", checked.cpu(), len(checked), count)
    known = torch.zeros(count, dtype=torch.bool)
    known[rows] = True
    if int(known.sum()) < len(rows) or len(rows) in (0, count):
        raise UsageError(
            f"checked names {len(rows)} rows, {int(known.sum())} of them different, of "
            f"{count}; allowed: each once, one and above, and not all."
        )
    return known
