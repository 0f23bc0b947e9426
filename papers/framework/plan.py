"""The jobs of a reproduction, arms x seeds, and the file of each."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from papers.framework.args import HOURS, Reproduce
from papers.framework.paper_tables import planned_hours
from papers.framework.recipe import Recipe
from tutelage.errors import UsageError
from tutelage.storage.json_files import environment
from tutelage_cli.config.settings_files import changed as replaced
from tutelage_cli.config.settings_files import to_plain

SEEDS = 3  # if none are given, at all scales but hours
RELEASES = ("tutelage", "torch")  # packages on whose release the results of a job depend


class Job(NamedTuple):
    """One arm with one seed."""

    folder: Path
    arm: str
    seed: int

    @property
    def file(self) -> Path:
        """The file of its record, which exists if and only if the job is finished."""
        return self.folder / f"{self.arm}-seed{self.seed}.json"

    @property
    def error_file(self) -> Path:
        """The file of its traceback if it fails."""
        return self.file.with_suffix(".error.txt")


class Plan(NamedTuple):
    """A recipe at a scale with a number of seeds."""

    recipe: Recipe
    scale: str
    settings: Any
    changed: Mapping[str, Any]  # settings that differ from those of the scale
    seeds: int
    device: str  # cpu or cuda
    root: Path  # folder of results/, docs/ and runs/

    @property
    def folder(self) -> Path:
        """The folder of finished jobs, one for each recipe, settings, device and releases.

        The scale hours with mini's settings has mini's folder, and uses its jobs.
        """
        facts = {
            "settings": to_plain(self.settings),
            "device": self.device,
            **{name: environment().get(name, "") for name in RELEASES},
        }
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
        runs = self.root.absolute() / "runs" / "reproduce"  # workers may run elsewhere
        as_mini = self.scale == HOURS and self.settings == self.recipe.settings["mini"]
        return runs / ("mini" if as_mini else self.scale) / f"{self.recipe.name}-{key}"

    @property
    def jobs(self) -> list[Job]:
        """All jobs, every arm once before the second seed begins."""
        folder = self.folder
        return [Job(folder, arm, s) for s in range(self.seeds) for arm in self.recipe.arms]


def make_plan(recipe: Recipe, args: Reproduce) -> Plan:
    """The plan of a recipe for the arguments of ``python -m papers reproduce``."""
    base, seeds = _at_scale(recipe, args.scale)
    settings = replaced(base, _changes(args.set), "--set")
    own = to_plain(base)
    changed = {k: v for k, v in to_plain(settings).items() if v != own[k]}
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("device is cuda, but torch sees none here; leave it out, or give cpu.")
    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    root = args.out.expanduser()
    return Plan(recipe, args.scale, settings, changed, args.seeds or seeds, device, root)


def _at_scale(recipe: Recipe, scale: str) -> tuple[Any, int]:
    # the settings of a scale, and its number of seeds if none is given
    if scale != HOURS:
        return recipe.settings[scale], SEEDS
    planned = planned_hours(recipe.name)
    if planned is None:
        raise UsageError(
            f"{recipe.name} has no scale {HOURS}: none of its claims is both undecided at mini "
            "and decided by three hours; python -m papers claims shows what each would take."
        )
    return recipe.settings.get(HOURS, recipe.settings["mini"]), planned.seeds


def _changes(texts: Sequence[str]) -> dict[str, Any]:
    # nested where a key has dots: source.model=X is source={model: X}
    changes: dict[str, Any] = {}
    for key, value in map(_key_and_value, texts):
        *outer, last = key.split(".")
        inner = changes
        for name in outer:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set gives {key}, and {name} as a whole: give one of both.")
        inner[last] = value
    return changes


def _key_and_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set takes KEY=VALUE, got '{text}'.")
    try:
        return key.replace("-", "_"), yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UsageError(f"--set {key}: '{value}' cannot be read; quote it.") from error
