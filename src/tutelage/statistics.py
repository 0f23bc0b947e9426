"""What batch normalisation counts up while a student trains."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # the base of all of them


@contextmanager
def statistics_as_they_are(module: nn.Module) -> Iterator[None]:
    """Undo what a pass does to the running statistics of batch normalisation.

    Args:
        module: The student.

    Yields:
        Nothing.
    """
    before = [
        (part, name, buffer)
        for part in normalising(module)
        for name, buffer in part.named_buffers(recurse=False)
    ]
    try:
        for part, name, buffer in before:  # others, since the pass's graph keeps what it had
            setattr(part, name, buffer.clone())
        yield
    finally:
        for part, name, buffer in before:
            setattr(part, name, buffer)


def normalising(module: nn.Module) -> list[nn.Module]:
    """The batch normalisations that now normalise by the batch.

    Args:
        module: The student.

    Returns:
        Its submodules of that kind.
    """
    return [part for part in module.modules() if isinstance(part, _BatchNorm) and part.training]
