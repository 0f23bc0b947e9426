"""MentorNet: weights by losses relative to a moving percentile."""

import torch
from torch import Tensor, nn

from tutelage.losses.objectives import Normalise
from tutelage.losses.targets import require_classes_of
from tutelage.teacher import Teacher
from tutelage.teachers.loss_percentile import LossPercentile
from tutelage.types import Observation, PreparedBatch
from tutelage.validation.ranges import require_not_negative

EPOCHS = 100
"""into how many parts the learned MentorNet divides a run"""


class MentorNetPD(Teacher):
    """``w = 1[l <= l1]``, or ``clip(1 - (l - l1) / l2, 0, 1)`` for ``l2 > 0``; not learned.

    ``l1`` is a moving average of the p-percentile of the losses (``LossPercentile``). In the
    first part of the run every example counts 1, but a random half of each batch is left out.
    Weights are not rescaled.

    Source: Jiang et al. 2018, MentorNet: Learning Data-Driven Curriculum for Very Deep Neural
    Networks on Corrupted Labels (the predefined curriculum); percentile, decay, burn-in and
    dropout as in its code.

    Note: the code goes from ``l2 = 0`` to 1 for the last tenth of a run, and leaves out one
    example in 20 after the burn-in, too.

    Args:
        width: l2, nats.
        percentile: p, a share.
        decay: Of the moving average, per step.
        burn_in: Share of the run in which all count the same.
        dropout: Share of each batch that is left out then.
        attached: Keep ``dw/dtheta`` in the student's gradient. Without it a hypergradient over
            several steps leaves out what an earlier step does to later weights.

    Raises:
        ValueError: If ``width`` is negative, or a share is none.
    """

    normalise: Normalise = None
    uses_progress = True

    def __init__(
        self,
        *,
        width: float = 0.0,
        percentile: float = 0.7,
        decay: float = 0.5,
        burn_in: float = 0.2,
        dropout: float = 0.5,
        attached: bool = False,
    ) -> None:
        super().__init__()
        require_not_negative("width", width)
        _require_shares(burn_in=burn_in, dropout=dropout)
        self.width = width
        self.burn_in = burn_in
        self.dropout = dropout
        self.attached = attached
        self.average = LossPercentile(percentile=percentile, decay=decay)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Weights [L] in [0, 1]."""
        losses = observation.losses
        if observation.progress.fraction < self.burn_in:
            return _some(losses, self.dropout)
        above = losses - self.average(losses)
        if self.width == 0:
            return (above <= 0).to(losses.dtype)
        return (1 - above / self.width).clamp(0, 1)


class MentorNetDD(Teacher):
    """``w = sigma(MLP(c, embedding of y, embedding of the epoch))``.

    ``c`` are the cells of a bidirectional LSTM of one unit over a sequence of one,
    ``(l, l - l1)``, which starts from nothing: ``c = sigma(W_i x + b_i) tanh(W_g x + b_g)`` in
    each direction. One hidden layer of 20 tanh units. The embedding of the epoch, a hundredth
    of the run, is drawn once and stays. Moving percentile ``l1``, burn-in and dropout as for
    ``MentorNetPD``; weights are not rescaled.

    Source: Jiang et al. 2018, MentorNet (the learned curriculum); sizes as in its code.

    Note: the paper fits it to examples whose labels are known to be right or wrong, and has it
    see one epoch after the burn-in; its code gives every example the label 0. Here it sees the
    label and the epoch, and any signal teaches it.

    Args:
        classes: C, the number of classes.
        percentile: p, a share.
        decay: Of the moving average, per step.
        burn_in: Share of the run in which all count the same.
        dropout: Share of each batch that is left out then.
        attached: Keep ``dw/dtheta`` in the student's gradient. Without it a hypergradient over
            several steps leaves out what an earlier step does to later weights.

    Raises:
        ValueError: If a share is none.
    """

    normalise: Normalise = None
    uses_progress = True

    def __init__(
        self,
        classes: int,
        *,
        percentile: float = 0.7,
        decay: float = 0.5,
        burn_in: float = 0.2,
        dropout: float = 0.5,
        attached: bool = False,
    ) -> None:
        super().__init__()
        _require_shares(burn_in=burn_in, dropout=dropout)
        self.classes = classes
        self.burn_in = burn_in
        self.dropout = dropout
        self.attached = attached
        self.average = LossPercentile(percentile=percentile, decay=decay)
        self.gates = nn.Linear(2, 4)
        self.labels = nn.Embedding(classes, 2)
        self.epochs: Tensor
        self.register_buffer("epochs", torch.randn(EPOCHS, 5))
        self.net = nn.Sequential(nn.Linear(2 + 5 + 2, 20), nn.Tanh(), nn.Linear(20, 1))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weights [L] in [0, 1]."""
        losses, fraction = observation.losses, observation.progress.fraction
        if fraction < self.burn_in:
            return _some(losses, self.dropout)
        if prepared.targets.device.type == "cpu":
            require_classes_of(prepared.targets, self.classes, type(self).__name__)
        above = losses - self.average(losses)
        gate, candidate = self.gates(torch.stack([losses, above], 1)).chunk(2, dim=1)
        epoch = self.epochs[min(int(EPOCHS * fraction), EPOCHS - 1)].expand(len(losses), -1)
        seen = [self.labels(prepared.targets.long()), epoch, gate.sigmoid() * candidate.tanh()]
        return self.net(torch.cat(seen, 1)).sigmoid().squeeze(1)


def _some(losses: Tensor, dropout: float) -> Tensor:
    # weight 1 but for a random share of the rows
    kept = torch.randperm(len(losses), device=losses.device)
    kept = kept[: max(int(len(losses) * (1 - dropout)), 1)]
    return torch.zeros_like(losses).index_fill(0, kept, 1.0)


def _require_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is a share in [0, 1], got {share}.")
