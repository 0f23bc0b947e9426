"""The learned policy: its probabilities by enumeration, its steps, its past, odd batches."""

from itertools import permutations, product
from math import log

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from tests.augment.oracle import photos
from tests.trained import unchecked
from tutelage.augment import SPACES, Actions, Space, Strength
from tutelage.errors import UsageError
from tutelage.signals import GradientAlignment
from tutelage.signals.products import Alignment
from tutelage.teachers import LearnedAugmentation
from tutelage.teachers.learned_augmentation import KEPT_ROWS
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_prepared

OPERATIONS, LEVELS, MOST = ("invert", "brightness", "flip_lr"), 2, 2


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    """A space of three operations and two levels."""
    even = Strength(lambda levels, _h, _w: 0.5 + np.arange(levels))
    space = Space("tiny", dict.fromkeys(OPERATIONS, even), LEVELS)
    monkeypatch.setitem(SPACES, "tiny", space)


def tiny() -> LearnedAugmentation:
    torch.manual_seed(0)
    teacher = LearnedAugmentation("tiny", most=MOST).double()
    for p in teacher.parameters():
        nn.init.normal_(p)
    return teacher


def outcomes():
    """All that can be drawn for an image: how many, and for each operation kept and level."""
    for r in range(1, MOST + 1):
        for order in permutations(range(len(OPERATIONS)), r):
            for done in product([(False, 0)] + [(True, k) for k in range(LEVELS)], repeat=r):
                yield r, order, done


def probability(teacher, r, order, done) -> float:
    """Of one outcome, from the definition, with the choice of operations."""
    policy = teacher.policy()
    p = policy.how_many[r - 1] / len(list(permutations(range(len(OPERATIONS)), r)))
    for a, (kept, k) in zip(order, done, strict=True):
        p *= policy.keep[a] * policy.strength[a, k] if kept else 1 - policy.keep[a]
    return p


def as_actions(found):
    """Outcomes as a batch."""
    size = len(found), MOST
    operation, level = np.zeros(size, np.int64), np.zeros(size, np.int64)
    kept = np.zeros(size, np.bool_)
    for row, (r, order, done) in enumerate(found):
        operation[row, :r] = order
        kept[row, :r], level[row, :r] = zip(*done, strict=True)
    count = np.array([r for r, _, _ in found])
    spot = np.zeros((*size, 2))
    return count, Actions(operation, level, kept, np.zeros(size, np.bool_), spot)


def test_log_probabilities_are_those_of_the_definition_and_sum_to_one():
    teacher, found = tiny(), list(outcomes())
    log_p = teacher.log_probability(*as_actions(found))
    expected = [probability(teacher, *outcome) for outcome in found]
    assert sum(expected) == pytest.approx(1, abs=1e-12)
    ways = [len(list(permutations(range(len(OPERATIONS)), r))) for r, _, _ in found]
    wanted = torch.tensor([log(p * n) for p, n in zip(expected, ways, strict=True)])
    assert torch.allclose(log_p, wanted.double(), rtol=0, atol=1e-6)


def test_the_score_has_expectation_zero():
    teacher, found = tiny(), list(outcomes())
    p = torch.tensor([probability(teacher, *outcome) for outcome in found]).double()
    mean = (p * teacher.log_probability(*as_actions(found))).sum()
    for grad in torch.autograd.grad(mean, list(teacher.parameters())):
        assert grad.abs().max() < 1e-7


def test_draws_have_these_probabilities():
    teacher, many = tiny(), 40_000
    count, actions = teacher.draw(3, torch.arange(many))
    seen: dict[object, int] = {}
    for row in range(many):
        r = count[row]
        done = tuple(
            (bool(kept), int(k) if kept else 0)
            for kept, k in zip(actions.kept[row, :r], actions.level[row, :r], strict=True)
        )
        outcome = int(r), tuple(actions.operation[row, :r].tolist()), done
        seen[outcome] = seen.get(outcome, 0) + 1
    chi = 0.0
    for outcome in outcomes():
        wanted = many * probability(teacher, *outcome)
        chi += (seen.pop(outcome, 0) - wanted) ** 2 / wanted
    assert not seen
    n = len(list(outcomes())) - 1
    assert chi < n + 5 * (2 * n) ** 0.5


def test_entropy_is_that_of_the_distributions():
    teacher = tiny()
    policy = teacher.policy()
    coins = np.stack([policy.keep, 1 - policy.keep])
    wanted = -sum(
        float((p * np.log(p)).sum()) for p in (policy.how_many, policy.strength, coins)
    )
    assert float(teacher.entropy().detach()) == pytest.approx(wanted)


def student(channels: int = 3) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, 2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(3),
    )


def batch(count: int, number: int = 0, channels: int = 3) -> Batch:
    images = photos(16, channels, 8, 8)[(torch.arange(count) + number) % 16].float() / 255
    labels = (torch.arange(count) + number) % 3
    return Batch(images, labels, torch.arange(count) + 100 * number)


def taught(teacher, *, product=None, channels: int = 3) -> Tutor:
    made = student(channels)
    made(batch(4, channels=channels).inputs)
    signal = GradientAlignment(evaluate_on="plain")
    if product is not None:
        signal = GradientAlignment(product, evaluate_on="plain")
    return Tutor(
        made,
        SGD(made.parameters(), 0.1, momentum=0.9),
        teacher,
        Adam(teacher.parameters(), 0.1),
        signal=signal,
        teacher_every=2,
    )


