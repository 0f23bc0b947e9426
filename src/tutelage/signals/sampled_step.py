"""What each action of a sampling teacher earned at a step, and what came without sampling."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.trees import detached, named_grad
from tutelage.per_example import load_forward_mode
from tutelage.precision import wide
from tutelage.signals.dots import dots_of, weighted_slopes
from tutelage.signals.policy_gradients import counted_actions
from tutelage.signals.products import Alignment, Automatic, DoubleBackward, only_weighs
from tutelage.signals.pseudo_values import pseudo_values
from tutelage.teacher import implements, is_deep
from tutelage.types import (
    Lesson,
    Observation,
    Params,
    Step,
    StepObservation,
    StudentState,
    Window,
)


@dataclass(frozen=True)
class SampledStep:
    """A step of a sampling teacher, to be rewarded along a direction of the student."""

    product: Automatic | Alignment
    problem: BilevelProblem
    teacher: Params
    start: StudentState
    step: Step
    v: Params
    """the direction: a gradient, by the rates at which the step moved each parameter"""
    observed: StepObservation
    lesson: Lesson
    """with the graph of the teacher's parameters"""
    weights: Tensor
    """[L], with that graph"""
    counted: Tensor
    """which examples' actions count, bool [B]"""

    @classmethod
    def at(
        cls,
        product: Automatic | Alignment,
        problem: BilevelProblem,
        teacher: Params,
        window: Window,
        gradient: Params,
        observed: StepObservation,
    ) -> "SampledStep":
        """A step as it was taken."""
        assert window.start is not None
        step = window.steps[-1]
        lesson = problem.lesson(teacher, step.batch)
        weights = problem.weights(teacher, lesson, observed.observation, step.batch.seed)
        if lesson.log_prob is not None:
            require_own_weights(problem, teacher, lesson, observed.observation, step)
        counted = counted_actions(problem, lesson, len(step.batch.ids))
        v = by_rates(gradient, step)
        start = window.start
        return cls(
            product, problem, teacher, start, step, v, observed, lesson, weights, counted
        )

    def rewards(self) -> Tensor:
        """The pseudo-values of the descended loss's derivative along the direction."""
        weights = self.weights.detach()
        if not is_deep(self.problem.teacher):
            return self._pseudo_values(self.dots, weights)
        phi, lesson, seed = detached(self.teacher), self.observed.lesson, self.step.batch.seed
        slopes = weighted_slopes(self.problem, phi, self.start, self.step, self.v, lesson)
        with torch.no_grad():
            losses = self.problem.row_losses(phi, lesson, self.observed.observation, seed)
            weights = weights.reshape(losses.shape).to(losses.dtype)
        load_forward_mode()
        with torch.no_grad(), dual_level():
            moving = (make_dual(x, dx) for x, dx in zip((losses, weights), slopes, strict=True))
            primal, tangent = unpack_dual(self._pseudo_values(*moving))
        return torch.zeros_like(primal) if tangent is None else tangent

    def derivative(self) -> Params:
        """The descended loss, differentiated along the direction and by the teacher."""
        if not only_weighs(self.problem, self.lesson):
            way, start = DoubleBackward(), self.start
            return way.mixed(self.problem, start, self.teacher, self.step, self.v)
        if not self.weights.requires_grad:
            return {k: torch.zeros_like(p) for k, p in self.teacher.items()}
        reduced = self.problem.reduce(self.dots, self.weights, self.lesson)
        return named_grad(reduced, self.teacher)

    @cached_property
    def dots(self) -> Tensor:
        """``<d l_i / d theta, v>`` [L]; 0 for rows of weight 0, unless it is learnt."""
        return dots_of(
            self.problem,
            self.product,
            self.start,
            self.teacher,
            self.step,
            self.v,
            self.observed,
            weighted_only=not self.weights.requires_grad,
        )

    def _pseudo_values(self, values: Tensor, weights: Tensor) -> Tensor:
        return pseudo_values(self.problem, values, weights, self.observed.lesson, self.counted)


def by_rates(gradient: Params, step: Step) -> Params:
    """A direction scaled by each parameter's learning rate relative to the highest."""
    rates = {k: -s["lr"] if s["maximize"] else s["lr"] for k, s in step.settings.items()}
    highest = max((abs(rate) for rate in rates.values()), default=0.0)
    if highest == 0.0:  # no parameter moved at all
        rates, highest = {k: -1.0 if step.settings[k]["maximize"] else 1.0 for k in rates}, 1.0
    return {
        k: gradient[k] if rate == highest else gradient[k] * (rate / highest)
        for k, rate in rates.items()
    }


def require_own_weights(
    problem: BilevelProblem,
    teacher: Params,
    lesson: Lesson,
    observation: Observation,
    step: Step,
) -> None:
    """Refuse weights that change with what was sampled for other examples.

    Half of the examples get another one's place, the one of the highest loss and that of the
    lowest; the other half's weights are to stay as they are.
    """
    if not implements(problem.teacher, "weigh") or len(observation.losses) < 2:
        return
    kept = lesson.group < (lesson.group.max() + 1) // 2
    before = _own(problem, teacher, lesson, observation, step, kept)
    for row in (observation.losses.argmax(), observation.losses.argmin()):
        places = torch.arange(len(kept), device=kept.device).where(kept, row)
        other = _rows(lesson, places), _seen(observation, places)
        after = _own(problem, teacher, *other, step, kept)
        rounding = torch.finfo(after.dtype).eps ** 0.5
        if not torch.allclose(after, before, rounding, rounding, equal_nan=True):
            raise UsageError(
                f"{type(problem.teacher).__name__} samples lessons and weighs a row by the "
                "other "
                "rows of its batch, so that an action changes what other examples count, which "
                "no reward of its own tells. Weigh each row by itself, or use NextStepLoss."
            )


def _own(
    problem: BilevelProblem,
    teacher: Params,
    lesson: Lesson,
    observation: Observation,
    step: Step,
    kept: Tensor,
) -> Tensor:
    # the weights of some rows, and the log-probabilities of their examples
    phi, examples = detached(teacher), int(lesson.group[kept].max()) + 1 if kept.any() else 0
    with torch.no_grad():
        weights = problem.weights(phi, lesson, observation, step.batch.seed)
        chosen = problem.log_prob(phi, step, observation, lesson)
    return torch.cat([wide(weights)[kept].flatten(), wide(chosen)[:examples].flatten()])


def _rows(lesson: Lesson, places: Tensor) -> Lesson:
    aux = None if lesson.aux is None else lesson.aux[places]
    inputs, targets, ids = (x[places] for x in lesson[:3])
    return lesson._replace(inputs=inputs, targets=targets, ids=ids, aux=aux)


def _seen(observation: Observation, places: Tensor) -> Observation:
    features = {name: feature[places] for name, feature in observation.features.items()}
    return observation._replace(
        losses=observation.losses[places], logits=observation.logits[places], features=features
    )
