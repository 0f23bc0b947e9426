"""How a real step's gradient comes about, and how it moves the student."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer


@runtime_checkable
class StepStrategy(Protocol):
    """The two moments of a step that training loops differ in.

    A framework of other ways is met by a class with these two methods and two attributes.
    """

    @property
    def max_norm(self) -> float | None:
        """Norm over all parameters to which the gradient is clipped; None: it is not.

        Signals take the steps that they look back over again, and clip as well.
        """
        ...

    @property
    def scales(self) -> bool:
        """Whether ``backward`` differentiates a multiple of the loss."""
        ...

    def backward(self, loss: Tensor, optimizer: Optimizer, *, retain_graph: bool) -> None:
        """Leave the loss's own gradient, neither scaled nor clipped, in the parameters.

        Args:
            loss: What the student descends, a scalar.
            optimizer: The student's.
            again: Whether its graph is needed for another backward pass.
        """
        ...

    def step(self, optimizer: Optimizer) -> bool:
        """Move the student.

        Args:
            optimizer: The student's.

        Returns:
            False where it was left as it is, as where a scaled gradient overflowed.
        """
        ...


@dataclass(frozen=True)
class PlainStep:
    """``loss.backward(); optimizer.step()``, where wanted with the gradient clipped between.

    Raises:
        ValueError: If ``max_norm`` is not positive.
    """

    max_norm: float | None = None
    """norm over all parameters to which the gradient is clipped; None: it is not"""
    scales: bool = False

    def __post_init__(self) -> None:
        require_norm(self.max_norm)

    def backward(
        self,
        loss: Tensor,
        optimizer: Optimizer,  # noqa: ARG002 - the seam
        *,
        retain_graph: bool,
    ) -> None:
        """Leave the gradient in the parameters.

        Args:
            loss: What the student descends, a scalar.
            optimizer: The student's.
            again: Whether the graph is needed for another backward pass.
        """
        loss.backward(retain_graph=retain_graph)

    def step(self, optimizer: Optimizer) -> bool:
        """Move the student.

        Args:
            optimizer: The student's.

        Returns:
            True.
        """
        clip(optimizer, self.max_norm)
        optimizer.step()
        return True


@dataclass(frozen=True)
class AmpStep:
    """The same in half precision: the loss is scaled so that its gradient does not underflow.

    A step whose gradient overflowed is left out, the scale lowered, and the teacher's step that
    would have judged it is left out, too. The gradient is seen without the scale and gets it
    back before the step; scales are powers of two, so no bit is lost.

    Raises:
        ValueError: If ``max_norm`` is not positive.

    Source: Micikevicius et al. 2018, Mixed Precision Training, section 3.2.
    """

    scaler: GradScaler
    max_norm: float | None = None
    """norm over all parameters to which the gradient is clipped; None: it is not"""
    scales: bool = True

    def __post_init__(self) -> None:
        require_norm(self.max_norm)

    def backward(self, loss: Tensor, optimizer: Optimizer, *, retain_graph: bool) -> None:
        """Leave the gradient in the parameters, without the scale.

        Args:
            loss: What the student descends, a scalar.
            optimizer: The student's.
            again: Whether the graph is needed for another backward pass.
        """
        self.scaler.scale(loss).backward(retain_graph=retain_graph)
        scale_gradient(optimizer, 1 / self.scaler.get_scale())

    def step(self, optimizer: Optimizer) -> bool:
        """Move the student where every number of the gradient is finite.

        Args:
            optimizer: The student's.

        Returns:
            Whether it was moved.
        """
        clip(optimizer, self.max_norm)
        before = self.scaler.get_scale()
        scale_gradient(optimizer, before)  # the scaler looks for overflow where it unscales
        self.scaler.step(optimizer)
        self.scaler.update()
        return self.scaler.get_scale() >= before


def clip(optimizer: Optimizer, max_norm: float | None) -> None:
    """Shorten the gradient that an optimiser is about to use.

    Args:
        optimizer: The optimiser.
        max_norm: Its largest norm over all parameters; None leaves it alone.
    """
    if max_norm is not None:
        moved = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(moved, max_norm)


def scale_gradient(optimizer: Optimizer, factor: float) -> None:
    """Multiply the gradient that an optimiser is about to use.

    Args:
        optimizer: The optimiser.
        factor: By what.
    """
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad *= factor


def require_norm(max_norm: float | None) -> None:
    """Refuse a norm to which nothing can be clipped.

    Args:
        max_norm: The norm.

    Raises:
        ValueError: If it is not positive.
    """
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"max_norm must be above 0, got {max_norm}: None does not clip.")
