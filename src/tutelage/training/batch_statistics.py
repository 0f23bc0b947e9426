"""Which modules normalise by the batch while a student trains."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # the base of all of them


def batch_norms_in_training(module: nn.Module) -> list[nn.Module]:
    """The batch normalisations that now normalise by the batch."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm) and part.training]
