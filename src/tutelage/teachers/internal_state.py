"""Deep interactions: weights from the student's internal state and surface facts."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tutelage.distributed.groups import batch_mean
from tutelage.errors import UsageError, require_known
from tutelage.functional.submodule_outputs import inferred_width, output_width
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch

LEVELS = ("centred", "free")


class InternalState(Teacher):
    """``w = sigma(W I + E M + b)``: I the internal state, M the label and surface facts.

    With hidden layers, an MLP of the concatenation (I, M) in place of the linear map. The last
    layer starts at zero, so that every example first counts the same: the untaught student.
    Weights are rescaled to sum to one over the batch (mean 1 before the batch mean).

    With weights that sum to one, a change of all logits alike changes next to nothing, so that
    nothing holds their level: it can drift to where the sigmoid is flat, all weights are 1, and
    the teacher learns no more. ``level="centred"`` holds it: ``w = sigma(z - mean z)``, the
    mean of the logits z taken over the batch; b is left away, and in a linear teacher facts
    that are the same for the whole batch (the first three of M1) change nothing.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, sections 3 and 4.

    Args:
        student: The student; read here and not kept.
        classes: C, the number of classes.
        tap: The student's module whose flattened output is I; None leaves I out.
        label: Whether M holds the label, one-hot (the paper's M0).
        surface: Surface facts in M, any of ``SURFACE_FEATURES``; the paper's M1 is
            ``PAPER_SURFACE_FEATURES``.
        hidden_layers: k of the paper's MLP-k; 0 is the linear teacher.
        width: Units of a hidden layer; the width of the input if None.
        attached: Keep ``dw/dtheta`` in the student's gradient (the paper's deeper interaction).
            Without it a hypergradient over several steps leaves out what an earlier step does
            to later weights. With it, too, mean loss and best accuracy are plain numbers.
        tap_width: Features per example at ``tap``, where it cannot be read off the student.
        level: ``"free"``, the paper's formula, or ``"centred"``. What samples by these
            weights, as ``KeepOrDrop`` does, needs their level and so the free one.

    Raises:
        UsageError: If the student has no such tap, a surface fact or level is unknown, or
            nothing at all is shown to the teacher.
    """

    def __init__(
        self,
        student: nn.Module,
        *,
        classes: int,
        tap: str | None = None,
        label: bool = True,
        surface: Sequence[str] = (),
        hidden_layers: int = 0,
        width: int | None = None,
        attached: bool = False,
        tap_width: int | None = None,
        level: str = "free",
    ) -> None:
        super().__init__()
        if isinstance(surface, str):
            raise UsageError(f"surface is a sequence of names, got '{surface}'.")
        if hidden_layers < 0:
            raise UsageError(f"hidden_layers must be 0 or above, got {hidden_layers}.")
        for fact in surface:
            require_known("Unknown surface fact", fact, SURFACE_FEATURES)
        if len(set(surface)) < len(surface):
            raise UsageError(f"surface names a fact twice: {', '.join(surface)}.")
        require_known("Unknown level", level, LEVELS)
        self.classes = classes
        self.level = level
        self.taps = () if tap is None else (tap,)
        self.label = label
        self.surface = tuple(surface)
        self.attached = attached
        self.uses_progress = not {"progress", "mean_loss", "best_accuracy"}.isdisjoint(surface)
        self.tap_width = 0 if tap is None else width_of(student, tap, tap_width)
        size = max((place.stop for place in self.columns().values()), default=0)
        if size == 0:
            raise UsageError(
                "The teacher would have no input. Give it a tap, the label or surface facts."
            )
        self.hidden_layers = hidden_layers
        self.width = size if width is None else width
        self.net = _zero_start_mlp(size, self.width, hidden_layers, bias=level == "free")

    def columns(self) -> dict[str, slice]:
        """The columns of each input of the teacher.

        Returns:
            Columns by ``tap``, ``label`` and the surface facts.
        """
        widths = {"tap": self.tap_width, "label": self.classes * self.label}
        widths |= {f: self.classes if f == "prediction" else 1 for f in self.surface}
        found, start = {}, 0
        for name, width in widths.items():
            if width:
                found[name] = slice(start, start + width)
                start += width
        return found

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weights [L] in (0, 1).

        Note: raises ``UsageError`` where it uses the label or prediction, but rows are
        sequences or the student has another number of classes than the teacher.
        """
        logits = observation.logits
        if self.label or "prediction" in self.surface:
            self._require_classes(logits)
        has_label = self.label or "margin" in self.surface
        one_hot = (
            _one_hot(prepared.targets, logits.shape[-1]).to(logits.dtype)
            if has_label
            else torch.zeros_like(logits)
        )
        seen = [internal_of(observation, tap, self.tap_width) for tap in self.taps]
        if self.label:
            seen.append(one_hot)
        seen += [SURFACE_FEATURES[fact](observation, one_hot) for fact in self.surface]
        z = self.net(torch.cat(seen, 1)).squeeze(1)
        return (z - batch_mean(z) if self.level == "centred" else z).sigmoid()

    def _require_classes(self, logits: Tensor) -> None:
        if logits.ndim == 3:
            raise UsageError(
                "A sequence has no single label or prediction as a teacher's input: give "
                "label=False, and surface facts other than 'prediction'."
            )
        if logits.shape[1] != self.classes:
            raise UsageError(
                f"The teacher was made for {self.classes} classes, but the student has "
                f"{logits.shape[1]}: make one with classes={logits.shape[1]}, or zero its "
                "parameters of classes by teachers.for_other_classes."
            )


