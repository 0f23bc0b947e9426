"""L2T-data learns by REINFORCE from how soon its students come to an accuracy."""

import math
from collections.abc import Iterator
from itertools import islice

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.optim import SGD, Adam

from tests.cases import B, C, build, stream
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy
from tutelage.teachers import KeepOrDrop, KeepProbability, LossWeigher
from tutelage.training.accuracy_reward import AccuracyGoal, RewardedEpisode, rewarded
from tutelage.types import Batch, Observation, Progress, as_prepared

GOAL = AccuracyGoal(accuracy=0.6, steps=8, every=2)


def make_student(number: int):
    module = build("relu network", seed=number)
    return module, SGD(module.parameters(), lr=0.5)


def clustered(seed: int) -> Iterator[Batch]:
    """Batches that a student learns in a few steps: each class has a direction of its own."""
    for number, batch in enumerate(stream(seed)):
        centre = 2.0 * one_hot(batch.targets, batch.inputs.shape[1]).double()
        yield batch._replace(inputs=batch.inputs + centre, ids=batch.ids + number)


HELD_OUT = list(islice(clustered(77), 4))


def fresh() -> KeepOrDrop:
    torch.manual_seed(0)
    return KeepOrDrop(KeepProbability(C).double())


def episodes(teacher: nn.Module, rule: torch.optim.Optimizer, **settings):
    told = {"goal": GOAL, "decay": 0.8, "seed": 3} | settings
    return rewarded(make_student, teacher, rule, clustered, HELD_OUT, **told)


def test_the_facts_are_the_papers_and_almost_all_is_kept_at_first() -> None:
    torch.manual_seed(0)
    teacher, batch = KeepProbability(C).double(), next(stream())
    shapes = [tuple(p.shape) for p in teacher.parameters()]
    assert shapes == [(12, 2 * C + 5), (12,), (1, 12), (1,)]
    logits = torch.randn(B, C, dtype=torch.float64)
    losses = cross_entropy(logits, batch.targets)
    seen = Observation(losses, logits, {}, Progress(0.25, 1.5, 0.75))
    got = teacher.weigh(as_prepared(batch), seen)
    assert got.mean() > 0.7
    for row in range(B):
        p, y = logits[row].softmax(0), int(batch.targets[row])
        label = [float(c == y) for c in range(C)]
        margin = p[y] - max(p[c] for c in range(C) if c != y)
        facts = [*label, 0.25, 1.5, 0.75, *p.tolist(), -math.log(p[y]), margin]
        want = teacher.net(torch.tensor(facts, dtype=torch.float64)).sigmoid()
        torch.testing.assert_close(got[row], want[0], rtol=1e-12, atol=0)


def by_hand(teacher: KeepOrDrop, number: int) -> tuple[int, bool, dict[str, Tensor]]:
    """Steps, whether the goal was reached, and the gradient of the sum of log-probabilities."""
    module, rule = make_student(number)
    keeps, best, mean, total = teacher.keeps, 0.0, 0.0, torch.zeros((), dtype=torch.float64)
    assert isinstance(keeps, KeepProbability)
    drawn = iter(DRAWN)
    for step, batch in enumerate(islice(clustered(number), GOAL.steps)):
        logits = module(batch.inputs)
        losses = cross_entropy(logits, batch.targets)
        progress = Progress(step / GOAL.steps, mean / max(step, 1), best)
        shown = Observation(losses.detach(), logits.detach(), {}, progress)
        p = keeps.weigh(as_prepared(batch), shown)
        kept = next(drawn)
        total = total + (kept * p.log() + (1 - kept) * (1 - p).log()).mean()
        loss = (kept * losses).sum() / kept.sum()
        rule.zero_grad()
        loss.backward()
        rule.step()
        mean += loss.item()
        if (step + 1) % GOAL.every == 0:
            right = [(module(b.inputs).argmax(1) == b.targets).double() for b in HELD_OUT]
            found = torch.cat(right).mean().item()
            best = max(best, found)
            if found >= GOAL.accuracy:
                return step + 1, True, _grads(total, keeps)
    return GOAL.steps, False, _grads(total, keeps)


def _grads(total: Tensor, keeps: nn.Module) -> dict[str, Tensor]:
    own = dict(keeps.named_parameters())
    return dict(zip(own, torch.autograd.grad(total, list(own.values())), strict=True))


