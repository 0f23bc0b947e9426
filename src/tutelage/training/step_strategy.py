"""How a real step computes its gradient and moves the student."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer


@runtime_checkable
class StepStrategy(Protocol):
    """Backward pass and optimiser step of a real step.

    A framework's own training step is a class with these methods and attributes.
    """

    @property
    def max_norm(self) -> float | None:
        """Norm over all parameters to which the gradient is clipped; None: it is not.

        Signals recompute the steps of their window, and clip as well.
        """
        ...

    @property
    def scales(self) -> bool:
        """Whether ``backward`` differentiates a multiple of the loss."""
        ...

    def backward(self, loss: Tensor, optimizer: Optimizer, *, retain_graph: bool) -> None:
        """Leave the gradient, neither scaled nor clipped, in ``.grad``.

        Args:
            loss: The training loss, a scalar.
            optimizer: The student's.
            retain_graph: Whether its graph is needed for another backward pass.
        """
        ...

    def step(self, optimizer: Optimizer) -> bool:
        """Step the optimiser.

        Args:
            optimizer: The student's.

        Returns:
            False where it was left as it is, as where a scaled gradient overflowed.
        """
        ...


@dataclass(frozen=True)
class PlainStep:
    """``loss.backward(); optimizer.step()``, optionally with gradient clipping.

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
        optimizer: Optimizer,  # noqa: ARG002 - the interface
        *,
        retain_graph: bool,
    ) -> None:
        """Run the backward pass."""
        loss.backward(retain_graph=retain_graph)

    def step(self, optimizer: Optimizer) -> bool:
        """Clip, and step the optimiser."""
        clip(optimizer, self.max_norm)
        optimizer.step()
        return True


@dataclass(frozen=True)
class AmpStep:
    """Mixed precision with loss scaling by a ``GradScaler``.

    A step whose gradient overflowed is skipped, the scale lowered, and the teacher step of its
    window skipped, too. The gradient is unscaled after the backward pass and scaled again
    before the step; scales are powers of two, so that this is exact.

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
        """Run the backward pass and unscale the gradient."""
        self.scaler.scale(loss).backward(retain_graph=retain_graph)
        scale_gradient(optimizer, 1 / self.scaler.get_scale())

    def step(self, optimizer: Optimizer) -> bool:
        """Step the optimiser unless a gradient overflowed; returns whether it stepped."""
        clip(optimizer, self.max_norm)
        before = self.scaler.get_scale()
        scale_gradient(optimizer, before)  # the scaler looks for overflow where it unscales
        self.scaler.step(optimizer)
        self.scaler.update()
        return self.scaler.get_scale() >= before


def clip(optimizer: Optimizer, max_norm: float | None) -> None:
    """Clip the gradient norm of an optimiser's parameters."""
    if max_norm is not None:
        moved = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(moved, max_norm)


def scale_gradient(optimizer: Optimizer, factor: float) -> None:
    """Multiply the gradient of an optimiser's parameters."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad *= factor


def require_norm(max_norm: float | None) -> None:
    """Raise if a norm is not positive."""
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"max_norm must be above 0, got {max_norm}: None does not clip.")