def internal_of(observation: Observation, tap: str, width: int) -> Tensor:
    """The student's internal state [L, width] at a tap."""
    state = observation.features[tap].flatten(1)
    if state.shape[1] != width:
        raise UsageError(
            f"Tap '{tap}' gives {state.shape[1]} features, but the teacher was made for "
            f"{width}. Make it with tap_width={state.shape[1]}."
        )
    return state


def width_of(student: nn.Module, tap: str, width: int | None) -> int:
    """The number of features at a tap: as given, or read off the student."""
    if width is None:
        return output_width(student, tap)
    known = inferred_width(student, tap)
    if known is not None and known != width:
        raise UsageError(
            f"The student gives {known} features at tap '{tap}', but tap_width is {width}."
        )
    return width


def _zero_start_mlp(size: int, width: int, hidden_layers: int, *, bias: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(hidden_layers):
        layers += [nn.Linear(size, width), nn.ReLU()]
        size = width
    last = nn.Linear(size, 1, bias=bias)
    for p in last.parameters():
        nn.init.zeros_(p)
    return nn.Sequential(*layers, last)


def _one_hot(targets: Tensor, classes: int) -> Tensor:
    if targets.is_floating_point():
        return targets
    known = F.one_hot(targets.long().clamp(min=0), classes)
    return known * (targets >= 0).unsqueeze(-1)  # padding of sequences is negative


def margin(logits: Tensor, one_hot: Tensor) -> Tensor:
    """``p_y - max_{c != y} p_c``: the margin of the given label in probability."""
    p = logits.softmax(-1)
    lead = (p * one_hot).sum(-1) - (p - 2 * one_hot).amax(-1)
    if lead.ndim == 1:
        return lead.unsqueeze(1)
    counted = one_hot.sum(-1)
    return ((lead * counted).sum(1) / counted.sum(1).clamp(min=1)).unsqueeze(1)


def _constant(observation: Observation, value: float) -> Tensor:
    return torch.full_like(observation.losses, value).unsqueeze(1)


def _prediction(logits: Tensor) -> Tensor:
    return F.one_hot(logits.argmax(1), logits.shape[1]).to(logits.dtype)


SURFACE_FEATURES: dict[str, Callable[[Observation, Tensor], Tensor]] = {
    "progress": lambda seen, _: _constant(seen, seen.progress.fraction),
    "mean_loss": lambda seen, _: _constant(seen, seen.progress.mean_loss),
    "best_accuracy": lambda seen, _: _constant(seen, seen.progress.best_accuracy),
    "prediction": lambda seen, _: _prediction(seen.logits),
    "margin": lambda seen, one_hot: margin(seen.logits, one_hot),
    "loss": lambda seen, _: seen.losses.unsqueeze(1),
}
"""Surface facts by name: from the observation and the given labels to columns [L, 1 or C]."""

PAPER_SURFACE_FEATURES = ("progress", "mean_loss", "best_accuracy", "prediction", "margin")
"""The paper's M1, in its order."""
