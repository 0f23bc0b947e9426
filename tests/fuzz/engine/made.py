"""What a situation is made of: modules, optimiser and rows, the same again on every call."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tests.fuzz.engine import teachers
from tests.fuzz.engine.data import DATA, Data, Source
from tests.fuzz.engine.objectives import OBJECTIVES, Objective
from tests.fuzz.engine.optimisers import EVENTS, OPTIMISERS, Event
from tests.fuzz.engine.signals import SIGNALS, Kind
from tests.fuzz.engine.situation import Situation
from tests.fuzz.engine.students import STUDENTS, Student

SINGLE, DOUBLE, HALF = torch.float32, torch.float64, torch.bfloat16
TYPES = {
    "double": (DOUBLE, DOUBLE),
    "single": (SINGLE, SINGLE),
    "teacher single": (DOUBLE, SINGLE),
    "student single": (SINGLE, DOUBLE),
    "half": (HALF, SINGLE),
    "autocast": (SINGLE, SINGLE),
}
"""of student and teacher"""


class Sequences(nn.Module):
    """Gives [B, 2, C] in place of [B, 2 C]."""

    def __init__(self, student: nn.Module) -> None:
        super().__init__()
        self.student = student
        self.training = student.training  # which the plain loop comes back to

    def forward(self, x: Tensor) -> Tensor:
        return self.student(x).unflatten(1, (2, -1))


@dataclass
class Made:
    """Fresh modules of one situation, in the types of one precision."""

    student: nn.Module
    optimizer: Optimizer
    teacher: nn.Module
    types: tuple[torch.dtype, torch.dtype]

    @property
    def learns(self) -> dict[str, Tensor]:
        """What of the teacher learns."""
        return {k: p for k, p in self.teacher.named_parameters() if p.requires_grad}


class Parts:
    """The rows of a situation's axes."""

    def __init__(self, s: Situation) -> None:
        self.situation = s
        self.kind: Kind = SIGNALS[s.signal]
        self.objective: Objective = OBJECTIVES[s.objective]
        self.data: Data = DATA[s.data]
        self.event: Event = EVENTS[s.event]
        self.of_student: Student = STUDENTS[s.student]
        self.source = Source(self.data, self.objective, s.seed)

    def make(self, types: tuple[torch.dtype, torch.dtype] = (DOUBLE, DOUBLE)) -> Made:
        """Fresh modules, the same numbers every time."""
        s = self.situation
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(s.seed)
            student = self.of_student.build(self.objective.outputs).double()
        if self.objective.tokens:
            student = Sequences(student)
        teacher = teachers.made(s.teacher, student, s.seed + 1).double()
        student, teacher = student.to(types[0]), teacher.to(types[1])
        row = OPTIMISERS[s.optimiser]
        optimizer = row.build(student, row.rate * self.data.rate)
        return Made(student, optimizer, teacher, types)

    @property
    def types(self) -> tuple[torch.dtype, torch.dtype]:
        """Those of the precision."""
        return TYPES[self.situation.precision]
