"""How long the students of a run will still take."""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

HALF_LIFE = 30.0
"""seconds after which an observation of the speed counts half; after twice as many the estimate
has followed a change of the load"""
SHARE = 1 / 20
"""of the time so far: the half-life where that is more"""
TRUSTED = 10.0
"""seconds of work that the expected speed counts as"""


class TimeLeft:
    """Predicts a run's end from the cost of each student and how fast they have come lately.

    Students of a stage are trained beside one another, so many at a time, and a stage begins
    when the one before has ended. The speed is that of the last while: a machine may be busier
    at some times than at others.

    ``trust`` is the seconds of work that the expectation counts as; 0 if costs are relative.
    """

    def __init__(
        self,
        stages: Sequence[Mapping[Any, float]],
        workers: int,
        *,
        trust: float = TRUSTED,
    ) -> None:
        self._stages, self._workers = stages, workers
        self._done: dict[Any, float] = {}
        self._start: float | None = None
        self._now = 0.0
        self._begun = False  # workers take a while to start
        self._spent, self._worked = trust, trust  # seconds taken, and seconds expected for it

    def update(self, now: float, done: Mapping[Any, float]) -> None:
        """Note the share of every student that is done, in 0..1, at a time of any clock."""
        if self._start is None:
            self._start = now
        else:
            worked = sum(
                cost * max(0.0, done.get(job, 0.0) - self._done.get(job, 0.0))
                for stage in self._stages
                for job, cost in stage.items()
            )
            self._begun |= worked > 0
            spent = (now - self._now) * self._busy() if self._begun else 0.0
            half_life = max(HALF_LIFE, SHARE * (now - self._start))
            fade = 0.5 ** ((now - self._now) / half_life) if self._begun else 1.0
            self._spent = fade * self._spent + spent
            self._worked = fade * self._worked + worked
        self._now, self._done = now, dict(done)

    def seconds(self) -> float | None:
        """Seconds to the end; None as long as nothing is known of the speed."""
        if self._worked <= 0:
            return None
        return self._spent / self._worked * sum(map(self._length, self._stages))

    def _left(self, stage: Mapping[Any, float]) -> list[float]:
        # expected seconds of the unfinished students, those that have begun first
        done = {job: self._done.get(job, 0.0) for job in stage}
        unfinished = [job for job in stage if done[job] < 1]
        order = sorted(unfinished, key=lambda job: done[job] == 0)
        return [stage[job] * (1 - done[job]) for job in order]

    def _busy(self) -> int:
        # students that are trained now
        left = (len(self._left(stage)) for stage in self._stages)
        return min(self._workers, next((number for number in left if number), 0))

    def _length(self, stage: Mapping[Any, float]) -> float:
        # each student begins where the first worker is free
        ends = [0.0] * self._workers
        for cost in self._left(stage):
            heapq.heapreplace(ends, ends[0] + cost)
        return max(ends)
