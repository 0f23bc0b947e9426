"""The time left under a load that changes once, drifts, or comes and goes."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tutelage_cli.train.time_left import TimeLeft

POLLED = 0.5
"""seconds"""
SETTLED = 60.0
"""seconds after which a change of the load is seen"""
Stages = Sequence[Mapping[Any, float]]
STUDENTS: Stages = [
    {
        (arm, seed): cost
        for seed in range(3)
        for arm, cost in (("plain", 60.0), ("taught", 180.0))
    },
    {("control", seed): 20.0 for seed in range(3)},
]
"""seconds of each student alone on an idle machine"""


class Machine:
    """Trains students beside one another, ``load(time)`` times as slowly as an idle machine."""

    def __init__(self, stages: Stages, workers: int, load: Callable[[float], float]) -> None:
        self.stages, self.workers, self.load = stages, workers, load
        self.now = 0.0
        self.done = {job: 0.0 for stage in stages for job in stage}

    def run(self) -> bool:
        """Work until the next poll; False at the end."""
        for stage in self.stages:
            if running := self._running(stage):
                self._work(running, POLLED / self.load(self.now))
                self.now += POLLED
                return True
        return False

    def left(self) -> float:
        """Seconds to the end if the load stays as it is."""
        rest = Machine(self.stages, self.workers, self.load)
        rest.done, load = dict(self.done), self.load(self.now)
        for stage in self.stages:
            while running := rest._running(stage):
                # until the next poll at which one of them has ended
                ends = min((1 - rest.done[job]) * cost for job, cost in running.items())
                polls = max(1, math.ceil(ends * load / POLLED))
                rest._work(running, polls * POLLED / load)
                rest.now += polls * POLLED
        return rest.now

    def _running(self, stage: Mapping[Any, float]) -> dict[Any, float]:
        open_ = (job for job in stage if self.done[job] < 1)
        first = sorted(open_, key=lambda job: self.done[job] == 0)[: self.workers]
        return {job: stage[job] for job in first}

    def _work(self, running: Mapping[Any, float], seconds: float) -> None:
        for job, cost in running.items():
            self.done[job] = min(1.0, self.done[job] + seconds / cost)


LOADS: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "idle": (lambda _: 1.0, []),
    "twice as slow from the start": (lambda _: 2.0, [0.0]),
    "busy in between": (lambda t: 3.0 if 100 <= t < 300 else 1.0, [100.0, 300.0]),
    "half as fast from the middle on": (lambda t: 1.0 if t < 200 else 2.0, [200.0]),
    "busier and busier": (lambda t: 1.0 + t / 300, [0.0]),
}


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("expected", [1.0, 1.4])
def test_the_time_left_holds_within_a_factor_of_one_and_a_half(name, workers, expected) -> None:
    load, changes = LOADS[name]
    machine = Machine(STUDENTS, workers, load)
    costs = [{job: expected * cost for job, cost in stage.items()} for stage in STUDENTS]
    time_left = TimeLeft(costs, workers)
    time_left.update(machine.now, machine.done)
    compared = 0
    while machine.run():
        time_left.update(machine.now, machine.done)
        settled = all(not 0 <= machine.now - change < SETTLED for change in changes)
        rest = machine.left() if round(machine.now / POLLED) % 20 == 0 else 0.0
        if settled and rest > 5:
            left = time_left.seconds()
            assert left is not None
            assert rest / 1.5 <= left <= 1.5 * rest, machine.now
            compared += 1
    assert compared > 10
    assert time_left.seconds() == 0


def test_steps_alone_give_a_time_once_some_are_done() -> None:
    time_left = TimeLeft([{"a": 100.0, "b": 100.0}], 1, trust=0)
    time_left.update(10.0, {"a": 0.0})
    assert time_left.seconds() is None
    time_left.update(20.0, {"a": 0.5})
    assert time_left.seconds() == pytest.approx(30)


def test_while_workers_start_the_expectation_stays() -> None:
    time_left = TimeLeft([{"a": 100.0, "b": 100.0}], 2)
    for now in (0.0, 30.0, 60.0):
        time_left.update(now, {})
        assert time_left.seconds() == pytest.approx(100)


def test_what_a_resumed_run_has_done_says_nothing_of_its_speed() -> None:
    time_left = TimeLeft([{"a": 100.0, "b": 100.0}], 1)
    time_left.update(0.0, {"a": 1.0, "b": 0.5})
    assert time_left.seconds() == pytest.approx(50)


@pytest.mark.parametrize(
    ("stall", "polled"),
    [
        *((600.0, POLLED), (32_000.0, POLLED), (100_000.0, 10 * POLLED)),
        *((stall, 1e6) for stall in (600.0, 32_000.0, 100_000.0)),
    ],
)
@pytest.mark.parametrize("trust", [10.0, 0.0])
def test_a_long_stall_leaves_a_bounded_estimate(stall, polled, trust) -> None:
    machine = Machine(STUDENTS, 2, lambda _: 1.0)
    time_left = TimeLeft(STUDENTS, 2, trust=trust)
    time_left.update(0.0, machine.done)
    for _ in range(200):
        machine.run()
        time_left.update(machine.now, machine.done)
    rest, passed = machine.left() - machine.now, 0.0
    while passed < stall:
        passed = min(stall, passed + polled)
        time_left.update(machine.now + passed, machine.done)
        left = time_left.seconds()
        assert left is not None
        assert rest / 1.5 < left < 32 * rest
    for _ in range(4 * 60):
        machine.run()
        time_left.update(machine.now + stall, machine.done)
        left = time_left.seconds()
        assert left is not None
        assert left < SETTLED / POLLED * 2 * rest
        bounds = time_left.bounds()
        assert bounds is None or bounds[1] < SETTLED / POLLED * 2 * rest


# A load that comes and goes, against the end that came.


def noted(load: Callable[[float], float], workers: int) -> tuple[float, list[tuple]]:
    """The end of a run, and every ten seconds the time, the time left and its bounds."""
    machine, found = Machine(STUDENTS, workers, load), []
    time_left = TimeLeft(STUDENTS, workers)
    time_left.update(machine.now, machine.done)
    while machine.run():
        time_left.update(machine.now, machine.done)
        if round(machine.now / POLLED) % 20 == 0:
            found.append((machine.now, time_left.seconds(), time_left.bounds()))
    return machine.now, found


def drawn(seed: int, length: float) -> Callable[[float], float]:
    """A load of 1.5 or 9 that changes at random, after ``length`` seconds in the mean."""
    generator, loads, high = random.Random(seed), [], False
    for _ in range(20_000):
        high ^= generator.random() < POLLED / length
        loads.append(9.0 if high else 1.5)
    return lambda t: loads[int(t / POLLED)]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("period", [40.0, 60.0, 120.0])
def test_a_load_that_comes_and_goes_is_taken_at_its_mean(workers, period) -> None:
    end, found = noted(lambda t: 1.5 if t % period < period / 2 else 9.0, workers)
    compared = 0
    for now, left, bounds in found:
        rest = end - now
        if now > 4 * period and rest > 1.5 * period:
            assert rest / 1.5 <= left <= 1.5 * rest, now
            low, high = bounds
            assert low <= rest <= high
            compared += 1
    assert compared > 10


@pytest.mark.parametrize(("length", "most"), [(20.0, 0.1), (60.0, 0.25)])
def test_few_estimates_are_far_off_where_the_load_changes_at_random(length, most) -> None:
    far, within, count = 0, 0, 0
    for seed in range(6):
        end, found = noted(drawn(seed, length), 1)
        for now, left, bounds in found:
            if now > 4 * length and (rest := end - now) > 10:
                far += not rest / 1.5 <= left <= 1.5 * rest
                low, high = bounds or (left, left)
                within += low / 1.2 <= rest <= 1.2 * high
                count += 1
    assert far < most * count
    assert within > 0.95 * count


@pytest.mark.parametrize("load", [1.0, 10.0])
def test_a_steady_load_has_no_bounds(load) -> None:
    _, found = noted(lambda _: load, 2)
    assert all(bounds is None for now, _, bounds in found if now > SETTLED)
