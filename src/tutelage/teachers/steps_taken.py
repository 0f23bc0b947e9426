"""How many steps teachers have taken."""

from weakref import WeakKeyDictionary, WeakSet

from torch import nn

FEWEST_TEACHER_STEPS = 50
"""in a run; with fewer, a teacher has hardly left its start"""
STEPS_TAKEN: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
"""of each teacher, in the training of all its students"""
_OF_UNKNOWN_LENGTH: WeakSet[nn.Module] = WeakSet()


def note_unknown_length(teacher: nn.Module) -> None:
    """Remember that a teacher learns in a training loop whose length is not known."""
    _OF_UNKNOWN_LENGTH.add(teacher)


def few_steps_taken(teacher: nn.Module) -> int | None:
    """Steps of a teacher, learned in a loop of unknown length, if few; None the second time."""
    taken = STEPS_TAKEN.get(teacher, 0)
    if teacher not in _OF_UNKNOWN_LENGTH or taken >= FEWEST_TEACHER_STEPS:
        return None
    _OF_UNKNOWN_LENGTH.discard(teacher)
    return taken
