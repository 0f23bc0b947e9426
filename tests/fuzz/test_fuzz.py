"""A fixed slice of the fuzz, and that it finds what is wrong: see ``python -m tests.fuzz``."""

import itertools
import time

import numpy as np
import pytest

from tests.fuzz.campaign import Campaign, run, shrunk, tried
from tests.fuzz.campaigns import CAMPAIGNS
from tests.fuzz.engine.differences import slope
from tests.fuzz.engine.situation import Situation, drawn, from_spec, simpler
from tests.fuzz.outcomes import Outcome, refusal
from tests.fuzz.slice import FILES, TRAINING
from tutelage.signals import Unrolled

ENGINE, TABLES = CAMPAIGNS
FINE = ("compared", "refused")


@pytest.mark.parametrize("spec", TRAINING)
def test_training_is_as_by_differences(spec: str) -> None:
    found = tried(ENGINE, ENGINE.from_spec(spec))
    assert found.word in FINE, found


def test_tables_are_read_as_they_were_written() -> None:
    found = {spec: tried(TABLES, TABLES.from_spec(spec)) for spec in FILES}
    assert {spec: o for spec, o in found.items() if o.word not in FINE} == {}


def test_a_hypergradient_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate_run = Unrolled.estimate_run

    def off(self, *args):
        estimate, end = estimate_run(self, *args)
        return estimate._replace(grad={k: 1.02 * g for k, g in estimate.grad.items()}), end

    monkeypatch.setattr(Unrolled, "estimate_run", off)
    found = tried(ENGINE, Situation(window=2))
    assert (found.word, found.about) == ("failed", "hypergradient")


def test_a_student_that_is_trained_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tutelage.training.step_strategy import PlainStep

    step = PlainStep.step

    def twice(self, optimizer):
        step(self, optimizer)
        return step(self, optimizer)

    monkeypatch.setattr(PlainStep, "step", twice)
    found = tried(ENGINE, Situation(signal="lookahead", looks=2))
    assert found.word == "failed"
    assert "recomputed, ends elsewhere" in found.detail  # by the engine itself


def test_differences_know_of_a_kink_within_them() -> None:
    for place in (0.0, 1e-5, 1e-4):
        slope_there, doubt = slope(lambda e, at=place: max(e + at, 0.0), 2e-4)
        assert doubt > abs(slope_there - 1.0) / 3
    smooth, doubt = slope(lambda e: float(np.exp(3 * e)), 2e-4)
    assert abs(smooth - 3) < 1e-8
    assert doubt < 1e-5


def test_a_situation_is_repeated_by_what_is_printed() -> None:
    for seed in range(200):
        situation = drawn(seed)
        assert from_spec(situation.spec) == situation


def fake(fails) -> Campaign:
    def outcome(situation: Situation) -> Outcome:
        return Outcome("failed", "fault") if fails(situation) else Outcome("compared")

    return Campaign("engine", drawn, from_spec, outcome, simpler)


def test_a_failure_shrinks_to_the_two_things_that_make_it() -> None:
    def fails(s: Situation) -> bool:
        return s.student == "tied" and s.clip > 0

    campaign = fake(fails)
    found = from_spec("student=tied; clip=0.3; optimiser=adam; teacher=loss; looks=3; seed=4")
    small, last = shrunk(campaign, found, "fault")
    assert small.spec == "student=tied; clip=0.3; seed=4"
    assert last.word == "failed"


def test_failures_alike_are_told_once() -> None:
    campaign, said = fake(lambda s: s.optimiser == "adam"), []
    tally = run(campaign, iter(range(300)), time.monotonic() + 60, said.append)
    assert tally.tried == 300
    assert len(said) == len(tally.failures) == 1
    assert tally.words["failed"] == 1 + sum(tally.alike.values()) > 3


def test_time_ends_a_campaign() -> None:
    assert run(fake(lambda _: False), itertools.count(), 0.0, print).tried == 0


def test_only_errors_of_the_project_have_a_name() -> None:
    def raised(made: Exception) -> Exception:
        try:
            raise made
        except Exception as error:  # noqa: BLE001 - as it comes
            return error

    assert refusal(raised(KeyError("weight")), "", ()).about == "raw KeyError"
    assert refusal(raised(ValueError("of torch")), "", ()).about == "raw ValueError"
