"""Label-dependent blending of examples, learned for each pair of classes."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.losses.targets import one_hot
from tutelage.precision import FULL, autocast_to
from tutelage.teacher import Teacher
from tutelage.types import Batch, PreparedBatch, as_prepared
from tutelage.validation.shapes import described


class Blending(Teacher):
    """Mixes each example with another of its batch, by a share learned for their classes.

    ``lambda_b = 1 - sigma(phi[y_b, y_pi(b)]) / 2`` in (1/2, 1), with a permutation pi drawn for
    each batch. Inputs and labels are both blended by it, ``lambda_b`` of the example's own and
    ``1 - lambda_b`` of its partner's, and phi learns through both. Where soft labels are given,
    lambda is its mean over the pairs of classes.

    Source: Raghu et al. 2021, Teaching with Commentaries, section 4.

    Note: held-out examples are not blended. The random baseline of the official code, which
    draws phi in place of lambda, is this teacher with phi drawn from [1/2, 1].

    Args:
        classes: C.
        start: What every entry of phi starts at: 0, that is lambda = 0.75, in the paper;
            -1, that is 0.87, in its official code.

    Attributes:
        phi: [C, C], by the example's own class and its partner's; not symmetric.
    """

    def __init__(self, classes: int, *, start: float = 0.0) -> None:
        super().__init__()
        self.start = start
        self.phi = nn.Parameter(torch.full((classes, classes), start))

    @property
    def shares(self) -> Float[Tensor, "C C"]:
        """The share lambda of an example's own input, by its class and its partner's."""
        return 1 - self.phi.sigmoid() / 2

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Blend a batch."""
        return blend_by_class(batch, self.shares)


def blend_by_class(batch: Batch, shares: Float[Tensor, "C C"]) -> PreparedBatch:
    """Blend a batch with a permutation of itself, by a share for each pair of classes."""
    partner = drawn_partner(batch)
    labels = soft_labels(batch, len(shares))
    shares = shares.to(torch.promote_types(shares.dtype, labels.dtype))
    labels = labels.to(shares.dtype)
    with autocast_to(FULL, shares.device):
        own = (labels @ shares * labels[partner]).sum(1)
    return blend(batch, partner, own, len(shares))


def blend(
    batch: Batch, partner: Int64[Tensor, "B"], own: Float[Tensor, "B"], classes: int
) -> PreparedBatch:
    """``own_b x_b + (1 - own_b) x_partner(b)``, and the same of the labels."""
    x, y = batch.inputs, soft_labels(batch, classes)
    if not x.is_floating_point():
        raise UsageError(
            f"inputs are {described(x)}, of which no mixture can be shown: blend inputs in "
            "floating point, such as images in 0..1."
        )
    own = own.to(torch.promote_types(own.dtype, y.dtype))
    share, mine = own.reshape(-1, *[1] * (x.ndim - 1)), own.unsqueeze(1)
    inputs = (share * x + (1 - share) * x[partner]).to(x.dtype)  # rounded once in half
    targets = (mine * y + (1 - mine) * y[partner]).to(y.dtype)
    return as_prepared(batch)._replace(inputs=inputs, targets=targets)


def drawn_partner(batch: Batch) -> Int64[Tensor, "B"]:
    """A random permutation of the batch's rows."""
    return torch.randperm(len(batch.ids)).to(batch.ids.device)


def soft_labels(batch: Batch, classes: int, owner: str = "blending") -> Float[Tensor, "B C"]:
    """A batch's targets as probabilities."""
    kind = torch.float64 if batch.inputs.dtype == torch.float64 else torch.float32
    if batch.targets.is_floating_point():
        if batch.targets.ndim != 2 or batch.targets.shape[1] != classes:
            raise UsageError(
                f"targets are {described(batch.targets)}; allowed: class ids [B], or soft "
                f"labels [B, {classes}]."
            )
        return batch.targets.to(torch.promote_types(batch.targets.dtype, kind))
    return one_hot(batch.targets, classes, owner).to(kind)
