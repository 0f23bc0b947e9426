"""How long the students of a run will still take."""

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any

HALF_LIFE = 30.0
"""seconds after which an observation of the pace counts half, at first; after twice as many the
estimate has followed a change of the load"""
HALF_LIVES = 10
"""each twice as long as the one before: up to four hours"""
OF_LEFT = 1 / 2
"""the longest half-life that is used, as a share of the time left: beyond that, the load that
was is no guide to the load to come"""
CHANGED = 1.5
"""factor between two paces from which the load has changed"""
LONGEST_STALL = 4 * HALF_LIFE
"""seconds without any work after which the estimate stays as it is until some is done"""
TRUSTED = 10.0
"""seconds of work that the expected pace counts as"""


class TimeLeft:
    """Predicts a run's end from the cost of each student and how fast they have come lately.

    Students of a stage are trained beside one another, so many at a time, and a stage begins
    when the one before has ended. The pace is that of the last while, since a machine may be
    busier at some times than at others. The while doubles each time that the pace turns round,
    from faster to slower or back, by a factor of 1.5: a load that changed once has changed, but
    one that comes and goes will do so again, and its mean counts.

    ``trust`` is the seconds of work that the expectation counts as; 0 if costs are relative.
    """

    def __init__(
        self, stages: Sequence[Mapping[Any, float]], workers: int, *, trust: float = TRUSTED
    ) -> None:
        self._stages, self._workers = stages, workers
        self._done: dict[Any, float] = {}
        self._now: float | None = None
        self._taken = 0.0  # since the first work: workers take a while to start
        self._stalled = 0.0  # since the last work
        # by half-life: seconds taken, and seconds expected for it
        self._spent, self._worked = [trust] * HALF_LIVES, [trust] * HALF_LIVES
        self._recent = 0.0, 0.0  # of the first half-life, without the expectation
        self._extremes = math.inf, 0.0  # the least and the largest of their ratio
        self._turns = _Turns()
        self._estimate = self._estimated()

    def update(self, now: float, done: Mapping[Any, float]) -> None:
        """Note the share of every student that is done, in 0..1, at a time of any clock."""
        if self._now is not None:
            worked = sum(
                cost * max(0.0, done.get(job, 0.0) - self._done.get(job, 0.0))
                for stage in self._stages
                for job, cost in stage.items()
            )
            if worked > 0 or self._taken > 0:
                self._note(now - self._now, worked)
        self._now, self._done = now, dict(done)
        if self._stalled <= LONGEST_STALL:
            self._estimate = self._estimated()

    def _note(self, seconds: float, worked: float) -> None:
        self._taken += seconds
        self._stalled = 0.0 if worked > 0 else self._stalled + seconds
        spent = seconds * self._busy()
        for k in range(HALF_LIVES):
            fade, share = _faded(seconds, HALF_LIFE * 2**k)
            self._spent[k] = fade * self._spent[k] + share * spent
            self._worked[k] = fade * self._worked[k] + share * worked
        fade, share = _faded(seconds, HALF_LIFE)
        before, done = self._recent
        self._recent = fade * before + share * spent, fade * done + share * worked
        if self._stalled > LONGEST_STALL:
            return
        if self._recent[1] > 0 and self._taken > HALF_LIFE:
            recent = self._recent[0] / self._recent[1]
            self._extremes = min(self._extremes[0], recent), max(self._extremes[1], recent)
            self._turns.note(recent)

    def seconds(self) -> float | None:
        """Seconds to the end; None as long as nothing is known of the pace."""
        return self._estimate

    def _estimated(self) -> float | None:
        if self._worked[0] <= 0:
            return None
        work, found = sum(map(self._length, self._stages)), 0.0
        for k in range(HALF_LIVES):
            longest = HALF_LIFE * 2 ** min(k, max(0, self._turns.count - 1))
            seconds = self._spent[k] / self._worked[k] * work
            if k and (longest < HALF_LIFE * 2**k or longest > OF_LEFT * seconds):
                break
            found = seconds
        return found

    def bounds(self) -> tuple[float, float] | None:
        """Seconds to the end at the fastest and at the slowest pace so far; None if alike."""
        fastest, slowest = self._extremes
        if not slowest > CHANGED * fastest:
            return None
        work = sum(map(self._length, self._stages))
        return fastest * work, slowest * work

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


def _faded(seconds: float, half_life: float) -> tuple[float, float]:
    """What counts of earlier observations, and in the mean of those in the last seconds."""
    rate = math.log(2) * seconds / half_life
    return math.exp(-rate), -math.expm1(-rate) / rate if rate else 1.0


class _Turns:
    """Counts how often a number has turned round, from rising to falling or back."""

    def __init__(self) -> None:
        self.count = 0
        self._rising: bool | None = None  # unknown at first
        self._low, self._high = math.inf, 0.0  # since the last turn

    def note(self, number: float) -> None:
        """Compare with the lowest and the highest number since the last turn."""
        self._low, self._high = min(self._low, number), max(self._high, number)
        rises = number > CHANGED * self._low and self._rising is not True
        falls = number < self._high / CHANGED and self._rising is not False
        if rises or falls:
            self.count += self._rising is not None
            self._rising, self._low, self._high = rises, number, number
