"""Rewards for what was sampled: their sign, their factor and their bookkeeping."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam

from tests.cases import C, D, InputWeigher, build, stream
from tests.tutoring import WithoutForwardMode, live_tensors, same, teaching
from tutelage.signals import GradientAlignment, Lookahead, NextStepLoss, Signal
from tutelage.signals.policy_gradients import normalised, require_options
from tutelage.signals.products import Alignment
from tutelage.teachers import KeepOrDrop, SplitSampler
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_prepared

RATE = 0.3
PARTS = 4


def tutor_of(signal: Signal, name: str = "relu network", **settings) -> Tutor:
    student = build(name)
    sampler = SplitSampler([5] * PARTS).double()
    learner = SGD(sampler.parameters(), lr=1.0)
    optimizer = SGD(student.parameters(), lr=RATE)
    return Tutor(student, optimizer, sampler, learner, signal=signal, **settings)


def drawn(tutor: Tutor, seed: int = 0) -> Iterator[Batch]:
    """Batches of twelve drawn by the tutor's own sampler from four parts of five."""
    made = torch.Generator().manual_seed(seed)
    inputs = torch.randn(5 * PARTS, D, generator=made, dtype=torch.float64)
    targets = torch.randint(0, C, (5 * PARTS,), generator=made)
    draws = torch.Generator().manual_seed(seed + 1)
    assert isinstance(tutor.teacher, SplitSampler)
    while True:
        rows = tutor.teacher.draw(12, generator=draws).row
        yield Batch(inputs[rows], targets[rows], rows)


def logits_of(tutor: Tutor) -> Tensor:
    assert isinstance(tutor.teacher, SplitSampler)
    return tutor.teacher.logits.detach().clone()


@pytest.mark.parametrize("product", [Alignment("forward"), Alignment("ghost")], ids=str)
@pytest.mark.parametrize("name", ["relu network", "group norm", "dropout"])
def test_in_expectation_it_is_the_gradient_of_the_next_loss(name: str, product) -> None:
    """Theorem 1. The batch holds every action once, so that at a uniform policy the plain mean
    over it is the expectation, of the reward as of the step."""
    student, sampler = build(name), SplitSampler([1] * PARTS).double()
    for module in student.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    start = {k: p.detach().clone() for k, p in student.named_parameters()}
    batches = stream()
    actions, judge = next(batches), next(batches)
    actions = Batch(actions.inputs[:PARTS], actions.targets[:PARTS], torch.arange(PARTS))
    judge = judge._replace(ids=torch.zeros(len(judge.ids), dtype=torch.int64))
    signal = GradientAlignment(product, normalise="none")
    learner = SGD(sampler.parameters(), lr=1.0)
    tutor = Tutor(student, SGD(student.parameters(), lr=RATE), sampler, learner, signal=signal)
    tutor.step(actions)
    tutor.step(judge)
    estimated = -sampler.logits.detach()  # a step of rate 1 from zero

    theta = {k: p.requires_grad_() for k, p in start.items()}
    logits = torch.zeros(PARTS, dtype=torch.float64, requires_grad=True)
    policy = SplitSampler([1] * PARTS).double()
    p = functional_call(LogProbs(policy), {"policy.logits": logits}, ()).exp()
    losses = cross_entropy(
        functional_call(student, theta, (actions.inputs,)), actions.targets, reduction="none"
    )
    grads = torch.autograd.grad((p * losses).sum(), list(theta.values()), create_graph=True)
    ahead = {k: t - RATE * g for (k, t), g in zip(theta.items(), grads, strict=True)}
    after = cross_entropy(functional_call(student, ahead, (judge.inputs,)), judge.targets)
    (truth,) = torch.autograd.grad(after, logits)
    torch.testing.assert_close(RATE * estimated, truth, rtol=1e-9, atol=1e-14)


class LogProbs(nn.Module):
    def __init__(self, policy: SplitSampler) -> None:
        super().__init__()
        self.policy = policy

    def forward(self) -> Tensor:
        return self.policy.log_probs()


def test_rewards_are_normalised_over_the_batch() -> None:
    rewards = torch.tensor([1.0, 2.0, 6.0])
    torch.testing.assert_close(normalised(rewards, "mean"), torch.tensor([-2.0, -1.0, 3.0]))
    found = normalised(rewards, "standard")
    torch.testing.assert_close(found.mean(), torch.tensor(0.0), rtol=0, atol=1e-7)
    torch.testing.assert_close(found.std(), torch.tensor(1.0))
    assert torch.equal(normalised(rewards, "none"), rewards)
    assert torch.equal(normalised(torch.tensor([3.0]), "standard"), torch.tensor([0.0]))
    assert bool(normalised(torch.tensor([2.0, 2.0]), "standard").isfinite().all())