@pytest.mark.parametrize("space", ["tiny", "standard", "wide-long"])
def test_every_parameter_gets_a_finite_gradient_and_moves(space):
    teacher = LearnedAugmentation(space, most=MOST)
    tutor = taught(teacher)
    for number in range(5):
        tutor.step(batch(128, number))
    assert teacher.count.detach().abs().min() > 0
    assert teacher.keep.detach().abs().min() > 0
    assert (teacher.strength.detach().abs().sum(1) > 0).all()
    assert all(p.isfinite().all() for p in teacher.parameters())
    assert tutor.skipped_teacher_steps == 0


def test_plain_steps_see_the_images_as_they_came():
    teacher = LearnedAugmentation()
    tutor = taught(teacher)
    seen = []
    tutor.student.get_submodule("0").register_forward_pre_hook(
        lambda _, args: seen.append(args[0].clone())
    )
    same = []
    for one in (batch(16, number) for number in range(4)):
        seen.clear()  # what passes after a step's own pass checks and judges it
        tutor.step(one)
        same.append(torch.equal(seen[0], one.inputs))
    assert same == [True, False, True, False]


def test_a_policy_learns_to_drop_what_harms():
    # inverted images with labels that say whether they are bright: inverting is the opposite
    teacher = LearnedAugmentation("tiny", most=1)
    generator = torch.Generator().manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16, 2))
    tutor = Tutor(
        linear,
        SGD(linear.parameters(), 0.05),
        teacher,
        Adam(teacher.parameters(), 0.1),
        signal=GradientAlignment(evaluate_on="plain"),
        teacher_every=2,
    )
    for number in range(40):
        bright = torch.randint(0, 2, (64,), generator=generator)
        noise = 0.2 * torch.rand(64, 3, 4, 4, generator=generator)
        images = noise + 0.8 * bright.view(-1, 1, 1, 1)
        tutor.step(Batch(images, bright, torch.arange(64) + 64 * number))
    keep = dict(zip(OPERATIONS, teacher.policy().keep.tolist(), strict=True))
    assert keep["invert"] < 0.25
    assert keep["flip_lr"] > keep["invert"] + 0.3


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("channels", [1, 3])
def test_odd_batches_and_grey_images_are_borne(size, channels):
    teacher = LearnedAugmentation()
    tutor = taught(teacher, channels=channels, product=Alignment("ghost"))
    tutor.student.eval()  # batch statistics of one example
    for number in range(4):
        tutor.step(batch(size, number, channels))
    assert all(p.isfinite().all() for p in teacher.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_neither_images_nor_probabilities(dtype):
    teacher, given = tiny().float(), batch(16)._replace(seed=4)
    expected = teacher.prepare(given)
    with torch.autocast("cpu", dtype=dtype):
        found = teacher.prepare(given)
    assert torch.equal(found.inputs, expected.inputs)
    assert found.inputs.dtype == torch.float32
    assert found.log_prob is not None
    assert expected.log_prob is not None
    assert torch.equal(found.log_prob, expected.log_prob)


def test_normalised_images_come_back_normalised():
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    plain, undoing = LearnedAugmentation(), LearnedAugmentation(mean=mean, std=std)
    given = batch(64)._replace(seed=9)
    m, s = (torch.tensor(v).view(3, 1, 1) for v in (mean, std))
    found = undoing.prepare(given._replace(inputs=(given.inputs - m) / s))
    assert torch.allclose(found.inputs * s + m, plain.prepare(given).inputs, atol=1e-6)
    with pytest.raises(UsageError, match="give mean and std"):
        plain.prepare(given._replace(inputs=(given.inputs - m) / s))


def test_an_image_gets_the_same_whatever_else_is_in_the_batch():
    teacher, given = LearnedAugmentation(), batch(32)._replace(seed=5)
    whole = teacher.prepare(given)
    half = teacher.prepare(Batch(given.inputs[9:], given.targets[9:], given.ids[9:], 5))
    assert torch.equal(half.inputs, whole.inputs[9:])
    assert half.log_prob is not None
    assert whole.log_prob is not None
    assert torch.equal(half.log_prob, whole.log_prob[9:])


@pytest.mark.parametrize("steps", [0, 1, 5, KEPT_ROWS, KEPT_ROWS + 1, 300, 1000])
def test_the_past_is_kept_evenly_however_long_it_is(steps):
    teacher, prepared = tiny(), as_prepared(batch(2))
    seen = prepared, Observation(torch.zeros(2), torch.zeros(2, 3), {}, Progress())
    for step in range(steps):
        with torch.no_grad():
            teacher.keep.fill_(log((step + 1) / (2000 - step)))
        for name, value in teacher.remember(*seen).items():
            teacher.get_buffer(name).copy_(value)
    at, past = teacher.history()
    assert len(at) == len(past) <= KEPT_ROWS
    if not steps:
        return
    apart = at[1] - at[0] if len(at) > 1 else 1
    assert at == list(range(0, steps, apart))
    assert len(at) >= min(steps, KEPT_ROWS // 2)
    kept = torch.tensor([(step + 1) / 2001 for step in at]).double()
    assert torch.allclose(past[:, 0, 0], kept, atol=1e-6)
    assert ((past[..., 1] > 0) & (past[..., 1] < 1)).all()


def test_a_policy_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"most must lie in 1..19, got 20"):
        LearnedAugmentation(most=20)
    with pytest.raises(ValueError, match=r"do not go together"):
        LearnedAugmentation(mean=(0.5,), std=(0.0,))
    with pytest.raises(UsageError, match=r"unknown search space 'wide'"):
        LearnedAugmentation("wide")
    with unchecked(), pytest.raises(UsageError, match=r"1 or 3 channels"):
        LearnedAugmentation().prepare(Batch(torch.zeros(2, 7), torch.zeros(2), torch.arange(2)))
