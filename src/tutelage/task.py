"""A student learning under a teacher, as pure functions of both their parameters."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tutelage.differentiable import require_hessian, require_steps_with_derivative
from tutelage.joint import update_jointly
from tutelage.labels import labelled, of_labelled, with_classes
from tutelage.objectives import Objective, logits_of, losses_of, nonzero, weighted_loss
from tutelage.precision import autocast_to
from tutelage.processes import Alone, Processes
from tutelage.randomness import mixed_seed
from tutelage.reached import summed_over
from tutelage.records import (
    Batch,
    Judgement,
    Lesson,
    Observation,
    Params,
    Step,
    StudentState,
)
from tutelage.rules import Rule, rule_for
from tutelage.sights import as_taken, cut, detach, joined
from tutelage.student import StudentView
from tutelage.teaching import (
    acts_at_test,
    grade,
    is_deep,
    log_prob,
    normalise_of,
    prepare,
    taps_of,
    weigh,
)
from tutelage.trees import detached, grads_of_both, leaves, reached_grad, wide

ALONE = Alone()


@dataclass(frozen=True)
class Task:
    """What learning signals differentiate; nothing here changes the user's modules."""

    student: StudentView
    teacher: nn.Module
    objective: Objective
    """see ``tutelage.objectives.Objective``"""
    metric: Objective | None = None
    """what the student is judged by on held-out examples; the objective where None"""
    max_norm: float | None = None
    """norm to which gradients are clipped before the optimiser sees them; None: they are not"""
    processes: Processes = ALONE
    """those that train the student together: losses and derivatives with respect to the teacher
    are shares, which add up over them; what concerns the student is whole in each"""
    micro_batch: int | None = None
    """rows that the student sees at a time; None: all"""

    @property
    def rule(self) -> Rule:
        """The pure update rule of the student's optimiser, clipping included."""
        return rule_for(self.student.optimizer, self.max_norm)

    def lesson(self, teacher: Params, batch: Batch) -> Lesson:
        """What the teacher makes of a batch; the same again for the same seed.

        Args:
            teacher: Teacher parameters.
            batch: The batch as it came.

        Returns:
            The lesson.
        """
        with as_taken(batch, batch.seed):
            return prepare(self.teacher, teacher, batch)

    def observe(
        self, state: StudentState, lesson: Lesson, step: Step
    ) -> tuple[Observation, Params]:
        """Run the student on a lesson, with the dropout of that step.

        Args:
            state: The student.
            lesson: What it sees.
            step: The step whose seed and progress apply.

        Returns:
            The observation, attached to the graph of ``state.params``; the buffers afterwards.
        """
        buffers, seen = state.buffers, []
        for number, part in enumerate(self.parts(lesson)):
            with as_taken(part, self.own(step.batch.seed + 1, number)):
                outputs, features, buffers = self.student.evaluate(
                    state.params, buffers, part.inputs, taps_of(self.teacher)
                )
                losses = losses_of(self.objective, outputs, part)
            seen.append(Observation(losses, logits_of(outputs), features, step.progress))
        return joined(seen), buffers

    def parts(self, lesson: Lesson) -> list[Lesson]:
        """A lesson's rows, as many at a time as the student sees together.

        Args:
            lesson: A lesson.

        Returns:
            At least one; without what is known of examples rather than rows.
        """
        return [lesson] if self.micro_batch is None else cut(lesson, self.micro_batch)

    def weights(self, teacher: Params, lesson: Lesson, seen: Observation, seed: int) -> Tensor:
        """How much each row counts; blind to the student's graph unless the teacher is deep.

        Args:
            teacher: Teacher parameters.
            lesson: What the student saw.
            seen: What its forward pass revealed.
            seed: That of the step's batch.

        Returns:
            Weights [L], before normalisation.
        """
        shown = seen if is_deep(self.teacher) else detach(seen)
        known = labelled(self.objective, lesson.targets)
        with as_taken(lesson, self.own(seed + 2)):
            weights = weigh(self.teacher, teacher, with_classes(lesson, known), shown)
        return of_labelled(weights, known)

    def descended(
        self, teacher: Params, lesson: Lesson, seen: Observation, seed: int
    ) -> Tensor:
        """What the student descends for each row, before weights.

        Args:
            teacher: Teacher parameters.
            lesson: What the student saw.
            seen: What its forward pass revealed, attached to its graph.
            seed: That of the step's batch.

        Returns:
            [L]: the objective's losses, or the teacher's grades.
        """
        known = with_classes(lesson, labelled(self.objective, lesson.targets))
        with as_taken(lesson, self.own(seed + 2)):
            return grade(self.teacher, teacher, known, seen)

    def log_prob(self, teacher: Params, step: Step, seen: Observation) -> Tensor:
        """The log-probability of what the teacher sampled at a step.

        Args:
            teacher: Teacher parameters as they were.
            step: The step.
            seen: What the student's forward pass revealed, detached.

        Returns:
            [B], differentiable in ``teacher``.
        """
        lesson = self.lesson(teacher, step.batch)
        with as_taken(lesson, self.own(step.batch.seed + 2)):
            return log_prob(self.teacher, teacher, lesson, seen)

    def reduce(self, values: Tensor, weights: Tensor, lesson: Lesson) -> Tensor:
        """The weighted loss, or the same reduction of any other quantity per row.

        Args:
            values: One number per row [L].
            weights: One weight per row [L].
            lesson: The lesson the rows belong to.

        Returns:
            A scalar, linear in ``values``.
        """
        rule, total = normalise_of(self.teacher), self.processes.total
        return weighted_loss(values, weights, lesson.group, rule, total)

    def own(self, seed: int, part: int = 0) -> int:
        """A seed that no two processes or micro-batches share, since they have other rows.

        Args:
            seed: What is the same in all of them.
            part: Which of a lesson's parts.

        Returns:
            This one's.
        """
        place = self.processes.rank, part
        return seed if place == (0, 0) else mixed_seed(seed, *place)

    def taught_loss(
        self, state: StudentState, teacher: Params, step: Step
    ) -> tuple[Tensor, Params]:
        """The loss that the student descends at a step.

        Args:
            state: The student before the step.
            teacher: Teacher parameters.
            step: The step.

        Returns:
            A scalar, differentiable in both; the student's buffers afterwards.
        """
        lesson = self.lesson(teacher, step.batch)
        seen, buffers = self.observe(state, lesson, step)
        weights = self.weights(teacher, lesson, seen, step.batch.seed)
        losses = self.descended(teacher, lesson, seen, step.batch.seed)
        return self.reduce(losses, weights, lesson), buffers

    def advance(self, state: StudentState, teacher: Params, step: Step) -> StudentState:
        """Take one differentiable student step.

        Args:
            state: The student; its parameters must require grad.
            teacher: Teacher parameters.
            step: The step.

        Returns:
            The student afterwards, attached to the graph of ``state`` and ``teacher``.
        """
        # tensors of this step's own: one that it leaves alone must not lead into earlier steps
        self.student.require(require_steps_with_derivative)
        self.student.require(require_hessian)
        own = {name: p.view_as(p) for name, p in state.params.items()}
        state = state._replace(params=own)
        loss, buffers = self.taught_loss(state, teacher, step)
        moved = {name: state.params[name] for name in step.settings}
        with autocast_to(step.batch.autocast, loss.device):
            own_grads = reached_grad(loss, moved, create_graph=True)
            self.student.require_second_derivatives(own_grads)
            grads = summed_over(self.processes, own_grads, moved)
        return update_jointly(self.rule, state, grads, step.settings)._replace(buffers=buffers)

    def gradient(
        self, state: StudentState, teacher: Params, step: Step
    ) -> tuple[Params, Params]:
        """The gradient that the student's optimiser sees at a step.

        Args:
            state: The student before it.
            teacher: Teacher parameters.
            step: The step.

        Returns:
            The gradient, detached, for the parameters that the step moves and the loss reaches;
            the student's buffers afterwards.
        """
        theta = leaves(state.params)
        loss, buffers = self.taught_loss(state._replace(params=theta), detached(teacher), step)
        moved = {name: theta[name] for name in step.settings}
        with autocast_to(step.batch.autocast, loss.device):
            return summed_over(self.processes, reached_grad(loss, moved), moved), buffers

    def take(self, state: StudentState, teacher: Params, step: Step) -> StudentState:
        """Take one student step, keeping no graph.

        Args:
            state: The student.
            teacher: Teacher parameters.
            step: The step.

        Returns:
            The student afterwards; bit for bit the same again for the same arguments.
        """
        grads, buffers = self.gradient(state, teacher, step)
        with torch.no_grad():
            return update_jointly(self.rule, state, grads, step.settings)._replace(
                buffers=buffers
            )

    def held_out_loss(self, state: StudentState, teacher: Params, held_out: Batch) -> Tensor:
        """The mean metric on held-out examples, unweighted and without auxiliary targets.

        Of several processes' examples: this one's share of the mean.

        Args:
            state: The student.
            teacher: Teacher parameters; they matter where the teacher acts at test.
            held_out: The batch that judges.

        Returns:
            A scalar.
        """
        lesson = self.lesson(teacher, held_out) if acts_at_test(self.teacher) else held_out
        with as_taken(held_out, self.own(held_out.seed + 1)):
            out, _, _ = self.student.evaluate(state.params, state.buffers, lesson.inputs, ())
            known = labelled(self.objective, lesson.targets)
            found = (self.metric or self.objective)(out, with_classes(lesson, known).targets)
        found = wide(found)  # half precision counts to 256, or 2048
        rows = found.new_full((), found.numel()) if known is None else known.sum().to(found)
        return of_labelled(found, known).sum() / nonzero(self.processes.total(rows))

    def judge(self, state: StudentState, teacher: Params, held_out: Batch) -> Judgement:
        """The held-out loss with its gradients.

        Args:
            state: The student.
            teacher: Teacher parameters, requiring grad.
            held_out: The batch that judges.

        Returns:
            The verdict: of several processes, all but the teacher's gradient is of all.
        """
        theta = leaves(state.params)
        loss = self.held_out_loss(state._replace(params=theta), teacher, held_out)
        student, own = grads_of_both(loss, theta, teacher)
        everywhere = self.processes
        return Judgement(everywhere.total(loss.detach()), everywhere.summed(student), own)
