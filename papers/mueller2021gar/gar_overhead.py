"""What a gradient-alignment reward costs beside direct meta-gradients, in plain steps.

Müller et al. 2021, sections 3 and 4: less than 25% more time and 80% more memory against 6.4
times the time and 2.7 to 3.1 times the memory. Figures: ``docs/results.md``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from papers.framework.cost import Once, interleaved, peak_bytes
from papers.framework.recipe import Outcome, Recipe
from papers.mueller2021gar.taught_steps import HIGHER, WAYS, material, plain
from tutelage.validation.ranges import at_least_one
from tutelage_cli.claims import Claim, Comparison


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's."""

    depth: int = 28
    """of the wide ResNet"""
    widen: int = 10
    """of the wide ResNet"""
    batch: int = 128
    """images per step"""
    rounds: int = 9
    """times that a plain step and the arm's are taken in turn"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data; ``UsageError`` where a value is wrong."""
        at_least_one(self, "depth", "widen", "batch", "rounds")


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Measure an arm beside plain steps, in one process."""
    name = f"wrn-{settings.depth}-{settings.widen}"
    ways: dict[str, Callable[[], Once]] = {
        k: lambda way=way: way(material(name, settings.batch, seed, device))
        for k, way in {"plain": plain, arm: WAYS[arm]}.items()
    }
    ready = {k: build() for k, build in ways.items()}
    for once in (*ready.values(), *ready.values()):
        once()
    times = interleaved(ready, settings.rounds, device)
    ready.clear()
    peaks = {k: peak_bytes(build, device) for k, build in ways.items()}
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
    title="A reward by gradient alignment costs little, a direct meta-gradient several steps.",
    paper="gar",
    where="Sections 3 and 4, cost",
    arms=tuple(WAYS),
    metrics={
        "time": "of a step, in plain steps",
        "memory": "peak, in that of plain steps",
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
            "Read off the step's own passes, a reward adds less than 25% to the time of a step "
            "and less than 80% to its memory.",
            (
                Comparison(("ghost", "time"), "below", 1.25),
                Comparison(("ghost", "memory"), "below", 1.8),
            ),
        ),
        Claim(
            "A direct meta-gradient takes longer by more than a plain step, and more memory by "
            "half of what plain steps need.",
            tuple(c for arm in DIRECT for c in _cheaper("ghost", arm, time=1.0, memory=0.5)),
        ),
        Claim(
            "Looking one step ahead by dot products gives the weights' meta-gradient in less "
            "time and memory than the chain rule that keeps the gradient's graph.",
            _cheaper("lookahead-next", "chain-rule", time=0.0, memory=0.0),
            of_paper=False,
        ),
    ),
    table="Sec 3-4 cost (WRN-28-10, P100)",
    printed={
        **{(arm, "memory"): (ROWS[arm], "memory") for arm in DIRECT},
        **{(arm, "time"): ("both", "step time") for arm in DIRECT},
    },
    notes=(
        "ghost, forward and difference give every example's reward in every step and teach a "
        "sampler of ten parts; lookahead arms teach a network from losses to weights; "
        "chain-rule and higher give the meta-gradient of one weight per example, and teach "
        "nothing.",
        "chain-rule and lookahead-next use the next step's gradient; higher and the other "
        "lookahead arms take a batch of their own to judge, with a forward and backward pass.",
        "Time is the median ratio of steps taken in turn; memory is what torch's allocator "
        "holds at the peak, weights and momentum included.",
        "The images are random: what they show does not change what a step costs.",
        "The paper gives its own cost as bounds, which the first claim has, for a P100.",
        *(() if HIGHER else ("higher is not installed here, and so was not measured.",)),
    ),
)
