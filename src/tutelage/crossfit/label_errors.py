"""The probability that a given label is wrong, and the number of wrong labels."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.errors import UsageError
from tutelage.validation.shapes import described

FITTED = 5000
"""given labels that a draw is fitted to at most"""
SPREAD = 0.5
"""standard deviation of the priors of log power and of each class's bias"""
PRIOR_SHARE = (0.02, 0.6)
"""least and largest weight of the transitions' prior, beside that of the given labels"""
NOISY_WEIGHT = (100.0, 10_000.0)
"""least and largest weight of all given labels together, in examples"""
FLOOR = (3e-3, 3e-2)
"""least and largest share of the uniform distribution in predictions"""
SHIFT = 0.5
"""standard deviation of an error of log odds that all labels have in common"""
SWEEPS, MAXIMISATIONS, CALIBRATIONS = 6, 3, 4
"""sweeps over transitions and calibration, and the iterations of each in a sweep"""
LEAST_ODDS, MOST_SHIFT, BISECTIONS = 1e-9, 20.0, 50
"""the least probability that is shifted; the largest shift of log odds; steps to find it"""
QUANTILES = 64
"""of the number of wrong labels, taken under each draw"""


class LabelErrors(NamedTuple):
    """Probabilities that each of N given labels is wrong, in double precision."""

    probabilities: Float[Tensor, "N"]
    """that the given label is wrong: the mean over the draws"""
    draws: Float[Tensor, "D N"]
    """the same under each draw of calibration and transitions"""
    transitions: Float[Tensor, "C C"]
    """from right class (row) to given label (column): the mean over the draws"""
    power: float
    """median over the draws; below 1, the predictions were surer than they should be"""


def label_errors(
    probabilities: Tensor,
    given: Tensor,
    checked_probabilities: Tensor | None = None,
    checked_labels: Tensor | None = None,
    *,
    draws: int = 32,
    seed: int = 0,
) -> LabelErrors:
    """Estimate the probability that each given label is wrong.

    The right class is predicted by ``q(c) = (1 - f) softmax(a log p + b)_c + f / C``, the given
    label depends on it by transitions T, and the label g is wrong with probability
    ``1 - q(g) T[g, g] / sum_c q(c) T[c, g]``. Power a, biases b and T maximise the likelihood
    of the right classes of checked examples, ``q(y)``, times that of the given labels,
    ``sum_c q(c) T[c, g]``, raised to a power of at most one, as labels of people do not depend
    on the class alone. Priors are normal for log a and b; for each row of T a Dirichlet under
    which all wrong labels are alike.

    Some quantities are not determined by the data, and are drawn anew for each draw: how much
    the given labels count; the weight of the prior; the floor f; whether the prior's rate of
    wrong labels is the fitted one or the share of labels that predictions contradict; and an
    error of log odds that all labels share. Each draw is fitted to resampled examples, and its
    priors of log a and b are centred at a draw from these priors. Checked examples show how
    sure predictions should be; without any, the given labels alone do.

    Source: the calibration is vector scaling with one scale (Guo et al. 2017, On Calibration of
    Modern Neural Networks, section 4.2), T is found by expectation maximisation as in Dawid and
    Skene 1979, the power of a likelihood is that of Miller and Dunson 2019, Robust Bayesian
    Inference via Coarsening, the weights of checked examples are those of Rubin 1981, The
    Bayesian Bootstrap, and priors are moved as in Matthews et al. 2017, Sample-then-optimize
    Posterior Sampling for Bayesian Linear Models. To draw what the data do not determine, and
    how, is ours; the ranges were chosen on two seeds of CIFAR-10N that no reported figure uses.

    Args:
        probabilities: [N, C], by students that were not trained on the example, with given
            labels as they are or with a corrected loss.
        given: The given labels [N].
        checked_probabilities: The same students' probabilities of H examples whose right class
            is known [H, C]; None: no example is checked.
        checked_labels: Their right classes [H].
        draws: D, 2 and above.
        seed: Of the draws.

    Returns:
        On the CPU.

    Raises:
        UsageError: If arguments do not fit, there is no row, or rows are no distributions.
    """
    if draws < 2:
        raise UsageError(f"draws is {draws}; allowed: 2 and above.")
    seen = _seen(probabilities, given, checked_probabilities, checked_labels)
    generator = torch.Generator().manual_seed(seed)
    fits = [_fit(seen, generator) for _ in range(draws)]
    each = torch.stack([_wrong(fit, seen.log_p, seen.given) for fit in fits])
    return LabelErrors(
        each.mean(0),
        each,
        torch.stack([fit.transitions for fit in fits]).mean(0),
        float(torch.stack([fit.log_power for fit in fits]).median().exp()),
    )


