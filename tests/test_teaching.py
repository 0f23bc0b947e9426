"""Both moments of a teacher are optional, its traits have defaults, two teachers compose."""

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from tests.cases import D, InputWeigher, Shifter, stream
from tutelage.losses.objectives import Normalise
from tutelage.teacher import acts_at_test, is_attached, normalise_of, taps_of, uses_progress
from tutelage.teachers import CombinedTeacher, Curriculum, LossWeigher, Plain
from tutelage.teachers.hook_calls import prepare, weigh
from tutelage.types import Batch, Observation, Params, PreparedBatch, Progress, as_prepared


class Everything(nn.Module):
    """Has every trait set to something else than its default."""

    normalise: ClassVar[Normalise] = "group"
    taps = ("0", "1")
    attached = True
    at_test = True
    uses_progress = True

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        return 2 * observation.losses


def own(teacher: nn.Module) -> Params:
    return dict(teacher.named_parameters())


def seen(prepared: PreparedBatch) -> Observation:
    losses = torch.arange(1.0, len(prepared.ids) + 1, dtype=torch.float64)
    return Observation(losses, losses.unsqueeze(1), {}, Progress())


def test_a_bare_module_has_the_documented_traits() -> None:
    plain = Plain()
    assert normalise_of(plain) == "mean"
    assert tuple(taps_of(plain)) == ()
    assert not is_attached(plain)
    assert not acts_at_test(plain)
    assert not uses_progress(plain)


def test_traits_are_read_off_the_teacher() -> None:
    teacher = Everything()
    assert normalise_of(teacher) == "group"
    assert tuple(taps_of(teacher)) == ("0", "1")
    assert is_attached(teacher)
    assert acts_at_test(teacher)
    assert uses_progress(teacher)


def test_a_teacher_without_either_moment_hands_the_batch_on_with_equal_weights() -> None:
    batch, plain = next(stream()), Plain()
    prepared = prepare(plain, own(plain), batch)
    assert prepared.inputs is batch.inputs
    assert prepared.targets is batch.targets
    assert prepared.ids is batch.ids
    assert prepared.group.tolist() == list(range(len(batch.ids)))
    weights = weigh(plain, own(plain), prepared, seen(prepared))
    assert torch.equal(weights, torch.ones(len(batch.ids), dtype=torch.float64))


def test_a_teacher_without_prepare_only_weighs() -> None:
    batch, teacher = next(stream()), InputWeigher().double()
    prepared = prepare(teacher, own(teacher), batch)
    assert prepared.inputs is batch.inputs
    weights = weigh(teacher, own(teacher), prepared, seen(prepared))
    torch.testing.assert_close(weights, teacher.net(batch.inputs).sigmoid().squeeze(1))


def test_a_teacher_without_weigh_only_prepares() -> None:
    batch, teacher = next(stream()), Shifter().double()
    prepared = prepare(teacher, own(teacher), batch)
    torch.testing.assert_close(prepared.inputs, batch.inputs + teacher.shift.tanh())
    weights = weigh(teacher, own(teacher), prepared, seen(prepared))
    assert torch.equal(weights, torch.ones(len(batch.ids), dtype=torch.float64))


def test_a_teacher_runs_on_the_parameters_given_and_keeps_its_own() -> None:
    batch, teacher = next(stream()), Shifter().double()
    before = teacher.shift.detach().clone()
    moved = {"shift": torch.full((D,), 3.0, dtype=torch.float64, requires_grad=True)}
    prepared = prepare(teacher, moved, batch)
    torch.testing.assert_close(prepared.inputs, batch.inputs + moved["shift"].tanh())
    (grad,) = torch.autograd.grad(prepared.inputs.sum(), moved["shift"])
    assert (grad > 0).all()
    assert torch.equal(teacher.shift, before)


def test_the_running_statistics_of_a_teacher_are_left_alone() -> None:
    network = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 1)
    )
    teacher = Curriculum(network, iteration=False)
    images = torch.rand(4, 1, 4, 4)
    prepared = as_prepared(Batch(images, torch.zeros(4).long(), torch.arange(4)))
    weigh(teacher, own(teacher), prepared, seen(prepared))
    assert all(
        torch.equal(b, torch.zeros_like(b))
        for name, b in teacher.named_buffers()
        if "running_var" not in name
    )


def test_two_teachers_together_prepare_as_one_and_weigh_as_the_other() -> None:
    batch = next(stream())
    shifter, weigher = Shifter().double(), LossWeigher(width=4).double()
    both = CombinedTeacher(shifter, weigher)
    prepared = prepare(both, own(both), batch)
    alone = prepare(shifter, own(shifter), batch)
    assert torch.equal(prepared.inputs, alone.inputs)
    weights = weigh(both, own(both), prepared, seen(prepared))
    assert torch.equal(weights, weigh(weigher, own(weigher), alone, seen(alone)))
    total = prepared.inputs.sum() + weights.sum()
    grads = torch.autograd.grad(total, list(both.parameters()))
    assert all((grad != 0).any() for grad in grads)


def test_two_teachers_together_have_the_traits_of_whose_moment_it_is() -> None:
    both = CombinedTeacher(Shifter(), Everything())
    assert normalise_of(both) == "group"
    assert tuple(taps_of(both)) == ("0", "1")
    assert is_attached(both)
    assert acts_at_test(both)
    assert uses_progress(both)
    swapped = CombinedTeacher(Everything(), LossWeigher())
    assert normalise_of(swapped) == "mean"
    assert tuple(taps_of(swapped)) == ()
    assert not is_attached(swapped)
    assert acts_at_test(swapped)
    assert uses_progress(swapped)


@pytest.mark.parametrize(
    ("prepares", "weighs", "message"),
    [
        (LossWeigher, LossWeigher, "LossWeigher has no method 'prepare'"),
        (Shifter, Shifter, "Shifter has no method 'weigh'"),
        (Plain, Plain, "Plain has no method 'prepare'"),
    ],
)
def test_a_teacher_without_its_moment_cannot_take_part(prepares, weighs, message) -> None:
    with pytest.raises(TypeError, match=message):
        CombinedTeacher(prepares(), weighs())
