"""A recipe that takes no time, for the tests of the machinery."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import torch

from papers.framework.recipe import Outcome, Plot, Recipe
from tutelage.errors import UsageError
from tutelage_cli.claims import Claim, Comparison

SWITCH = "TINY_RECIPE_FOLDER"
"""environment variable: a folder in which runs are noted, and files steer what goes wrong"""


@dataclass(frozen=True)
class Settings:
    gain: float = 1.0
    epochs: int = 4

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise UsageError(f"epochs must be at least 1, got {self.epochs}.")


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    assert device.type == "cpu"
    steer(f"{arm}-{seed}")
    draws = torch.Generator().manual_seed(seed)
    chance = torch.rand(settings.epochs, generator=draws)
    base = chance + (settings.gain if arm == "gar" else 0.0)
    assert torch.get_num_threads() == 1
    score = float("nan") if arm == "broken" else 60 + float(base.mean())
    metrics = {"score": score, "loss": float(chance[-1])}
    return Outcome(metrics, {"score": (60 + base).tolist()})


def steer(name: str) -> None:
    """Note the run of a job, and let it fail, die or wait where a file says so."""
    folder = Path(os.environ[SWITCH])
    with (folder / "ran").open("a") as file:
        file.write(f"{name}\n")
    if (folder / f"fail-{name}").exists():
        raise RuntimeError("the disk is\non fire")
    if (folder / f"die-{name}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / f"wait-{name}").exists():
        signal.pause()


def recipe(**changes) -> Recipe:
    """The recipe, with other fields where they are given."""
    fields = {
        "name": "tiny",
        "title": "Nothing is learned, but quickly.",
        "paper": "gar",
        "where": "Table 1",
        "arms": ("plain", "gar", "broken"),
        "metrics": {"score": "points", "loss": "nats"},
        "settings": dict.fromkeys(("smoke", "mini", "gpu", "paper"), Settings()),
        "minutes": {"smoke": 0.1, "mini": 0.1, "gpu": 0.1, "paper": 60},
        "run": run,
        "claims": (
            Claim(
                "Gain is gained.",
                (
                    Comparison(("gar", "score"), "above", ("plain", "score"), margin=0.5),
                    Comparison(("gar", "loss"), "below", 2.0),
                ),
            ),
            Claim("Plain wins.", (Comparison(("plain", "score"), "above", ("gar", "score")),)),
        ),
        "table": "Table 1",
        "printed": {("gar", "score"): ("FC / GAR", "Noisy Split")},
        "plots": (
            Plot("Score", "points", {"plain": ("plain", "score"), "gar": ("gar", "score")}),
        ),
    }
    return Recipe(**(fields | changes))


RECIPE = recipe()