def test_one_teacher_step_follows_the_mean_of_several_looks() -> None:
    together = tutor_of(GradientAlignment(), aggregate=3)
    batches = drawn(together)
    start, moves = logits_of(together), []
    alone = tutor_of(GradientAlignment())
    for number in range(4):  # the fourth judges the third
        batch = next(batches)
        together.step(batch)
        alone.step(batch)
        if number:
            moves.append(logits_of(alone))
            with torch.no_grad():  # as if it had not moved yet
                alone.teacher.get_parameter("logits").zero_()
    torch.testing.assert_close(logits_of(together) - start, torch.stack(moves).mean(0))


def test_the_next_loss_counts_by_how_it_compares_with_the_other_steps() -> None:
    tutor = tutor_of(NextStepLoss(), aggregate=3)
    batches, losses, seen = drawn(tutor), [], []
    for number in range(4):
        batch = next(batches)
        seen.append(batch)
        record = tutor.step(batch)
        if number:
            losses.append(-record.loss)
    rewards = torch.stack(losses)
    rewards = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    sampler = SplitSampler([5] * PARTS).double()
    told = [sampler.prepare(batch).log_prob for batch in seen[:3]]
    objective = torch.stack([
        r * lp.mean() for r, lp in zip(rewards, told, strict=True) if lp is not None
    ]).mean()
    (ascent,) = torch.autograd.grad(objective, sampler.logits)
    torch.testing.assert_close(logits_of(tutor), ascent, rtol=1e-7, atol=1e-12)


def test_between_judged_steps_the_teacher_stands_aside() -> None:
    student = build("relu network")
    teacher = KeepOrDrop(InputWeigher().double())
    tutor = Tutor(
        student,
        SGD(student.parameters(), lr=RATE),
        teacher,
        SGD(teacher.parameters(), lr=1.0),
        signal=GradientAlignment(evaluate_on="plain"),
        teacher_every=2,
    )
    batches = stream()
    weights = [tutor.step(next(batches)).weights for _ in range(8)]
    assert all(bool((w == 1).all()) for w in weights[::2])
    assert any(bool((w == 0).any()) for w in weights[1::2])


def test_a_sampler_learns_to_leave_a_misleading_part_alone() -> None:
    made = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, D, generator=made, dtype=torch.float64)
    truth = torch.randn(D, C, generator=made, dtype=torch.float64)
    targets = (inputs @ truth).argmax(1)
    targets[:100] = torch.randint(0, C, (100,), generator=made)
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, C)).double()
    sampler = SplitSampler([100] * PARTS).double()
    tutor = Tutor(
        student,
        SGD(student.parameters(), lr=0.1, momentum=0.9),
        sampler,
        Adam(sampler.parameters(), lr=0.1),
        signal=GradientAlignment(),
        aggregate=5,
    )
    draws = torch.Generator().manual_seed(1)
    for _ in range(300):
        rows = sampler.draw(100, generator=draws).row
        tutor.step(Batch(inputs[rows], targets[rows], rows))
    p = sampler.log_probs().detach().exp()
    assert float(p[0]) < 0.2  # a quarter at first
    assert float(p[1:].min()) > 0.25


def test_what_was_kept_has_the_probability_that_is_rewarded() -> None:
    torch.manual_seed(0)
    keeps = InputWeigher().double()
    teacher, batch = KeepOrDrop(keeps), next(stream())
    prepared = as_prepared(batch)
    zeros = torch.zeros(len(batch.ids), dtype=torch.float64)
    seen = Observation(zeros, torch.zeros(len(batch.ids), C), {}, Progress())
    p = keeps.weigh(prepared, seen)
    for seed in range(20):
        torch.manual_seed(seed)
        kept = teacher.weigh(prepared, seen)
        torch.manual_seed(seed)
        found = teacher.log_prob(prepared, seen)
        expected = torch.where(kept == 1, p.log(), (1 - p).log())
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("signal", [GradientAlignment(), NextStepLoss()], ids=str)
def test_entropy_keeps_a_distribution_apart_from_certainty(signal) -> None:
    spread = {}
    for weight in (0.0, 2.0):
        kept = type(signal)(entropy=weight)
        tutor = tutor_of(kept, aggregate=2)
        with torch.no_grad():
            tutor.teacher.get_parameter("logits").copy_(torch.tensor([2.0, 0.0, 0.0, 0.0]))
        batches = drawn(tutor)
        for _ in range(7):
            tutor.step(next(batches))
        assert isinstance(tutor.teacher, SplitSampler)
        spread[weight] = float(tutor.teacher.entropy().detach())
    assert spread[2.0] > spread[0.0]


