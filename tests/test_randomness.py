"""Seeds do not collide, and drawing from one leaves the caller's random state alone."""

import itertools

import pytest
import torch

from tutelage.randomness import mixed_seed, seeded

CPU = torch.device("cpu")


def test_no_two_small_tuples_share_a_seed() -> None:
    parts = range(-2, 13)
    tuples = [t for size in range(4) for t in itertools.product(parts, repeat=size)]
    assert len({mixed_seed(*t) for t in tuples}) == len(tuples)


def test_length_and_word_boundaries_count() -> None:
    alike = [(1,), (1, 0), (1, 0, 0), (0, 1), (2**32,), (0, 2**32), (2**32, 0), (2**63 - 1,)]
    assert len({mixed_seed(*t) for t in alike}) == len(alike)


@pytest.mark.parametrize("parts", [(), (0,), (-1,), (2**63 - 1, -(2**63)), tuple(range(50))])
def test_a_seed_is_the_same_each_time_and_torch_takes_it_and_the_next(parts) -> None:
    seed = mixed_seed(*parts)
    assert seed == mixed_seed(*parts)
    assert 0 <= seed < 2**63
    with seeded(seed + 1, CPU):
        torch.rand(1)


def test_the_largest_seed_has_a_successor() -> None:
    with seeded(2**63 - 1 + 1, CPU):
        torch.rand(1)


def test_the_same_seed_draws_the_same_numbers_and_another_draws_others() -> None:
    drawn = []
    for seed in (5, 5, 6):
        with seeded(seed, CPU):
            drawn.append(torch.rand(4))
        torch.rand(3)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_the_callers_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    with seeded(1, CPU):
        torch.rand(7)
        with seeded(2, CPU):
            torch.rand(2)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_callers_random_state_comes_back_when_the_body_raises() -> None:
    before = torch.get_rng_state()

    def fail() -> None:
        with seeded(1, CPU):
            torch.rand(7)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_nested_seed_does_not_disturb_the_outer_one() -> None:
    with seeded(3, CPU):
        want = torch.rand(4)
    with seeded(3, CPU):
        first = torch.rand(2)
        with seeded(4, CPU):
            torch.rand(5)
        assert torch.equal(torch.cat([first, torch.rand(2)]), want)
