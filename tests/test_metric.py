"""What judges a student on held-out examples: the objective, or another metric."""

import pytest
import torch
from torch import nn

from tests.cases import InputWeigher, build, stream
from tutelage.losses.objectives import cross_entropy, expected_error
from tutelage.signals import Reversible, Unrolled
from tutelage.training.tutor import Tutor


def test_the_expected_error_is_the_chance_of_a_wrong_draw() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.25, 0.25, 0.5]], dtype=torch.float64)
    got = expected_error(p.log() + 3, torch.tensor([0, 1]))
    torch.testing.assert_close(got, torch.tensor([0.3, 0.75], dtype=torch.float64))
    soft = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([0.55, 0.75], dtype=torch.float64)
    torch.testing.assert_close(expected_error(p.log(), soft), wanted)


def taught(signal: type, metric, weights: torch.Tensor):
    """A student after two steps under its teacher, the last one judged."""
    student, teacher = build("linear"), InputWeigher().double()
    nn.utils.vector_to_parameters(weights.clone(), teacher.parameters())
    rule = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    learner = torch.optim.SGD(teacher.parameters(), lr=1.0)  # its step is the gradient
    tutor = Tutor(
        student, rule, teacher, learner, signal=signal(2), teacher_every=2, metric=metric
    )
    batches = stream()
    held_out = next(batches)
    tutor.step(next(batches))
    return tutor, held_out, tutor.step(next(batches), held_out)


def judged(metric, weights: torch.Tensor) -> float:
    tutor, held_out, _ = taught(Reversible, metric, weights)
    with torch.no_grad():
        return float(metric(tutor.student(held_out.inputs), held_out.targets).mean())


@pytest.mark.parametrize("signal", [Reversible, Unrolled])
@pytest.mark.parametrize("metric", [expected_error, cross_entropy])
def test_the_gradient_is_that_of_the_metric(signal, metric) -> None:
    before = nn.utils.parameters_to_vector(InputWeigher().double().parameters()).detach()
    tutor, _, record = taught(signal, metric, before)
    assert record.held_out_loss is not None
    assert float(record.held_out_loss) == pytest.approx(judged(metric, before), rel=1e-12)
    grad = before - nn.utils.parameters_to_vector(tutor.teacher.parameters()).detach()
    step = 1e-5 * grad / grad.norm()
    slope = (judged(metric, before + step) - judged(metric, before - step)) / 2e-5
    assert slope == pytest.approx(float(grad.norm()), rel=1e-6)
