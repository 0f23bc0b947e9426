"""Lightning: a step by its backward pass, its precision plugin and its optimiser."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.optim import Optimizer

from tutelage.errors import MissingExtraError
from tutelage.training.step_strategy import require_norm, scale_gradient

try:
    import lightning as L
except ImportError as error:
    raise MissingExtraError("lightning", "lightning") from error


@dataclass(frozen=True)
class LightningStep:
    """A step by ``manual_backward`` and Lightning's optimiser, in whatever precision it runs.

    Lightning unscales a scaled gradient when its optimiser steps. The gradient is seen without
    the scale before, and gets it back there; scales are powers of two, so no bit is lost.
    """

    module: L.LightningModule
    max_norm: float | None = None
    """norm over all parameters to which the gradient is clipped; None: it is not"""

    def __post_init__(self) -> None:
        require_norm(self.max_norm)

    @property
    def scales(self) -> bool:
        """Whether Lightning scales the loss."""
        return self._scale() is not None

    def backward(self, loss: Tensor, optimizer: Optimizer, *, retain_graph: bool) -> None:
        """Leave the gradient in the parameters, without the scale."""
        self.module.manual_backward(loss, retain_graph=retain_graph)
        if (scale := self._scale()) is not None:
            scale_gradient(optimizer, 1 / scale)

    def step(self, optimizer: Optimizer) -> bool:
        """Move the student."""
        if self.max_norm is not None:
            self.module.clip_gradients(optimizer, self.max_norm, "norm")
        scale = self._scale()
        if scale is not None:
            scale_gradient(optimizer, scale)
        own = self.module.optimizers()
        assert not isinstance(own, Sequence)
        own.step()
        after = self._scale()
        return scale is None or after is None or after >= scale

    def _scale(self) -> float | None:
        scaler = getattr(self.module.trainer.precision_plugin, "scaler", None)
        return None if scaler is None else float(scaler.get_scale())