def match_error_counts(errors: LabelErrors, like: LabelErrors) -> LabelErrors:
    """Estimates shifted in log odds, so that each draw has as many wrong labels as in another.

    Distilled students rank labels best, but given labels have affected their targets, so that
    they find too few labels wrong; students whose targets were not affected give the number.
    The order of the labels stays the same under each draw.

    Args:
        errors: What ranks the labels.
        like: Of the same labels with as many draws; the number of wrong ones is taken from it.

    Returns:
        The first with the totals of the second.

    Raises:
        UsageError: If the two are about other numbers of labels or draws.
    """
    if errors.draws.shape != like.draws.shape:
        raise UsageError(
            f"like has draws {described(like.draws)}; allowed: those of errors, "
            f"{described(errors.draws)}."
        )
    log_odds = errors.draws.logit(LEAST_ODDS)
    wanted = like.draws.sum(1)
    low, high = (wanted.new_full(wanted.shape, end) for end in (-MOST_SHIFT, MOST_SHIFT))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        few = (log_odds + middle[:, None]).sigmoid().sum(1) < wanted
        low, high = torch.where(few, middle, low), torch.where(few, high, middle)
    draws = (log_odds + low[:, None]).sigmoid()
    return errors._replace(probabilities=draws.mean(0), draws=draws)


def error_count_interval(
    errors: LabelErrors, rows: Bool[Tensor, "N"] | None = None, *, level: float = 0.9
) -> tuple[int, int]:
    """An interval of the number of wrong labels among some.

    Args:
        errors: Of all labels.
        rows: True for the labels that are meant; None: all.
        level: The probability that the number lies between the two, above 0 and below 1.

    Returns:
        The least and the largest number.

    Raises:
        UsageError: If rows or level do not fit.
    """
    each = errors.draws
    if not 0 < level < 1:
        raise UsageError(f"level is {level:g}; allowed: above 0 and below 1.")
    if rows is not None:
        if rows.dtype != torch.bool or rows.shape != each.shape[1:]:
            raise UsageError(
                f"rows are {described(rows)}; allowed: bool [{each.shape[1]}], one for each "
                "label."
            )
        each = each[:, rows.cpu()]
    spread = (each * (1 - each)).sum(1).sqrt()
    place = (torch.arange(QUANTILES, dtype=each.dtype) + 0.5) / QUANTILES
    normal = torch.special.ndtri(place)  # a sum of many labels that are wrong independently
    counts = each.sum(1)[:, None] + spread[:, None] * normal
    tails = counts.new_tensor([(1 - level) / 2, (1 + level) / 2])
    low, high = counts.flatten().quantile(tails).tolist()
    return max(0, math.floor(low)), min(each.shape[1], math.ceil(high))


@dataclass(frozen=True, eq=False)
class _Seen:
    """What is known of N given labels and H checked examples."""

    log_p: Tensor
    given: Tensor
    checked_log_p: Tensor
    right: Tensor


class _Fitted(NamedTuple):
    """The parameters of one draw."""

    log_power: Tensor
    bias: Tensor
    transitions: Tensor
    centre: Tensor
    """of the priors of log power and biases [1 + C]"""
    floor: float
    shift: float


def _seen(p: Tensor, given: Tensor, checked: Tensor | None, right: Tensor | None) -> _Seen:
    require_probabilities("probabilities", p)
    rows, classes = p.shape
    if not rows:
        raise UsageError("There is no row of probabilities; allowed: one and above.")
    if (checked is None) != (right is None):
        raise UsageError("checked_probabilities and checked_labels are given both or neither.")
    if checked is None or right is None:
        checked, right = p[:0], given[:0]
    require_probabilities("checked_probabilities", checked)
    if checked.shape[1] != classes:
        raise UsageError(
            f"checked_probabilities are {described(checked)}; allowed: [H, {classes}], as the "
            f"probabilities have {classes} classes."
        )
    labels = require_labels("given", given, rows, classes)
    known = require_labels("checked_labels", right, len(checked), classes)
    return _Seen(_log(p), labels.cpu(), _log(checked), known.cpu())


def _log(p: Tensor) -> Tensor:
    return p.detach().cpu().double().clamp(min=1e-12).log()


