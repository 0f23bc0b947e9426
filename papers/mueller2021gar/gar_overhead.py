"""Cost of a gradient-alignment reward and of direct meta-gradients, in plain steps.

Müller et al. 2021, sections 3 and 4: less than 25% more time and 80% more memory against 6.4
times the time and 2.7 to 3.1 times the memory. Figures: ``docs/results.md``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle
from statistics import median
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adam, Optimizer

from papers.framework.cost import Once, interleaved, peak_bytes
from papers.framework.recipe import Outcome, Recipe, expectation
from papers.framework.settings import RecipeSettings
from tutelage.models.catalogue import build_student
from tutelage.randomness import mixed_seed
from tutelage.signals import GradientAlignment, Lookahead
from tutelage.signals.products import Alignment
from tutelage.teachers import LossWeigher, SplitSampler
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Params
from tutelage_cli.claims import Claim, Comparison

CLASSES, SPLITS = 10, 10


class Material(NamedTuple):
    """Student, optimiser and batches, the same for all methods."""

    student: nn.Module
    optimizer: Optimizer
    batches: Iterator[Batch]  # without end


def material(name: str, size: int, seed: int, device: torch.device) -> Material:
    """A student and random images, whose content does not change the cost of a step."""
    made = build_student(name, classes=CLASSES, channels=3, size=32, seed=mixed_seed(seed, 0))
    student, draws = made.to(device), torch.Generator().manual_seed(mixed_seed(seed, 1))
    rule = SGD(student.parameters(), 0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    batches = []
    for _ in range(3):
        images = torch.randn(size, 3, 32, 32, generator=draws)
        labels = torch.randint(CLASSES, (size,), generator=draws)
        rows = torch.randint(size * SPLITS, (size,), generator=draws)
        batches.append(Batch(images.to(device), labels.to(device), rows.to(device)))
    return Material(student, rule, cycle(batches))


def _losses(student: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
    return F.cross_entropy(student(batch.inputs), batch.targets, reduction="none")


def _step(material: Material) -> None:
    material.optimizer.zero_grad(set_to_none=True)
    _losses(material.student, next(material.batches)).mean().backward()
    material.optimizer.step()


def plain(material: Material) -> Once:
    """A step without a teacher; the unit."""
    return partial(_step, material)


def rewarded(method: Alignment, material: Material) -> Once:
    """A step that computes the rewards of the previous step, and trains a sampler on them."""
    device = next(material.student.parameters()).device
    sampler = SplitSampler([len(next(material.batches).ids)] * SPLITS).to(device)
    learner = Adam(sampler.parameters(), 0.1)
    signal = GradientAlignment(method)
    tutor = Tutor(material.student, material.optimizer, sampler, learner, signal=signal)
    return lambda: tutor.step(next(material.batches))


def looked_ahead(signal: Lookahead, material: Material) -> Once:
    """A step whose examples are weighted by a network trained by exact one-step lookahead."""
    weigher = LossWeigher().to(next(material.student.parameters()).device)
    learner = Adam(weigher.parameters(), 1e-3)
    tutor = Tutor(material.student, material.optimizer, weigher, learner, signal=signal)

    def once() -> None:
        batch = next(material.batches)
        tutor.step(batch, next(material.batches) if tutor.wants_held_out else None)

    return once


def chain_rule(material: Material) -> Once:
    """The direct meta-gradient of the weights 1, written out in plain torch.

    The step's gradient keeps its graph and is multiplied by the next step's gradient:
    ``d <grad L_t(w), grad L_{t+1}> / d w``.
    """
    kept: list[tuple[Tensor, list[Tensor]]] = []

    def once() -> None:
        batch, own = next(material.batches), dict(material.student.named_parameters())
        # copies, since the graph outlives the step that changes the parameters in place
        theta: Params = {k: p.detach().clone().requires_grad_() for k, p in own.items()}
        losses = _losses(lambda x: functional_call(material.student, theta, (x,)), batch)
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
        material.optimizer.step()

    return once


def with_higher(material: Material) -> Once:
    """The same by the library ``higher``: the next batch's loss after a tentative step."""
    higher = import_module("higher")

    def once() -> None:
        batch, after = next(material.batches), next(material.batches)
        with higher.innerloop_ctx(material.student, material.optimizer) as (
            student,
            differentiable,
        ):
            losses = _losses(student, batch)
            w = torch.ones_like(losses, requires_grad=True)
            differentiable.step((w * losses).mean())
            torch.autograd.grad(_losses(student, after).mean(), w)
        del student, differentiable, losses
        _step(material)

    return once


