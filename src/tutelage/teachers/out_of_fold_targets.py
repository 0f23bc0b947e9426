"""Targets and weights from predictions by students that were not trained on the example."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tutelage.crossfit import label_posterior, sharpened
from tutelage.crossfit.checks import require_labels
from tutelage.errors import UsageError
from tutelage.losses.objectives import Normalise
from tutelage.precision import FULL, autocast_to
from tutelage.teachers.blending import soft_labels
from tutelage.teachers.by_id import order_of, rows_of
from tutelage.types import Batch, Observation, PreparedBatch, as_prepared
from tutelage.validation.shapes import require_tensors

FACTS = 4
"""columns made of each prediction: log p of the given label and of the best other class, the
difference of these two probabilities, the largest probability"""
LEAST = 1e-4
"""the least probability that a logarithm is taken of"""


class OutOfFoldTargets(nn.Module):
    """The target moves from the given label to what cross-fitting says, by a share it learns.

    ``t_i = (1 - s_i) onehot(y_i) + s_i q_i`` with weight ``w_i``. The closed form q is the
    posterior of the label where transitions are given, otherwise the sharpened prediction
    (``tutelage.crossfit``). ``w = sigma(a)`` and ``s = sigma(b + logit(share))``, where (a, b)
    come of an MLP of the example's standardised facts, one hidden tanh layer, and a table by
    given label and predicted class. Weights are rescaled to sum to one over the batch.

    It starts at the closed form: every weight is the same and every share is ``share``. Its
    parameters are distances from that start, so that weight decay pulls it back there. With
    ``AdamW(lr=0.005, weight_decay=2)`` they shrink by 1% at each teacher step, and the teacher
    leaves the closed form as far as held-out examples keep saying so.

    Nothing in it depends on the student, so that a signal follows it exactly over any number of
    steps. It keeps F + C + 3 numbers an example, F = 4 + columns of ``extra``.

    Source: ours; predictions out of fold as in Northcutt et al. 2021, Confident Learning,
    transitions as in Hendrycks et al. 2018, Using Trusted Data to Train Deep Networks on Labels
    Corrupted by Severe Noise.

    Args:
        ids: The examples, N different whole numbers, 0 and above.
        probabilities: Out-of-fold, as ``crossfit.out_of_fold`` gives them [N, C].
        given: The given labels [N].
        transitions: As ``crossfit.estimate_transitions`` gives them [C, C]: q is the posterior
            then; None: q is sharpened p.
        extra: More facts about each example [N, E], such as how far folds disagree.
        width: Units of the hidden layer.
        table: Learn a number for each pair of given label and predicted class, too.
        share: Of the closed form in the target at the start, above 0 and below 1.

    Raises:
        UsageError: If arguments do not fit one another, ids are negative or come twice, rows
            are no distributions, or a number is out of range or not finite.
    """

    normalise: ClassVar[Normalise] = "mean"
    constant_buffers = ("ids", "facts", "closed_form", "pairs", "start")

    def __init__(
        self,
        ids: Tensor,
        probabilities: Tensor,
        given: Tensor,
        *,
        transitions: Tensor | None = None,
        extra: Tensor | None = None,
        width: int = 16,
        table: bool = True,
        share: float = 0.92,
    ) -> None:
        super().__init__()
        _require(width, share)
        require_tensors("OutOfFoldTargets", ids=ids, probabilities=probabilities, given=given)
        require_tensors("OutOfFoldTargets", transitions=transitions, extra=extra)
        if probabilities.ndim != 2 or ids.shape != probabilities.shape[:1] or not len(ids):
            raise UsageError(
                f"there are {len(ids)} ids for probabilities of shape "
                f"{tuple(probabilities.shape)}; allowed: [N] and [N, C], N 1 and above."
            )
        given = require_labels("given", given, *probabilities.shape)
        if transitions is None:
            closed = sharpened(probabilities)
        else:
            closed = label_posterior(probabilities, transitions, given)
        order = order_of(ids)
        facts = _facts(probabilities.to(closed), given, extra)
        self._fill(
            ids.long()[order],
            facts[order],
            closed[order],
            torch.stack([given, probabilities.argmax(1)], 1)[order],
        )
        self._learn(width, share, table=table)

    @classmethod
    def of_sizes(
        cls, *, examples: int, classes: int, facts: int, width: int, table: bool, share: float
    ) -> "OutOfFoldTargets":
        """One without content, which stored weights will fill.

        Args:
            examples: N.
            classes: C.
            facts: F.
            width: Units of the hidden layer.
            table: Whether it has one.
            share: At the start.

        Returns:
            The teacher; every number in its buffers is 0.
        """
        _require(width, share)
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._fill(
            torch.zeros(examples, dtype=torch.int64),
            torch.zeros(examples, facts),
            torch.zeros(examples, classes),
            torch.zeros(examples, 2, dtype=torch.int64),
        )
        made._learn(width, share, table=table)
        return made

    def _fill(self, ids: Tensor, facts: Tensor, closed: Tensor, pairs: Tensor) -> None:
        self.ids: Tensor
        self.facts: Tensor
        self.closed_form: Tensor
        self.pairs: Tensor
        self.register_buffer("ids", ids)
        self.register_buffer("facts", facts)
        self.register_buffer("closed_form", closed)
        self.register_buffer("pairs", pairs)

    def _learn(self, width: int, share: float, *, table: bool) -> None:
        self.width, self.share = width, share
        self.start: Tensor
        first = nn.Linear(self.facts.shape[1], width)
        self.register_buffer(
            "start", torch.cat([first.weight, first.bias[:, None]], 1).detach()
        )
        self.hidden = nn.Parameter(torch.zeros_like(self.start))
        self.last = nn.Linear(width, 2)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        classes = self.closed_form.shape[1]
        self.table = nn.Parameter(torch.zeros(classes, classes, 2)) if table else None

    def logits(self, ids: Int64[Tensor, "L"]) -> Float[Tensor, "L 2"]:
        """Of weight and share, both 0 at the start.

        Args:
            ids: Examples that the teacher has predictions of.

        Returns:
            a and b of each.

        Note: raises ``UsageError`` where it has none of an example.
        """
        rows = self._rows(ids)
        with autocast_to(FULL, ids.device):
            layer = self.start + self.hidden
            found = self.last(F.linear(self.facts[rows], layer[:, :-1], layer[:, -1]).tanh())
            if self.table is not None:
                found = found + self.table[self.pairs[rows, 0], self.pairs[rows, 1]]
        return found

    def prepare(self, batch: Batch) -> PreparedBatch:
        """The same inputs with soft targets [B, C]."""
        closed = self.closed_form[self._rows(batch.ids)]
        given = soft_labels(batch, closed.shape[1], type(self).__name__)
        kind = torch.promote_types(closed.dtype, given.dtype)
        start = math.log(self.share / (1 - self.share))
        share = (self.logits(batch.ids)[:, 1:].to(kind) + start).sigmoid()
        targets = (1 - share) * given.to(kind) + share * closed.to(kind)
        return as_prepared(batch)._replace(targets=targets.to(given.dtype))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Weights [L] in (0, 1)."""
        return self.logits(prepared.ids)[:, 0].sigmoid()

    def targets(self) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N"]]:
        """The present targets and weights, for another round of folds or for inspection.

        Returns:
            By rising id: the targets of all examples, and their weights in (0, 1).
        """
        classes = self.closed_form.shape[1]
        given = F.one_hot(self.pairs[:, 0], classes).to(self.closed_form)
        with torch.no_grad():
            moved = self.prepare(Batch(given, given, self.ids)).targets
            return moved, self.logits(self.ids)[:, 0].sigmoid()

    def _rows(self, ids: Tensor) -> Tensor:
        return rows_of(self.ids, ids, "no out-of-fold prediction is there")


