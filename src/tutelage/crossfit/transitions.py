"""Class transitions, the probabilities of given labels, and losses corrected by them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy
from tutelage.precision import upcast
from tutelage.validation.shapes import described, is_none_of

FLOOR = 1e-8
"""the least transition that a loss is taken with: losses stay below 18.5 nats"""
LEAST_SINGULAR = 0.25
"""the least singular value of transitions that fresh students are corrected by"""


def estimate_transitions(
    probabilities: Tensor,
    checked_labels: Tensor,
    *,
    given_counts: Tensor | None = None,
    prior_count: float = 1.0,
    shrinkage: float = 0.0,
) -> Float[Tensor, "C C"]:
    """``C[c, g]``: how likely an example of class c has the given label g.

    The mean over the checked examples of class c of a student's probabilities, where that
    student was trained on given labels and not on these examples. A Dirichlet prior worth
    ``prior_count`` examples a class is added: class c keeps its label by the mean probability
    of the right class over all checked examples, and is otherwise given another label in
    proportion to the mean probabilities of the labels. A class without a checked example gets
    this prior alone.

    A student that is unsure of an example spreads its probabilities over classes as wrong
    labels do, so that the mean shows too many of these, the more the less it has learned.
    ``shrinkage`` moves the estimate towards the identity.

    Source: Hendrycks et al. 2018, Using Trusted Data to Train Deep Networks on Labels Corrupted
    by Severe Noise (gold loss correction), section 3: the estimate of C; ``prior_count=0`` is
    theirs. The prior and the shrinkage are ours.

    Args:
        probabilities: The student's, of H checked examples [H, C].
        checked_labels: Their right classes [H].
        given_counts: Checked examples of each right class (row) by given label (column)
            [C, C], where these are known; they are added to the sums of probabilities.
        prior_count: What the prior counts, in examples a class, 0 and above.
        shrinkage: The share of the identity in what is returned, 0..1.

    Returns:
        Rows that sum to one, in the precision of the probabilities or single.

    Raises:
        UsageError: If there is no checked example, an argument is of another shape or range, or
            a class has neither a checked example nor a prior.
    """
    require_probabilities("the probabilities of checked examples", probabilities)
    rows, classes = probabilities.shape
    labels = require_labels("checked_labels", checked_labels, rows, classes)
    if not rows:
        raise UsageError("There is no checked example; allowed: one and above.")
    if not 0 <= prior_count < float("inf"):
        raise UsageError(f"prior_count is {prior_count:g}; allowed: 0 and above, finite.")
    if not 0 <= shrinkage <= 1:
        raise UsageError(f"shrinkage is {shrinkage:g}; allowed: 0..1.")
    p = upcast(probabilities)
    sums = p.new_zeros(classes, classes).index_add(0, labels, p)
    if given_counts is not None:
        sums = sums + _counts(given_counts, classes).to(p)
    totals = sums.sum(1, keepdim=True) + prior_count
    empty = (totals == 0).squeeze(1)
    if bool(empty.any()):
        raise UsageError(
            f"class {int(empty.nonzero()[0, 0])} has no checked example and prior_count is 0: "
            "check one of each class, or give a prior_count above 0."
        )
    transitions = (sums + prior_count * _prior(p, labels)) / totals
    transitions = transitions / transitions.sum(1, keepdim=True)
    return (1 - shrinkage) * transitions + shrinkage * torch.eye(classes, dtype=p.dtype).to(p)


def _counts(given: Tensor, classes: int) -> Tensor:
    fits = given.shape == (classes, classes) and not given.is_complex()
    if not fits or not bool((given >= 0).all() & given.isfinite().all()):
        raise UsageError(
            f"given_counts are {described(given)}; allowed: numbers of 0 and above of shape "
            f"({classes}, {classes}), rows for right classes, columns for given labels."
        )
    return given


def _prior(p: Tensor, labels: Tensor) -> Tensor:
    # kept with the mean probability of the right class, else in proportion to what is predicted
    classes = p.shape[1]
    kept = p.gather(1, labels[:, None]).mean()
    off = 1 - torch.eye(classes, dtype=p.dtype, device=p.device)
    leaving = (p.mean(0) + FLOOR) * off
    leaving = leaving / leaving.sum(1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    return kept * (1 - off) + (1 - kept) * leaving


@dataclass(frozen=True, eq=False)
class ForwardCorrected:
    """``-log sum_c p_c C[c, g]``: cross entropy of what the given label would be.

    An objective for training on given labels g, which are wrong as C says; the student's own
    probabilities p are then those of the right class. Held-out examples have right labels, so
    give the tutor ``metric=cross_entropy`` beside it. Taken in log space, in single precision
    or better; transitions below 1e-8 count as that.

    Source: Patrini et al. 2017, Making Deep Neural Networks Robust to Label Noise: a Loss
    Correction Approach, theorem 2 (forward correction); with an estimated C, Hendrycks et al.
    2018, gold loss correction.

    Raises:
        UsageError: If the transitions are not square, or a row is no distribution.
    """

    transitions: Tensor
    """[C, C]: a row for each right class, a column for each given label; rows sum to one"""
    ignored: tuple[int, ...] = ()
    """labels that mean no label, as in ``tutelage.losses.targets.CrossEntropy``"""

    def __post_init__(self) -> None:
        if self.transitions.ndim != 2 or len(set(self.transitions.shape)) != 1:
            raise UsageError(
                f"transitions are {described(self.transitions)}; allowed: [C, C], a row for "
                "each right class, a column for each given label."
            )
        require_probabilities("transitions", self.transitions)

    def __call__(self, logits: Tensor, targets: Tensor) -> Float[Tensor, "B"]:
        """One loss per example, in nats.

        Args:
            logits: Unnormalised log-probabilities of the right class [B, C].
            targets: Given labels or ignored ones [B]; soft labels have no given class.

        Returns:
            [B]; 0 for ignored labels.

        Raises:
            UsageError: If the two do not fit each other and the transitions.

        Note: a label that is no class is an ``IndexError``, as of torch's own losses.
        """
        classes = len(self.transitions)
        if targets.is_floating_point() or logits.shape != (len(targets), classes):
            raise UsageError(
                f"ForwardCorrected takes logits [B, {classes}] and given labels [B] in whole "
                f"numbers; the logits are {described(logits)}, the targets are "
                f"{described(targets)}. Train on soft labels by cross_entropy."
            )
        known = is_none_of(targets, self.ignored)
        labels = targets.long().where(known, 0)
        log_p = upcast(logits).log_softmax(1)
        transitions = self.transitions.to(labels.device)
        by_label = transitions.index_select(1, labels).T  # logarithms of these alone
        by_label = by_label.to(log_p).clamp(min=FLOOR).log()
        return (log_p + by_label).logsumexp(1).neg().where(known, 0)

    def counts(self, targets: Tensor) -> Tensor:
        """Which examples count in a mean of losses.

        Args:
            targets: Given labels or ignored ones [B].

        Returns:
            bool [B].
        """
        return is_none_of(targets, self.ignored)


@dataclass(frozen=True, eq=False)
class GoldLossCorrected:
    """Forward correction of given labels, cross entropy of checked ones.

    A checked label c is written as C + c, where there are C classes.

    Source: Hendrycks et al. 2018, Using Trusted Data to Train Deep Networks on Labels Corrupted
    by Severe Noise, algorithm 1.
    """

    given: ForwardCorrected

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per example."""
        classes = logits.shape[1]
        checked = targets >= classes
        given = self.given(logits, targets.where(~checked, 0))
        right = cross_entropy(logits, (targets - classes).where(checked, 0))
        return right.where(checked, given)


def conditioned(transitions: Float[Tensor, "C C"]) -> Float[Tensor, "C C"]:
    """Transitions moved towards the identity as far as a fresh student needs, to learn by them.

    Where their least singular value is near 0, some classes get nearly the same labels, and
    the corrected loss hardly distinguishes these classes.
    """
    t = transitions.detach().cpu().double()
    identity, gram, both = torch.eye(len(t), dtype=t.dtype), t.T @ t, t + t.T
    for share in torch.linspace(0, 1, 101).tolist():
        # all singular values are larger if and only if M^T M - least^2 is positive definite
        kept, own = 1 - share, share**2 - LEAST_SINGULAR**2
        excess = kept**2 * gram + kept * share * both + own * identity
        if not torch.linalg.cholesky_ex(excess).info:
            return kept * transitions + share * identity.to(transitions)
    return identity.to(transitions)