def _fit(seen: _Seen, generator: torch.Generator) -> _Fitted:
    """Fit the parameters to resampled examples, under what is drawn."""
    count, classes = seen.log_p.shape
    rows = torch.randint(count, (min(FITTED, count),), generator=generator)
    uniform = torch.rand(len(seen.right), generator=generator, dtype=torch.float64)
    share, weight, floor = (
        _log_uniform(ends, generator) for ends in (PRIOR_SHARE, NOISY_WEIGHT, FLOOR)
    )
    doubt = float(torch.rand((), generator=generator))
    shift = SHIFT * float(torch.randn((), generator=generator))
    seen = replace(seen, log_p=seen.log_p[rows], given=seen.given[rows])
    centre = torch.randn(1 + classes, generator=generator, dtype=torch.float64) * SPREAD
    none = torch.empty(0, dtype=torch.float64)
    fitted = _Fitted(centre[0], centre[1:], none, centre, floor, shift)
    for sweep in range(SWEEPS):
        q = _calibrated(fitted, seen.log_p).exp()
        against = 1 - float(q.gather(1, seen.given[:, None]).mean())
        if not sweep:
            fitted = fitted._replace(transitions=_symmetric_noise(against / 2, classes))
        for _ in range(MAXIMISATIONS):
            counts = _by_given(_posterior(q, fitted.transitions, seen.given), seen.given)
            rate = 1 - float(counts.trace() / counts.sum())
            rate += doubt * max(0.0, against - rate)
            counts = counts + share * len(rows) / classes * _symmetric_noise(rate, classes)
            fitted = fitted._replace(transitions=counts / counts.sum(1, keepdim=True))
        soft = _posterior(q, fitted.transitions, seen.given) * min(weight, count) / len(rows)
        fitted = _recalibrated(fitted, seen, -(1 - uniform).log(), soft)
    return fitted


def _log_uniform(ends: tuple[float, float], generator: torch.Generator) -> float:
    place = float(torch.rand((), generator=generator))
    return ends[0] * (ends[1] / ends[0]) ** place


def _symmetric_noise(rate: float, classes: int) -> Tensor:
    # transitions under which all wrong labels are alike
    eye = torch.eye(classes, dtype=torch.float64)
    return (1 - rate) * eye + rate / max(1, classes - 1) * (1 - eye)


def _calibrated(fitted: _Fitted, log_p: Tensor) -> Tensor:
    # log q
    found = (fitted.log_power.exp() * log_p + fitted.bias).log_softmax(1)
    least = found.new_tensor(fitted.floor / found.shape[1]).log()
    return torch.logaddexp(found + math.log1p(-fitted.floor), least)


def _posterior(q: Tensor, transitions: Tensor, given: Tensor) -> Tensor:
    joint = q * transitions.T[given]
    return joint / joint.sum(1, keepdim=True)


def _by_given(soft: Tensor, given: Tensor) -> Tensor:
    # expected numbers of each right class (row) with each given label (column)
    classes = soft.shape[1]
    return soft.new_zeros(classes, classes).index_add(0, given, soft).T


def _recalibrated(fitted: _Fitted, seen: _Seen, weights: Tensor, soft: Tensor) -> _Fitted:
    """Improve power and biases, given soft right classes of what is not checked."""
    parts = [part.clone().requires_grad_() for part in fitted[:2]]
    optimizer = torch.optim.LBFGS(parts, max_iter=CALIBRATIONS, line_search_fn="strong_wolfe")

    @torch.enable_grad()
    def loss() -> Tensor:
        optimizer.zero_grad()
        now = fitted._replace(log_power=parts[0], bias=parts[1])
        own = F.nll_loss(_calibrated(now, seen.checked_log_p), seen.right, reduction="none")
        moved = torch.cat([parts[0][None], parts[1]]) - fitted.centre
        prior = moved.square().sum() / (2 * SPREAD**2)
        found = weights @ own - (soft * _calibrated(now, seen.log_p)).sum() + prior
        found.backward()
        return found

    optimizer.step(loss)
    return fitted._replace(log_power=parts[0].detach(), bias=parts[1].detach())


def _wrong(fitted: _Fitted, log_p: Tensor, given: Tensor) -> Tensor:
    soft = _posterior(_calibrated(fitted, log_p).exp(), fitted.transitions, given)
    own = given[:, None]
    odds = math.exp(fitted.shift) * soft.scatter(1, own, 0.0).sum(1)  # not 1 - own: it rounds
    return odds / (odds + soft.gather(1, own).squeeze(1))