@pytest.mark.parametrize("signal", [GradientAlignment(), NextStepLoss()], ids=str)
@pytest.mark.parametrize("name", ["group norm", "batch norm", "dropout"])
def test_a_run_resumes_bit_for_bit_between_looks(signal, name: str) -> None:
    whole, first, second = (tutor_of(signal, name, aggregate=3) for _ in range(3))
    seen = []
    for batch, _ in zip(drawn(whole), range(9), strict=False):
        seen.append(batch)
        whole.step(batch)
    for batch in seen[:5]:
        first.step(batch)
    second.load_state_dict(first.state_dict())
    for batch in seen[5:]:
        second.step(batch)
    assert same(second.state_dict(), whole.state_dict())


@pytest.mark.parametrize("signal", [GradientAlignment(), NextStepLoss()], ids=str)
def test_rewards_leave_no_tensor_behind(signal) -> None:
    tutor = tutor_of(signal)
    batches = drawn(tutor)
    for _ in range(5):
        tutor.step(next(batches))
    before = live_tensors()
    for _ in range(5):
        tutor.step(next(batches))
    assert live_tensors() == before


class Column(KeepOrDrop):
    """Gives its log-probabilities as a column, which would broadcast against the rewards."""

    def log_prob(self, prepared, observation) -> Tensor:
        return super().log_prob(prepared, observation).unsqueeze(1)


@pytest.mark.parametrize("signal", [GradientAlignment(), NextStepLoss()], ids=str)
def test_log_probabilities_of_another_shape_are_refused(signal) -> None:
    tutor = teaching(signal, teacher=Column(InputWeigher()).double())
    batches = stream()
    tutor.step(next(batches))
    with pytest.raises(ValueError, match=r"log_prob of shape \[6, 1\].*\[6\]"):
        tutor.step(next(batches))


def test_a_teacher_under_autocast_keeps_as_often_as_it_says() -> None:
    class Rarely(nn.Module):
        def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
            return torch.full((20000,), 1e-3, dtype=torch.bfloat16)

    torch.manual_seed(0)
    zeros = torch.zeros(20000)
    seen = Observation(zeros, zeros.unsqueeze(1), {}, Progress())
    prepared = as_prepared(Batch(zeros, zeros.long(), zeros.long()))
    kept = KeepOrDrop(Rarely()).weigh(prepared, seen).sum()
    assert 5 < float(kept) < 40  # twenty expected; bfloat16 draws a zero every 256 numbers


def test_an_operator_without_forward_mode_has_rewards_too() -> None:
    found = []
    for activation in (WithoutForwardMode(), nn.Tanh()):
        torch.manual_seed(0)
        student = nn.Sequential(nn.Linear(D, 5), nn.BatchNorm1d(5), activation, nn.Linear(5, C))
        teacher = KeepOrDrop(InputWeigher()).double()
        tutor = teaching(GradientAlignment(), student=student.double(), teacher=teacher)
        for _, batch in zip(range(3), stream(), strict=False):
            tutor.step(batch)
        found.append([p.detach() for p in teacher.parameters()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(ValueError, match="evaluate_on must be one of held-out, next, plain"):
        require_options("no", "mean", 0.0)
    with pytest.raises(ValueError, match="normalise must be one of standard, mean, none, got"):
        require_options("next", "std", 0.0)


def test_what_cannot_be_rewarded_is_refused() -> None:
    student = build("linear")
    teacher = InputWeigher().double()
    optimizer, learner = SGD(student.parameters(), lr=RATE), SGD(teacher.parameters(), lr=1.0)
    tutor = Tutor(student, optimizer, teacher, learner, signal=GradientAlignment())
    batches = stream()
    tutor.step(next(batches))
    with pytest.raises(ValueError, match="InputWeigher samples nothing"):
        tutor.step(next(batches))
    with pytest.raises(ValueError, match="entropy must be 0 or above, got -1"):
        GradientAlignment(entropy=-1.0)
    with pytest.raises(ValueError, match="teacher_every=2 or more"):
        Tutor(student, optimizer, teacher, learner, signal=Lookahead(evaluate_on="plain"))
    with pytest.raises(ValueError, match="aggregate must be at least 1, got 0"):
        Tutor(student, optimizer, teacher, learner, signal=Lookahead(), aggregate=0)
