"""Training steps, each taught in another way, as something to measure."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adam, Optimizer

from papers.framework.cost import Once
from tutelage.models.catalogue import build_student
from tutelage.randomness import mixed_seed
from tutelage.signals import GradientAlignment, Lookahead
from tutelage.signals.products import Alignment
from tutelage.teachers import LossWeigher, SplitSampler
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Params

CLASSES, PARTS = 10, 10


class Material(NamedTuple):
    """What a step needs, the same for all."""

    student: nn.Module
    optimizer: Optimizer
    batches: Iterator[Batch]
    """without end"""


def material(name: str, size: int, seed: int, device: torch.device) -> Material:
    """A student and random images: what they show makes no difference to what a step costs."""
    made = build_student(name, classes=CLASSES, channels=3, size=32, seed=mixed_seed(seed, 0))
    student, draws = made.to(device), torch.Generator().manual_seed(mixed_seed(seed, 1))
    rule = SGD(student.parameters(), 0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    batches = []
    for _ in range(3):
        images = torch.randn(size, 3, 32, 32, generator=draws)
        labels = torch.randint(CLASSES, (size,), generator=draws)
        rows = torch.randint(size * PARTS, (size,), generator=draws)
        batches.append(Batch(images.to(device), labels.to(device), rows.to(device)))
    return Material(student, rule, cycle(batches))


def _losses(student: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
    return F.cross_entropy(student(batch.inputs), batch.targets, reduction="none")


def _step(of: Material) -> None:
    of.optimizer.zero_grad(set_to_none=True)
    _losses(of.student, next(of.batches)).mean().backward()
    of.optimizer.step()


def plain(of: Material) -> Once:
    """A step without a teacher; the unit."""
    return partial(_step, of)


def rewarded(method: Alignment, of: Material) -> Once:
    """A step that gives the rewards of the step before, and teaches a sampler by them."""
    device = next(of.student.parameters()).device
    sampler = SplitSampler([len(next(of.batches).ids)] * PARTS).to(device)
    learner = Adam(sampler.parameters(), 0.1)
    signal = GradientAlignment(method)
    tutor = Tutor(of.student, of.optimizer, sampler, learner, signal=signal)
    return lambda: tutor.step(next(of.batches))


def looked_ahead(signal: Lookahead, of: Material) -> Once:
    """A step whose examples are weighed by a network that learns one step ahead, exactly."""
    weigher = LossWeigher().to(next(of.student.parameters()).device)
    learner = Adam(weigher.parameters(), 1e-3)
    tutor = Tutor(of.student, of.optimizer, weigher, learner, signal=signal)
    return lambda: tutor.step(next(of.batches), _held_out(tutor, of))


def _held_out(tutor: Tutor, of: Material) -> Batch | None:
    return next(of.batches) if tutor.wants_held_out else None


def chain_rule(of: Material) -> Once:
    """The direct meta-gradient of the weights 1, written out in plain torch.

    The step's gradient keeps its graph and is multiplied by the next step's gradient:
    ``d <grad L_t(w), grad L_{t+1}> / d w``.
    """
    kept: list[tuple[Tensor, list[Tensor]]] = []

    def once() -> None:
        batch, own = next(of.batches), dict(of.student.named_parameters())
        # copies, since the graph outlives the step that changes the parameters in place
        theta: Params = {k: p.detach().clone().requires_grad_() for k, p in own.items()}
        losses = _losses(lambda x: functional_call(of.student, theta, (x,)), batch)
        w = torch.ones_like(losses, requires_grad=True)
        g = list(
            torch.autograd.grad((w * losses).mean(), list(theta.values()), None, None, True)
        )
        detached = [x.detach() for x in g]
        if kept:
            weights, before = kept.pop()
            torch.autograd.grad(before, weights, detached)
        kept.append((w, g))
        for p, x in zip(own.values(), detached, strict=True):
            p.grad = x
        of.optimizer.step()

    return once


def with_higher(of: Material) -> Once:
    """The same by the library ``higher``: the next batch's loss after a step that is tried."""
    higher = import_module("higher")

    def once() -> None:
        batch, after = next(of.batches), next(of.batches)
        with higher.innerloop_ctx(of.student, of.optimizer) as (student, differentiable):
            losses = _losses(student, batch)
            w = torch.ones_like(losses, requires_grad=True)
            differentiable.step((w * losses).mean())
            torch.autograd.grad(_losses(student, after).mean(), w)
        del student, differentiable, losses
        _step(of)

    return once


HIGHER = find_spec("higher") is not None
WAYS: Mapping[str, Callable[[Material], Once]] = {
    "ghost": partial(rewarded, Alignment("ghost")),
    "forward": partial(rewarded, Alignment("forward")),
    "difference": partial(rewarded, Alignment("difference")),
    "lookahead-next": partial(looked_ahead, Lookahead(judge="next")),
    "lookahead-online": partial(looked_ahead, Lookahead()),
    "lookahead-restep": partial(looked_ahead, Lookahead(mode="restep")),
    "chain-rule": chain_rule,
    **({"higher": with_higher} if HIGHER else {}),
}