HIGHER = find_spec("higher") is not None
METHODS: Mapping[str, Callable[[Material], Once]] = {
    "ghost": partial(rewarded, Alignment("ghost")),
    "forward": partial(rewarded, Alignment("forward")),
    "difference": partial(rewarded, Alignment("difference")),
    "lookahead-next": partial(looked_ahead, Lookahead(evaluate_on="next")),
    "lookahead-online": partial(looked_ahead, Lookahead()),
    "lookahead-restep": partial(looked_ahead, Lookahead(mode="restep")),
    "chain-rule": chain_rule,
    **({"higher": with_higher} if HIGHER else {}),
}


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's."""

    depth: int = 28  # of the wide ResNet
    widen: int = 10  # of the wide ResNet
    batch: int = 128  # images per step
    rounds: int = 9  # times that a plain step and a step of the arm are taken in alternation


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Measure an arm and plain steps in one process."""
    name = f"wrn-{settings.depth}-{settings.widen}"
    methods: dict[str, Callable[[], Once]] = {
        k: lambda method=method: method(material(name, settings.batch, seed, device))
        for k, method in {"plain": plain, arm: METHODS[arm]}.items()
    }
    ready = {k: build() for k, build in methods.items()}
    for once in (*ready.values(), *ready.values()):
        once()
    times = interleaved(ready, settings.rounds, device)
    ready.clear()
    peaks = {k: peak_bytes(build, device) for k, build in methods.items()}
    slower = median(a / b for a, b in zip(times[arm], times["plain"], strict=True))
    return Outcome({"time": slower, "memory": peaks[arm] / peaks["plain"]})


def _cheaper(arm: str, than: str, *, time: float, memory: float) -> tuple[Comparison, ...]:
    return (
        Comparison((arm, "time"), "below", (than, "time"), margin=time),
        Comparison((arm, "memory"), "below", (than, "memory"), margin=memory),
    )


DIRECT = ("chain-rule", *(("higher",) if HIGHER else ()))
ROWS = {"chain-rule": "reused-gradient chain rule", "higher": "higher"}
"""what the paper calls the direct meta-gradients"""

RECIPE = Recipe(
    name="gar-overhead",
    title="Gradient-alignment rewards cost little, direct meta-gradients several plain steps.",
    paper="gar",
    where="Sections 3 and 4, cost",
    arms=tuple(METHODS),
    metrics={
        "time": "time of a step, relative to a plain step",
        "memory": "peak memory, relative to plain steps",
    },
    settings={
        "smoke": Settings(depth=10, widen=1, batch=4, rounds=1),
        "mini": Settings(depth=16, widen=2, batch=16, rounds=5),
        "gpu": Settings(),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 4, "gpu": 2, "paper": 2},
    run=run,
    repeatable=False,
    claims=(
        Claim(
            "Computed from the step's own forward and backward pass, a reward adds less than "
            "25% to the time of a step and less than 80% to its memory.",
            (
                Comparison(("ghost", "time"), "below", 1.25),
                Comparison(("ghost", "memory"), "below", 1.8),
            ),
        ),
        Claim(
            "A direct meta-gradient takes longer than a reward by more than one plain step, "
            "and more memory by more than half of what plain steps need.",
            tuple(c for arm in DIRECT for c in _cheaper("ghost", arm, time=1.0, memory=0.5)),
        ),
        expectation(
            "One-step lookahead by dot products gives the meta-gradient of the weights in "
            "less time and memory than the chain rule, which keeps the graph of the gradient.",
            _cheaper("lookahead-next", "chain-rule", time=0.0, memory=0.0),
        ),
    ),
    table="Sec 3-4 cost (WRN-28-10, P100)",
    printed={
        **{(arm, "memory"): (ROWS[arm], "memory") for arm in DIRECT},
        **{(arm, "time"): ("both", "step time") for arm in DIRECT},
    },
)