def _require(width: int, share: float) -> None:
    if not 0 < share < 1:
        raise UsageError(f"share is {share:g}; allowed: above 0 and below 1.")
    if width < 1:
        raise UsageError(f"width is {width}; allowed: 1 and above.")


def _facts(p: Tensor, given: Tensor, extra: Tensor | None) -> Tensor:
    # columns of mean 0 and standard deviation 1; a column that is the same for all is 0
    floored = p.clamp(min=LEAST)
    own = floored.gather(1, given[:, None]).squeeze(1)
    is_given = F.one_hot(given, p.shape[1]).bool()
    other = floored.masked_fill(is_given, LEAST).amax(1)
    columns = torch.stack([own.log(), other.log(), own - other, floored.amax(1)], 1)
    if extra is not None:
        if extra.ndim != 2 or len(extra) != len(p) or not bool(extra.isfinite().all()):
            raise UsageError(
                f"extra has shape {tuple(extra.shape)} for {len(p)} examples; allowed: finite "
                "numbers [N, E], one row for each."
            )
        columns = torch.cat([columns, extra.to(columns)], 1)
    spread = columns.std(0, correction=0)
    centred = columns - columns.mean(0)
    return torch.where(spread > 1e-6, centred / spread.clamp(min=1e-6), 0 * centred)
