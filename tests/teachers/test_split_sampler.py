"""The split sampler draws from its distribution, and its logits bear any gap."""

import math

import pytest
import torch

from tutelage.functional.trees import leaves
from tutelage.teachers import SplitSampler
from tutelage.teachers.split_sampler import Policy
from tutelage.types import Batch

SIZES = (5, 1, 7, 3)


def sampler(logits, policy: Policy = "inverted", dtype=torch.float64) -> SplitSampler:
    made = SplitSampler([4] * len(logits), policy=policy).to(dtype)
    with torch.no_grad():
        made.logits.copy_(torch.tensor(logits))
    return made


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("policy", ["inverted", "softmax"])
@pytest.mark.parametrize("parts", [2, 3, 10])
def test_all_parts_are_equally_likely_at_first(policy, parts):
    p = SplitSampler([3] * parts, policy=policy).log_probs().exp()
    assert torch.allclose(p, torch.full((parts,), 1 / parts), atol=1e-7)


@pytest.mark.parametrize("policy", ["inverted", "softmax"])
@pytest.mark.parametrize("gap", [0.0, 1.0, 17.0, 90.0, 200.0, 1e4])
@pytest.mark.parametrize("sign", [1, -1])
def test_probabilities_are_sound_at_any_gap_in_float32(policy, gap, sign):
    made = sampler([sign * gap, 0.0, 0.5, -0.5], policy, torch.float32)
    log_p = made.log_probs()
    p = log_p.exp()
    assert log_p.isfinite().all()
    assert (p >= 0).all()
    assert p.sum().item() == pytest.approx(1, abs=1e-6)
    for own in log_p:
        (grad,) = torch.autograd.grad(own, [made.logits], retain_graph=True)
        assert grad.isfinite().all()
        assert grad.sum().item() == pytest.approx(0, abs=1e-6)


def test_the_inverted_form_is_one_less_softmax_over_the_other_parts():
    logits = [0.3, -1.2, 2.0, 0.0, 0.7]
    q = torch.tensor(logits, dtype=torch.float64).softmax(0)
    assert torch.allclose(sampler(logits).log_probs().exp(), (1 - q) / 4, rtol=1e-12)


def test_only_one_part_can_be_driven_to_zero():
    p = sampler([200.0] + [0.0] * 9, dtype=torch.float32).log_probs().exp()
    assert p[0] == 0
    assert torch.allclose(p[1:], torch.tensor(1 / 9))
    both = sampler([200.0, 200.0] + [0.0] * 8).log_probs().exp()
    assert torch.allclose(both[:2], torch.tensor(0.5 / 9, dtype=torch.float64))


def test_the_score_is_the_one_in_closed_form():
    made = sampler([0.3, -1.2, 2.0, 0.0, 0.7])
    q = made.logits.detach().softmax(0)
    wanted = -q[:, None] * (torch.eye(5) - q) / (1 - q[:, None])
    found = torch.autograd.functional.jacobian(
        lambda s: torch.func.functional_call(_Logs(made), {"made.logits": s}, ()), made.logits
    )
    assert isinstance(found, torch.Tensor)
    assert torch.allclose(found, wanted, rtol=1e-12)


class _Logs(torch.nn.Module):
    def __init__(self, made: SplitSampler) -> None:
        super().__init__()
        self.made = made

    def forward(self) -> torch.Tensor:
        return self.made.log_probs()


def test_the_expected_score_is_zero():
    made = sampler([0.3, -1.2, 2.0])
    log_p = made.log_probs()
    (grad,) = torch.autograd.grad((log_p.detach().exp() * log_p).sum(), [made.logits])
    assert grad.abs().max() < 1e-15


def test_draws_follow_the_distribution_and_reach_every_example_of_every_part():
    made = SplitSampler(SIZES)
    with torch.no_grad():
        made.logits.copy_(torch.tensor([1.0, 0.0, 0.0, -1.0]))
    draw = made.draw(40_000, generator=generator())
    shares = torch.bincount(draw.part, minlength=4) / 40_000
    assert torch.allclose(shares, made.log_probs().exp(), atol=4 * math.sqrt(0.25 / 40_000))
    ends = torch.tensor(SIZES).cumsum(0)
    assert torch.equal(draw.row, ends[draw.part] - torch.tensor(SIZES)[draw.part] + draw.place)
    assert draw.row.unique().tolist() == list(range(sum(SIZES)))
    for part, size in enumerate(SIZES):
        places = torch.bincount(draw.place[draw.part == part], minlength=size)
        assert len(places) == size
        expected = places.sum() / size
        assert (places - expected).abs().max() < 5 * expected**0.5


def test_draws_are_the_same_again_for_the_same_generator():
    made = SplitSampler(SIZES)
    first, again, other = (made.draw(50, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(first.row, again.row)
    assert not torch.equal(first.row, other.row)


def test_a_part_that_was_driven_to_zero_is_never_drawn():
    made = sampler([200.0, 0.0, 0.0], dtype=torch.float32)
    assert 0 not in made.draw(5000, generator=generator()).part


def test_a_prepared_batch_says_how_likely_the_part_of_each_example_was():
    made = SplitSampler(SIZES)
    with torch.no_grad():
        made.logits.copy_(torch.tensor([1.0, 0.0, 0.5, -1.0]))
    draw = made.draw(100, generator=generator())
    inputs = draw.row.float().unsqueeze(1)
    prepared = made.prepare(Batch(inputs, draw.part, draw.row))
    assert prepared.log_prob is not None
    assert torch.equal(prepared.log_prob, made.log_probs()[draw.part])
    assert torch.equal(prepared.inputs, inputs)
    prepared.log_prob.sum().backward()
    assert made.logits.grad is not None
    assert made.logits.grad.abs().min() > 0


def test_reinforcing_the_reward_of_a_part_makes_it_likelier():
    made = SplitSampler([4] * 5)
    learner = torch.optim.Adam(made.parameters(), 0.1)
    for step in range(60):
        draw = made.draw(200, generator=generator(step))
        reward = (draw.part == 2).float() * -1
        log_prob = made.log_probs()[draw.part]
        learner.zero_grad()
        (-(reward - reward.mean()) * log_prob).mean().backward()
        learner.step()
    p = made.log_probs().exp()
    assert p[2] < 0.02
    assert p.sum().item() == pytest.approx(1)


def test_what_it_has_learned_is_its_state():
    made, other = sampler([1.0, 2.0, 3.0]), sampler([0.0, 0.0, 0.0])
    other.load_state_dict(made.state_dict())
    assert torch.equal(other.log_probs(), made.log_probs())
    assert list(leaves(dict(made.named_parameters()))) == ["logits"]


@pytest.mark.parametrize(
    ("sizes", "policy", "part"),
    [
        ([4], "inverted", "two or more"),
        ([], "inverted", "two or more"),
        ([4, 0], "inverted", "none empty"),
        ([4, 4], "softmaxx", "Did you mean 'softmax'"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_what_cannot_be_sampled_is_refused(sizes, policy, part):
    with pytest.raises(ValueError, match=part):
        SplitSampler(sizes, policy=policy)


@pytest.fixture
def unchecked_types():
    from tests.trained import unchecked

    with unchecked():
        yield
