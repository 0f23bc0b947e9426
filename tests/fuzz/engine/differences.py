"""What a signal's estimate should be: central differences of training in plain torch."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tests.fuzz.engine.implicit import AtTheEnd, implicit
from tests.fuzz.engine.made import Parts
from tests.fuzz.engine.notes import Asked, Note, Phi
from tests.fuzz.engine.plain import Loop

SIZE = 2e-4
DIRECTIONS = 2


class Looked(NamedTuple):
    """What one teacher step followed: an estimate, or the mean of several."""

    steps: tuple[int, ...]
    """the last step that each looks back over"""
    grad: Phi


class Course(NamedTuple):
    """How the teacher was at every step of a run, as the engine moved it."""

    before: list[Phi]
    after: list[Phi]


class Differences:
    """Directional derivatives of one situation's training."""

    def __init__(self, parts: Parts, course: Course) -> None:
        self.parts, self.s, self.course = parts, parts.situation, course
        self.notes: list[Note] = []
        self.judged: dict[int, dict[str, Tensor]] = {}
        loop = self.loop()
        for number in range(len(course.before)):
            self.notes.append(loop.take(number, self.real(number)))

    def loop(self) -> Loop:
        """A run from the start, in double precision."""
        return Loop(self.parts)

    def real(self, number: int) -> Asked:
        """A step as it was really taken."""
        return real_step(self.parts, self.course, number)

    def of(
        self, steps: Sequence[int], directions: list[Phi], size: float = SIZE
    ) -> tuple[Tensor, Tensor]:
        """Mean derivatives of what the signal judges by, and how uncertain they are."""
        found, doubt = zip(*(self._at(step, directions, size) for step in steps), strict=True)
        return torch.stack(found).mean(0), torch.stack(doubt).amax(0)

    def overflows(self, steps: Sequence[int]) -> bool:
        """Whether a step of these windows sees, or makes of a buffer, what is not finite.

        Its loss may be finite all the same, and so may inputs in double precision.
        """
        taken = [n for step in steps for n in range(step - self.s.reach + 1, step + 1)]
        if self.s.mode == "whole run":
            taken = list(range(len(self.notes)))
        seen = (self.parts.source.rows(n).inputs.to(self.parts.types[0]) for n in taken)
        if not all(bool(inputs.isfinite().all()) for inputs in seen):
            return True
        return any(
            bool(note.started[name].isfinite().all() & ~buffer.isfinite().all())
            for note in (self.notes[n] for n in taken)
            for name, buffer in note.renewed.items()
        )

    def _at(self, step: int, directions: list[Phi], size: float) -> tuple[Tensor, Tensor]:
        if self.parts.kind.oracle == "implicit":
            return self._implicit(step, directions)
        found, doubt = zip(
            *(slope(lambda e, d=d: self._value(step, d, e), size) for d in directions),
            strict=True,
        )
        return torch.tensor(found, dtype=torch.float64), torch.tensor(doubt)

    def _implicit(self, step: int, directions: list[Phi]) -> tuple[Tensor, Tensor]:
        loop = self.loop()
        for number in range(step + 1):
            loop.take(number, self.real(number))

        def again() -> Loop:
            fresh = self.loop()
            for number in range(step + 1):
                self.parts.event(number, fresh.made.student, fresh.made.optimizer)
            return fresh

        note, phi = self.notes[step], self.course.before[step]
        at = AtTheEnd(step, loop, again, note, phi)
        return implicit(at, self.parts.kind.terms, self.parts.kind.scale, directions)

    def _value(self, step: int, direction: Phi, size: float) -> float:
        kind, loop = self.parts.kind, self.loop()
        first = step - self.s.reach + 1
        for number in range(first):
            loop.take(number, self.real(number))
        for number in range(first, step + 1):
            loop.take(number, self.moved(number, direction, size))
        phi = moved(self.course.before[step], direction, size)
        if kind.evaluate_on == "held-out":
            return loop.judge(phi, self._taken(step), self._renewed(step))
        asked = self.real(step + 1)._replace(note=self.notes[step + 1])
        return loop.judge_next(step + 1, asked)

    def _taken(self, step: int) -> int:
        # how many steps are done when the student is judged: the seed of its dropout
        return step + (self.parts.kind.mode == "online")

    def _renewed(self, step: int) -> dict[str, Tensor] | None:
        # the student's buffers as the judging pass of the run itself leaves them
        if not self.parts.of_student.detaches:
            return None
        if step not in self.judged:
            loop = self.loop()
            for number in range(step + 1):
                loop.take(number, self.as_tried(number, step))
            loop.judge(self.course.before[step], self._taken(step))
            self.judged[step] = loop.renewed()
        return self.judged[step]

    def as_tried(self, number: int, step: int) -> Asked:
        """A step as the signal takes it that looks back from a step."""
        first = step - self.s.reach + 1
        if number < first:
            return self.real(number)
        virtual = self.parts.kind.mode == "virtual"
        return Asked(self.course.before[number], virtual=virtual)

    def moved(self, number: int, direction: Phi, size: float) -> Asked:
        """A step under a teacher moved in a direction."""
        phi = moved(self.course.before[number], direction, size)
        kind = self.parts.kind
        return Asked(
            phi,
            note=self.notes[number],
            frozen=kind.oracle == "first order",
            virtual=kind.mode == "virtual",
        )


def real_step(parts: Parts, course: Course, number: int) -> Asked:
    """A step as the engine takes it: under which teacher, or none."""
    s, kind = parts.situation, parts.kind
    watched = number % s.every >= s.every - s.reach or s.mode == "whole run"
    retaken = kind.mode in ("restep", "virtual") and watched
    return Asked(
        course.before[number],
        weighs=course.after[number] if retaken else None,
        untaught=kind.evaluate_on == "plain" and not watched,
    )


def slope(value: Callable[[float], float], size: float) -> tuple[float, float]:
    """A derivative at 0 by differences of two sizes, and how far they are apart.

    Where there is a kink at 0 they agree, and are in the middle of two slopes: the difference
    of these counts, too, less what a curvature makes of it.
    """
    here = value(0.0)
    (up, down), (far_up, far_down) = ((value(e), value(-e)) for e in (size, 2 * size))
    one, two = (up - down) / (2 * size), (far_up - far_down) / (4 * size)
    near, far = (up - 2 * here + down) / size, (far_up - 2 * here + far_down) / (2 * size)
    return (4 * one - two) / 3, abs(one - two) + abs(2 * near - far) / 2


def moved(phi: Phi, direction: Phi, size: float) -> Phi:
    """A teacher moved."""
    return {k: p.double() + size * direction[k] for k, p in phi.items()}


def drawn(like: Phi, seed: int, count: int = DIRECTIONS) -> list[Phi]:
    """Random directions."""
    made = torch.Generator().manual_seed(seed)
    return [
        {k: torch.randn(p.shape, generator=made, dtype=torch.float64) for k, p in like.items()}
        for _ in range(count)
    ]


def along(grad: Phi, direction: Phi) -> float:
    """A gradient's component."""
    return float(sum((grad[k].double() * direction[k]).sum() for k in direction))
