"""The meta soft label corrector: targets between given label, last target and prediction."""

from collections.abc import Mapping

from torch import Tensor, nn

from tutelage.crossfit.checks import require_probabilities
from tutelage.errors import UsageError
from tutelage.losses.targets import one_hot
from tutelage.precision import FULL, autocast_to, upcast
from tutelage.teachers.by_id import order_of, rows_of
from tutelage.types import Observation, PreparedBatch
from tutelage.validation.shapes import require_tensors


class MetaSoftLabelCorrector(nn.Module):
    """The student descends its cross entropy with a target between three.

    ``t = alpha y + (1 - alpha) (beta z + (1 - beta) p)``: y is the given label, z the example's
    target at its last step, p the student's prediction. ``alpha = sigma(MLP(l_y))`` and
    ``beta = sigma(MLP(l_z))`` are learned, one hidden ReLU layer each, of the student's cross
    entropy with y and with z. No gradient flows back through p, l_y and l_z, so that a
    hypergradient over several steps leaves out what an earlier step does to later targets.
    Held-out examples are evaluated by the objective.

    Source: Wu et al. 2020, Learning to Purify Noisy Labels via Meta Soft Label Corrector
    (MSLC), section 3: the soft label and its two coefficients; sizes as in its code.

    Note: the code starts after 80 epochs of plain training, takes the most probable class of z
    and p in the loss, and renews z at the end of an epoch. Here z and p stay soft, z is renewed
    at each real step, and starts as what is given: a trained student's predictions, or better
    those of ``crossfit.out_of_fold``. A copy of z travels with every step.

    Args:
        ids: The examples, N different whole numbers, 0 and above.
        previous: z at first [N, C].
        width: Units of the hidden layers.

    Raises:
        UsageError: If ids are negative or come twice, rows are no distributions, or the two
            differ in length.
    """

    memory = ("previous",)
    constant_buffers = ("ids",)

    def __init__(self, ids: Tensor, previous: Tensor, *, width: int = 100) -> None:
        super().__init__()
        require_tensors("MetaSoftLabelCorrector", ids=ids, previous=previous)
        if previous.ndim != 2 or ids.shape != previous.shape[:1] or not len(ids):
            raise UsageError(
                f"there are {len(ids)} ids for targets of shape {tuple(previous.shape)}; "
                "allowed: [N] and [N, C], N 1 and above."
            )
        if not previous.is_meta:
            require_probabilities("previous", previous)
        order = order_of(ids)
        self.width = width
        self.ids: Tensor
        self.previous: Tensor
        self.register_buffer("ids", ids.long()[order])
        self.register_buffer("previous", upcast(previous)[order])
        self.by_given, self.by_previous = (
            nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1)) for _ in range(2)
        )

    def corrected(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Soft targets [L, C] in place of the given labels."""
        z = self.previous[rows_of(self.ids, prepared.ids, "no earlier target is there")]
        log_p = upcast(observation.logits).detach().log_softmax(1)
        targets, classes = prepared.targets, z.shape[1]
        soft = targets.is_floating_point()
        y = targets if soft else one_hot(targets, classes, type(self).__name__)
        y, z = y.to(log_p), z.to(log_p)
        alpha = _coefficient(self.by_given, -(y * log_p).sum(1))
        beta = _coefficient(self.by_previous, -(z * log_p).sum(1))
        return alpha * y + (1 - alpha) * (beta * z + (1 - beta) * log_p.exp())

    def row_losses(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Cross entropy [L] with the corrected targets, in nats."""
        log_p = upcast(observation.logits).log_softmax(1)
        return -(self.corrected(prepared, observation) * log_p).sum(1)

    def remember(
        self, prepared: PreparedBatch, observation: Observation
    ) -> Mapping[str, Tensor]:
        """The z of all examples after a step: its targets in place of those before."""
        rows = rows_of(self.ids, prepared.ids, "no earlier target is there")
        found = self.corrected(prepared, observation).to(self.previous)
        return {"previous": self.previous.index_copy(0, rows, found)}


def _coefficient(net: nn.Module, losses: Tensor) -> Tensor:
    with autocast_to(FULL, losses.device):
        own = next(net.parameters()).dtype
        return net(losses.to(own).unsqueeze(1)).sigmoid().to(losses)
