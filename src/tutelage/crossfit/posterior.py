"""Posteriors of the right class, from out-of-fold predictions and given labels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.errors import UsageError
from tutelage.precision import upcast


def sharpened(probabilities: Tensor, power: float = 2.0) -> Float[Tensor, "N C"]:
    """``p_c^power / sum_k p_k^power``: the same order of classes, further apart.

    Source: the sharpening of Berthelot et al. 2019, MixMatch, equation 7, where the temperature
    is ``1 / power``.

    Args:
        probabilities: [N, C].
        power: Above 0; 1 leaves them as they are.

    Returns:
        Rows that sum to one, in the precision of the probabilities or single.

    Raises:
        UsageError: If the rows are no distributions, or power is out of range.
    """
    require_probabilities("probabilities", probabilities)
    if not 0 < power < float("inf"):
        raise UsageError(f"power is {power:g}; allowed: above 0, finite.")
    p = upcast(probabilities)
    raised = (p / p.amax(1, keepdim=True)) ** power  # the largest is 1: no sum underflows
    return raised / raised.sum(1, keepdim=True)


def label_posterior(
    probabilities: Tensor, transitions: Tensor, given: Tensor
) -> Float[Tensor, "N C"]:
    """``p_c C[c, g] / sum_k p_k C[k, g]``: the right class, by input and given label.

    By Bayes' rule, where the given label depends on the input only through the right class.
    Where that sum is 0, as the label has no probability under any class that p allows, the row
    is p itself.

    Args:
        probabilities: p(right class | input) [N, C], by students not trained on the example.
        transitions: C [C, C]: a row for each right class, a column for each given label.
        given: The given labels g [N].

    Returns:
        Rows that sum to one, in the precision of the probabilities or single.

    Raises:
        UsageError: If the three do not fit, or rows are no distributions.
    """
    require_probabilities("probabilities", probabilities)
    rows, classes = probabilities.shape
    if transitions.shape != (classes, classes):
        raise UsageError(
            f"transitions have shape {tuple(transitions.shape)}; allowed: ({classes}, "
            f"{classes}), as the probabilities have {classes} classes."
        )
    require_probabilities("transitions", transitions)
    labels = require_labels("given", given, rows, classes)
    p = upcast(probabilities)
    joint = p * transitions.to(p).T[labels]
    sums = joint.sum(1, keepdim=True)
    tiny = torch.finfo(p.dtype).tiny
    return torch.where(sums > tiny, joint / sums.clamp(min=tiny), p / p.sum(1, keepdim=True))


def refined_transitions(
    probabilities: Tensor,
    transitions: Tensor,
    given: Tensor,
    *,
    steps: int = 0,
    prior_count: float = 10.0,
) -> Float[Tensor, "C C"]:
    """Transitions by all examples, where a few checked ones show them roughly.

    ``C[c, g]`` is in proportion to ``sum_i q_i(c) 1[g_i = g]``, at first with ``q = p``: the
    joint of given labels and out-of-fold predictions, right where these are calibrated. Each
    further step takes for q the posterior of the label by the C before it, which is expectation
    maximisation of ``sum_i log sum_c p_i(c) C[c, g_i]``. A Dirichlet prior of ``prior_count``
    examples a class, spread as the rough transitions say, is added each time.

    Source: without a step the confident joint of Northcutt et al. 2021, its thresholds replaced
    by probabilities; steps as in Dawid and Skene 1979, Maximum Likelihood Estimation of
    Observer Error-Rates Using the EM Algorithm, for one observer of cases with priors p_i.

    Args:
        probabilities: p(right class | input) [N, C], by students not trained on the example.
        transitions: The rough ones [C, C].
        given: The given labels [N].
        steps: Of expectation maximisation, 0 and above. They fit C more closely to given labels
            that depend on the class alone; wrong labels of people depend on more.
        prior_count: In examples a class, 0 and above.

    Returns:
        Rows that sum to one. A class without any prediction or prior keeps its row.

    Raises:
        UsageError: If the three do not fit, ``steps`` is negative, or the prior is negative or
            not finite.
    """
    if steps < 0 or not 0 <= prior_count < float("inf"):
        raise UsageError(
            f"steps is {steps} and prior_count {prior_count:g}; allowed: 0 and above, both."
        )
    start = label_posterior(probabilities, transitions, given)  # refuses what does not fit
    rough, q = transitions.to(start), upcast(probabilities)
    refined = _joint(q, rough, given, prior_count)
    for _ in range(steps):
        q = label_posterior(probabilities, refined, given)
        refined = _joint(q, rough, given, prior_count)
    return refined


def _joint(q: Tensor, rough: Tensor, given: Tensor, prior_count: float) -> Tensor:
    sums = torch.zeros_like(rough).index_add(0, given.long(), q).T + prior_count * rough
    totals = sums.sum(1, keepdim=True)
    return torch.where(totals > 0, sums / totals.where(totals > 0, 1), rough)


def label_issues(probabilities: Tensor, given: Tensor) -> Bool[Tensor, "N"]:
    """The given labels that confident learning finds wrong.

    A class is likely for an example where its probability reaches the class's threshold, the
    mean probability of that class over the examples given it. The label is wrong where the most
    probable of the likely classes, if there is one, is another. A label that is the most
    probable class of all stays, as in cleanlab.

    Source: Northcutt et al. 2021, Confident Learning: Estimating Uncertainty in Dataset Labels,
    section 3.1, equations 1 and 2, and pruning by the off-diagonals of the confident joint.
    Where several classes are likely, cleanlab takes the most probable of all classes, likely or
    not; this takes the most probable likely one, as the paper does.

    Args:
        probabilities: [N, C], by students that were not trained on the example.
        given: The given labels [N].

    Returns:
        True where the label is held to be wrong.

    Note: raises ``UsageError`` where the two do not fit, or a row is no distribution.
    """
    require_probabilities("probabilities", probabilities)
    rows, classes = probabilities.shape
    labels = require_labels("given", given, rows, classes)
    p = upcast(probabilities)
    own = p.gather(1, labels[:, None]).squeeze(1)
    counts = torch.bincount(labels, minlength=classes)
    thresholds = p.new_zeros(classes).index_add(0, labels, own) / counts  # no label: NaN
    likely = p >= thresholds - 1e-6  # so that rounding of a mean leaves nobody below it
    best = p.where(likely, -1).argmax(1)
    return likely.any(1) & (best != labels) & (p.argmax(1) != labels)
