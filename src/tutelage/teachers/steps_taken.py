"""The optimisers that teachers learn by, and how many steps they have taken."""

from weakref import WeakKeyDictionary

from torch import nn
from torch.optim import Optimizer

FEWEST_TEACHER_STEPS = 50
"""in a run; with fewer, a teacher has hardly left its start"""
_KNOWN: WeakKeyDictionary[nn.Module, Optimizer] = WeakKeyDictionary()


def note_optimizer(teacher: nn.Module, optimizer: Optimizer) -> None:
    """Remember by which optimiser a teacher learns in a training loop of the user."""
    _KNOWN[teacher] = optimizer


def few_steps_taken(teacher: nn.Module) -> int | None:
    """Steps of a teacher's optimiser if they are few; None the second time.

    None, too, if no optimiser is noted, or if it does not count its steps.
    """
    optimizer = _KNOWN.get(teacher)
    if optimizer is None:
        return None
    counts = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
    taken = max(counts, default=FEWEST_TEACHER_STEPS)
    if taken >= FEWEST_TEACHER_STEPS:
        return None
    del _KNOWN[teacher]
    return taken
