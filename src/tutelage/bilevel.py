"""``BilevelProblem``: student and teacher as pure functions of both parameters."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from tutelage.distributed.groups import ALONE, Processes, shared_by
from tutelage.distributed.reduce import all_reduce_gradients
from tutelage.functional.differentiable import require_hessian, require_steps_with_derivative
from tutelage.functional.flat_params import update_jointly
from tutelage.functional.module_state import attributes_kept, state_kept
from tutelage.functional.optim import UpdateRule, rule_for
from tutelage.functional.replay_context import (
    clone_rows,
    concatenate_observations,
    detach,
    replay_context,
    split_rows,
)
from tutelage.functional.student import StudentView
from tutelage.functional.trees import detached, grads_of_both, leaves, reached_grad
from tutelage.losses.objectives import Objective, logits_of, losses_of, weighted_loss
from tutelage.losses.reduction import counted_mean, counts_of, held_out_counts
from tutelage.losses.targets import apply_to_labelled, with_classes
from tutelage.precision import autocast_to, upcast
from tutelage.randomness import mixed_seed
from tutelage.teacher import acts_at_test, implements, normalise_of, taps_of, weights_attached
from tutelage.teachers.hook_calls import prepare, row_losses, weigh
from tutelage.types import (
    Batch,
    HeldOutLoss,
    Observation,
    Params,
    PreparedBatch,
    Step,
    StudentState,
    as_prepared,
)


@dataclass(frozen=True)
class BilevelProblem:
    """Training and held-out loss as functions of student and teacher parameters."""

    student: StudentView
    teacher: nn.Module
    objective: Objective
    """see ``tutelage.losses.objectives.Objective``"""
    metric: Objective | None = None
    """loss of held-out examples; the objective where None"""
    max_norm: float | None = None
    """norm to which gradients are clipped before the optimiser sees them; None: they are not"""
    processes: Processes = ALONE
    """those that train the student together: losses and derivatives with respect to the teacher
    are summands, one of each process; the student and its gradient are complete in each"""
    micro_batch: int | None = None
    """rows that the student sees at a time; None: all"""

    @property
    def rule(self) -> UpdateRule:
        """The update rule of the student's optimiser, clipping included."""
        return rule_for(self.student.optimizer, self.max_norm)

    def prepare(self, teacher_params: Params, batch: Batch) -> PreparedBatch:
        """What the teacher prepares of a batch, by the batch's seed."""
        if implements(self.teacher, "prepare"):
            batch = clone_rows(batch)
        with replay_context(batch, batch.seed):
            return prepare(self.teacher, teacher_params, batch)

    def observe(
        self, state: StudentState, prepared: PreparedBatch, step: Step
    ) -> tuple[Observation, Params]:
        """Losses and outputs of the student on a prepared batch, and its buffers after."""
        buffers, observation = state.buffers, []
        for number, rows in enumerate(self.micro_batches(prepared)):
            part, seed = clone_rows(rows), self.local_seed(step.batch.seed + 1, number)
            with replay_context(part, seed), attributes_kept(self.student.module):
                outputs, features, buffers = self.student.evaluate(
                    state.params, buffers, part.inputs, taps_of(self.teacher)
                )
                with state_kept(self.objective):  # a real step alone changes it
                    losses = losses_of(self.objective, outputs, part)
            observation.append(Observation(losses, logits_of(outputs), features, step.progress))
        return concatenate_observations(observation), buffers

    def micro_batches(self, prepared: PreparedBatch) -> list[PreparedBatch]:
        """Split a prepared batch into the rows of each forward pass."""
        most = self.micro_batch
        return [prepared] if most is None else split_rows(prepared, most)

    def teacher_observation(
        self, state: StudentState, prepared: PreparedBatch, step: Step, observation: Observation
    ) -> Observation:
        """What ``weigh`` sees, detached from the student unless weights are attached.

        It keeps the path from what the teacher has prepared, through the student as it is.
        """
        if weights_attached(self.teacher):
            return observation
        made = prepared.inputs, prepared.targets, prepared.aux
        followed = any(part is not None and part.requires_grad for part in made)
        if not followed or not implements(self.teacher, "weigh"):
            return detach(observation)
        return self.observe(state._replace(params=detached(state.params)), prepared, step)[0]

    def weights(
        self,
        teacher_params: Params,
        prepared: PreparedBatch,
        observation: Observation,
        seed: int,
        *,
        attached: bool = False,
        buffers_out: Params | None = None,
    ) -> Tensor:
        """Weights [L] of the rows, detached from the student unless the teacher is attached."""
        keeps_graph = attached or weights_attached(self.teacher)
        visible = observation if keeps_graph else detach(observation)
        counts = counts_of(self.objective, prepared.targets)
        if not implements(self.teacher, "weigh"):
            ones = torch.ones_like(visible.losses)
            return ones if counts is None else ones.where(counts > 0, 0)
        with replay_context(prepared, self.local_seed(seed + 2)), shared_by(self.processes):
            own = partial(weigh, self.teacher, teacher_params, buffers_out=buffers_out)
            return apply_to_labelled(own, prepared, visible, counts)

    def row_losses(
        self,
        teacher_params: Params,
        prepared: PreparedBatch,
        observation: Observation,
        seed: int,
        buffers_out: Params | None = None,
    ) -> Tensor:
        """Losses [L] that the student minimises, before weighting."""
        if not implements(self.teacher, "row_losses"):
            return observation.losses
        counts = counts_of(self.objective, prepared.targets)
        with replay_context(prepared, self.local_seed(seed + 2)), shared_by(self.processes):
            own = partial(row_losses, self.teacher, teacher_params, buffers_out=buffers_out)
            return apply_to_labelled(own, prepared, observation, counts)

    def reduce(self, values: Tensor, weights: Tensor, prepared: PreparedBatch) -> Tensor:
        """Reduce values of the rows as the weighted loss reduces losses."""
        rule, total = normalise_of(self.teacher), self.processes.all_reduce
        counts = counts_of(self.objective, prepared.targets)
        return weighted_loss(values, weights, prepared.group, rule, total, counts)

    def local_seed(self, seed: int, part: int = 0) -> int:
        """A seed of this process and micro-batch."""
        place = self.processes.rank, part
        return seed if place == (0, 0) else mixed_seed(seed, *place)

    def training_loss(
        self, state: StudentState, teacher_params: Params, step: Step
    ) -> tuple[Tensor, Params]:
        """The weighted training loss of a step, and the student's buffers after it."""
        prepared = self.prepare(teacher_params, step.batch)
        observation, buffers = self.observe(state, prepared, step)
        visible = self.teacher_observation(state, prepared, step, observation)
        weights = self.weights(
            teacher_params, prepared, visible, step.batch.seed, attached=True
        )
        losses = self.row_losses(teacher_params, prepared, observation, step.batch.seed)
        return self.reduce(losses, weights, prepared), buffers

    def differentiable_step(
        self, state: StudentState, teacher_params: Params, step: Step
    ) -> StudentState:
        """One student step, differentiable in state and teacher."""
        # tensors of this step's own: one that it leaves alone must not lead into earlier steps
        self.student.require(require_steps_with_derivative)
        self.student.require(require_hessian)
        own = {name: p.view_as(p) for name, p in state.params.items()}
        state = state._replace(params=own)
        loss, buffers = self.training_loss(state, teacher_params, step)
        moved = {name: state.params[name] for name in step.settings}
        with autocast_to(step.batch.autocast, loss.device):
            own_grads = reached_grad(loss, moved, create_graph=True)
            self.student.require_second_derivatives(own_grads)
            grads = all_reduce_gradients(self.processes, own_grads, moved)
        return update_jointly(self.rule, state, grads, step.settings)._replace(buffers=buffers)

    def gradient(
        self, state: StudentState, teacher_params: Params, step: Step
    ) -> tuple[Params, Params]:
        """The gradient that the optimiser uses at a step, and the buffers after it."""
        theta = leaves(state.params)
        loss, buffers = self.training_loss(
            state._replace(params=theta), detached(teacher_params), step
        )
        moved = {name: theta[name] for name in step.settings}
        with autocast_to(step.batch.autocast, loss.device):
            return all_reduce_gradients(
                self.processes, reached_grad(loss, moved), moved
            ), buffers

    def step(self, state: StudentState, teacher_params: Params, step: Step) -> StudentState:
        """One student step without a graph."""
        return self.step_with_settings(state, teacher_params, step)[0]

    def step_with_settings(
        self, state: StudentState, teacher_params: Params, step: Step
    ) -> tuple[StudentState, Step]:
        """One student step, and the step with only those parameters that its loss reaches."""
        grads, buffers = self.gradient(state, teacher_params, step)
        with torch.no_grad():
            after = update_jointly(self.rule, state, grads, step.settings)
        return after._replace(buffers=buffers), step.moving(grads.keys())

    def held_out_loss(
        self, state: StudentState, teacher_params: Params, held_out: Batch
    ) -> Tensor:
        """Mean metric of held-out examples, unweighted and without auxiliary targets.

        Of several processes' examples: this one's share of the mean.
        """
        visible = (
            self.prepare(teacher_params, held_out) if acts_at_test(self.teacher) else held_out
        )
        prepared, seed = clone_rows(visible), self.local_seed(held_out.seed + 1)
        metric = self.metric or self.objective
        counts = held_out_counts(self.objective, self.metric, prepared.targets)
        rows = as_prepared(held_out)._replace(inputs=prepared.inputs, targets=prepared.targets)
        if self.metric is not None:
            rows = with_classes(rows, counts_of(self.objective, prepared.targets))
        with replay_context(held_out, seed), attributes_kept(self.student.module):
            out, _, _ = self.student.evaluate(state.params, state.buffers, prepared.inputs, ())
            with state_kept(metric):
                found = losses_of(metric, out, rows)
        return counted_mean(
            upcast(found), counts, self.processes.all_reduce
        )  # half counts to 256

    def held_out_gradients(
        self,
        state: StudentState,
        teacher_params: Params,
        held_out: Batch,
        names: Collection[str] | None = None,
    ) -> HeldOutLoss:
        """The held-out loss with its gradients in the teacher and in some student parameters.

        ``names`` None: in all of them.
        """
        theta = leaves({k: p for k, p in state.params.items() if names is None or k in names})
        loss = self.held_out_loss(
            state._replace(params=detached(state.params) | theta), teacher_params, held_out
        )
        student, own = grads_of_both(loss, theta, teacher_params)
        processes = self.processes
        return HeldOutLoss(
            processes.all_reduce(loss.detach()), processes.all_reduce_params(student), own
        )
