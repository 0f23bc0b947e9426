"""One step ahead: a network that weighs examples by their losses (Meta-Weight-Net).

ResNet-20, training and held-out batches of 64, SGD of rate 0.05, weights by a network 1-100-1.
One iteration: the hypergradient through a step, Adam's step of the teacher, the student's real
step under the new weights. The unit is one plain SGD step.
"""

import logging
from collections.abc import Callable
from importlib import import_module

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks.command import size
from benchmarks.hypergradients.measure import Once
from benchmarks.hypergradients.students import Norm, resnet20

RATE = 0.05
ROWS, PIXELS = size(64, 3), size(32, 8)


class Iteration:
    """Student, weight network, their optimisers and two batches, drawn from fixed seeds."""

    def __init__(self, norm: Norm, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.student = resnet20(norm).to(dtype)
        self.weigher = nn.Sequential(
            nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, 1), nn.Sigmoid(), nn.Flatten(0)
        ).to(dtype)
        self.inputs = torch.randn(ROWS, 3, PIXELS, PIXELS).to(dtype)
        self.held_inputs = torch.randn(ROWS, 3, PIXELS, PIXELS).to(dtype)
        self.targets, self.held_targets = torch.randint(10, (2, ROWS))
        self.phi = list(self.weigher.parameters())
        self.learner = torch.optim.Adam(self.phi, 1e-3)

    def losses(self, student: Callable[[Tensor], Tensor]) -> Tensor:
        """The training losses.

        Args:
            student: The student, as a library calls it.

        Returns:
            One per example.
        """
        return F.cross_entropy(student(self.inputs), self.targets, reduction="none")

    def taught_loss(self, student: Callable[[Tensor], Tensor]) -> Tensor:
        """The weighted training loss.

        Args:
            student: The student, as a library calls it.

        Returns:
            A scalar.
        """
        losses = self.losses(student)
        return (self.weigher(losses.detach()[:, None]) * losses).mean()

    def held_out_loss(self, student: Callable[[Tensor], Tensor]) -> Tensor:
        """The loss that judges.

        Args:
            student: The student, as a library calls it.

        Returns:
            A scalar.
        """
        return F.cross_entropy(student(self.held_inputs), self.held_targets)

    def finish(self, judged: Tensor) -> Tensor:
        """Take the teacher's step.

        Args:
            judged: The held-out loss after the step ahead.

        Returns:
            The hypergradient, flat.
        """
        found = torch.autograd.grad(judged, self.phi)
        for p, g in zip(self.phi, found, strict=True):
            p.grad = g
        self.learner.step()
        return torch.cat([g.flatten() for g in found])

    def real_step(self) -> None:
        """Take the student's step under the weights as they are now."""
        # torchopt leaves plain tensors in place of the student's parameters
        theta = list(self.student.parameters())
        losses = self.losses(self.student)
        with torch.no_grad():
            weights = self.weigher(losses[:, None])
        grads = torch.autograd.grad((weights * losses).mean(), theta)
        with torch.no_grad():
            for p, g in zip(theta, grads, strict=True):
                p.add_(g, alpha=-RATE)


def plain(norm: Norm, dtype: torch.dtype) -> Once:
    """A step of SGD on the unweighted loss.

    Args:
        norm: The student's.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    it = Iteration(norm, dtype)
    optimizer = torch.optim.SGD(it.student.parameters(), RATE)

    def once() -> None:
        optimizer.zero_grad()
        it.losses(it.student).mean().backward()
        optimizer.step()

    return once


def by_hand(norm: Norm, dtype: torch.dtype) -> Once:
    """Double backward in plain torch; the reference.

    Args:
        norm: The student's.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    it = Iteration(norm, dtype)
    named = dict(it.student.named_parameters())

    def once() -> Tensor:
        loss = it.taught_loss(it.student)
        grads = torch.autograd.grad(loss, list(named.values()), create_graph=True)
        ahead = {k: p - RATE * g for (k, p), g in zip(named.items(), grads, strict=True)}
        found = it.finish(it.held_out_loss(lambda x: functional_call(it.student, ahead, (x,))))
        del loss, grads, ahead
        it.real_step()
        return found

    return once


def with_higher(norm: Norm, dtype: torch.dtype) -> Once:
    """The peer ``higher``.

    Args:
        norm: The student's.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    higher, it = import_module("higher"), Iteration(norm, dtype)
    optimizer = torch.optim.SGD(it.student.parameters(), RATE)

    def once() -> Tensor:
        with higher.innerloop_ctx(it.student, optimizer) as (student, differentiable):
            differentiable.step(it.taught_loss(student))
            found = it.finish(it.held_out_loss(student))
        del student, differentiable
        it.real_step()
        return found

    return once


def with_torchopt(norm: Norm, dtype: torch.dtype) -> Once:
    """The peer ``torchopt``, MetaSGD.

    Args:
        norm: The student's.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    torchopt, it = import_module("torchopt"), Iteration(norm, dtype)
    optimizer = torchopt.MetaSGD(it.student, lr=RATE)

    def once() -> Tensor:
        student = torchopt.extract_state_dict(it.student)
        memory = torchopt.extract_state_dict(optimizer)
        optimizer.step(it.taught_loss(it.student))
        found = it.finish(it.held_out_loss(it.student))
        torchopt.recover_state_dict(it.student, student)
        torchopt.recover_state_dict(optimizer, memory)
        it.real_step()
        return found

    return once


def with_betty(norm: Norm, dtype: torch.dtype) -> Once:
    """The peer ``betty``, with its default for one step: differences of gradients (darts).

    It takes no second step: the teacher's new weights count from the next iteration on.

    Args:
        norm: The student's.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    configs, engine = import_module("betty.configs"), import_module("betty.engine")
    problems = import_module("betty.problems")
    logging.disable(logging.CRITICAL)
    it, found = Iteration(norm, dtype), []

    class Outer(problems.ImplicitProblem):
        def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            return F.cross_entropy(self.inner(batch[0]), batch[1])

        def param_callback(self, params: list[Tensor]) -> None:
            found[:] = [p.grad.clone() for p in params if p.grad is not None]

    class Inner(problems.ImplicitProblem):
        def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            losses = F.cross_entropy(self.module(batch[0]), batch[1], reduction="none")
            return (self.outer(losses.detach()[:, None]) * losses).mean()

    outer = Outer(
        name="outer",
        module=it.weigher,
        optimizer=it.learner,
        train_data_loader=[(it.held_inputs, it.held_targets)],
        config=configs.Config(log_step=-1),
    )
    inner = Inner(
        name="inner",
        module=it.student,
        optimizer=torch.optim.SGD(it.student.parameters(), RATE),
        train_data_loader=[(it.inputs, it.targets)],
        config=configs.Config(type="darts", unroll_steps=1, log_step=-1),
    )
    both = engine.Engine(
        config=configs.EngineConfig(train_iters=1, valid_step=10**9),
        problems=[outer, inner],
        dependencies={"u2l": {outer: [inner]}, "l2u": {inner: [outer]}},
    )

    def once() -> Tensor:
        both.run()
        return RATE * torch.cat([g.flatten() for g in found])  # it leaves the rate out

    return once