DRAWN: list[Tensor] = []


class Noting(KeepOrDrop):
    """Keeps a list of what it drew when it weighed."""

    def weigh(self, prepared, observation) -> Tensor:
        drawn = super().weigh(prepared, observation)
        DRAWN.append(drawn)
        return drawn


def test_a_teacher_step_is_reinforce_with_the_moving_average_of_rewards() -> None:
    torch.manual_seed(0)
    teacher = Noting(KeepProbability(C).double())
    found = episodes(teacher, SGD(teacher.parameters(), lr=0.5))
    average, seen = None, []
    for number in range(4):
        DRAWN.clear()
        before = {k: p.detach().clone() for k, p in teacher.keeps.named_parameters()}
        record = next(found)
        after = {k: p.detach().clone() for k, p in teacher.keeps.named_parameters()}
        with torch.no_grad():
            for k, p in teacher.keeps.named_parameters():
                p.copy_(before[k])
        steps, reached, grads = by_hand(teacher, number)
        reward = -math.log(steps / GOAL.steps) if reached else 0.0
        average = reward if average is None else average
        for k, p in after.items():
            want = before[k] + 0.5 * (reward - average) * grads[k]
            torch.testing.assert_close(p, want, rtol=1e-9, atol=1e-12)
        average = 0.8 * average + 0.2 * reward
        assert record[:3] == (number, steps, reached)
        assert record.reward == pytest.approx(reward, rel=1e-12)
        assert record.baseline == pytest.approx(average, rel=1e-12)
        with torch.no_grad():
            for k, p in teacher.keeps.named_parameters():
                p.copy_(after[k])
        seen.append(reward)
    assert len(set(seen)) > 1


def test_what_is_not_reached_is_given_up_without_reward() -> None:
    teacher = fresh()
    goal = AccuracyGoal(accuracy=1.0, steps=2)
    record = next(episodes(teacher, SGD(teacher.parameters(), lr=0.5), goal=goal))
    assert isinstance(record, RewardedEpisode)
    assert (record.steps, record.reached, record.reward) == (2, False, 0.0)
    assert 0 < record.best_accuracy < 1


def test_learning_that_was_stopped_goes_on_with_average_and_number() -> None:
    whole, stopped = fresh(), fresh()
    rules = [Adam(teacher.parameters(), lr=0.1) for teacher in (whole, stopped)]
    records = list(islice(episodes(whole, rules[0]), 4))
    begun = list(islice(episodes(stopped, rules[1]), 2))
    later = episodes(stopped, rules[1], baseline=begun[-1].baseline, first=2)
    assert begun + list(islice(later, 2)) == records
    for ours, theirs in zip(stopped.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_teacher_that_samples_nothing_is_refused() -> None:
    teacher = LossWeigher().double()
    with pytest.raises(ValueError, match="samples nothing"):
        next(episodes(teacher, SGD(teacher.parameters(), lr=0.1)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"goal": AccuracyGoal(0.0, 5)}, r"accuracy is a share in \(0, 1\]"),
        ({"goal": AccuracyGoal(1.1, 5)}, "accuracy"),
        ({"goal": AccuracyGoal(0.5, 0)}, "every must lie between"),
        ({"goal": AccuracyGoal(0.5, 5, 6)}, "6 of 5"),
        ({"decay": 1.0}, "decay"),
    ],
)
def test_goals_that_mean_nothing_are_refused(settings, message) -> None:
    teacher = fresh()
    with pytest.raises(UsageError, match=message):
        next(episodes(teacher, SGD(teacher.parameters(), lr=0.1), **settings))


def test_too_few_batches_are_refused() -> None:
    teacher = fresh()
    rule = SGD(teacher.parameters(), lr=0.1)
    few = rewarded(
        make_student,
        teacher,
        rule,
        lambda n: islice(clustered(n), 3),
        HELD_OUT,
        goal=AccuracyGoal(1.0, 5),
        decay=0.8,
    )
    with pytest.raises(UsageError, match="5 steps, but there are batches for 3"):
        next(few)


def test_its_tutors_say_nothing_of_their_length(caplog) -> None:
    teacher = fresh()
    goal = AccuracyGoal(accuracy=1.0, steps=60, every=60)
    list(islice(episodes(teacher, SGD(teacher.parameters(), lr=0.1), goal=goal), 2))
    assert not caplog.records
