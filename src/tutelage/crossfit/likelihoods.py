"""Log-likelihoods by which predictions are compared."""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor

MIN_PROBABILITY = 1e-6
"""the least probability that a logarithm is taken of"""
TEMPERATURES = tuple(10 ** (power / 20) for power in range(-20, 21))
"""0.1 to 10, of which the best is taken before predictions are compared"""


def calibrated_log_likelihood(probabilities: Tensor, labels: Tensor) -> Float[Tensor, "N"]:
    """Log-likelihoods of labels under the temperature that suits them best.

    What counts is then which class is likelier, not how sure a student is.
    """
    return _calibrated(probabilities, lambda log_p: log_p.gather(1, labels[:, None])[:, 0])


def given_log_likelihood(
    probabilities: Tensor, given: Tensor, transitions: Float[Tensor, "C C"]
) -> Float[Tensor, "N"]:
    """Log-likelihoods of given labels, where predictions are of the right classes.

    Calibrated as in ``calibrated_log_likelihood``.
    """
    by_label = transitions.double().T[given].clamp(min=MIN_PROBABILITY).log()
    return _calibrated(probabilities, lambda log_p: (log_p + by_label).logsumexp(1))


def _calibrated(
    probabilities: Tensor, log_likelihood: Callable[[Tensor], Tensor]
) -> Float[Tensor, "N"]:
    """The largest in the mean of those by log-probabilities under each temperature."""
    logits = probabilities.double().clamp(min=MIN_PROBABILITY).log()
    tried = [log_likelihood((logits / t).log_softmax(1)) for t in TEMPERATURES]
    return max(tried, key=lambda each: float(each.mean()))


def significantly_worse(
    one: Float[Tensor, "H"], other: Float[Tensor, "H"], *, standard_errors: float = 2.0
) -> bool:
    """Whether the first is lower by more than so many standard errors of the differences.

    The differences are paired. A single pair, which has no spread, shows nothing.
    """
    if len(one) < 2:
        return False
    gains = one - other
    return float(gains.mean()) < -standard_errors * float(gains.std()) / len(gains) ** 0.5


def select_stage(likelihoods: Sequence[Float[Tensor, "H"]]) -> int:
    """The index of the last stage that is not worse than the one chosen before it."""
    chosen = 0
    for place, each in enumerate(likelihoods):
        if not significantly_worse(each, likelihoods[chosen]):
            chosen = place
    return chosen
