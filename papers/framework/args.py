"""Arguments of ``python -m papers reproduce``; imports no torch, so that ``--help`` is fast."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from tutelage.errors import UsageError, require_known
from tutelage_cli.terminal import Output

HOURS = "hours"
SCALES = {
    "smoke": "two steps on a few examples: tests that it runs, decides nothing",
    "mini": "minutes on two CPU cores, real data",
    HOURS: "up to three hours on two CPU cores: mini with the seeds that undecided claims need",
    "gpu": "within ten minutes on one H100-class GPU",
    "paper": "the paper's own settings",
}
BACKENDS = {
    "processes": "processes on this machine",
    "ray": "a Ray cluster, or a local Ray where none is named by RAY_ADDRESS",
}
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Reproduce:
    """Arguments of ``python -m papers reproduce``."""

    recipe: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")]
    """Name of the recipe; `python -m papers list` shows all."""

    scale: str = "mini"
    """smoke (two steps), mini (minutes on two CPU cores), hours (up to three hours on these,
    with the seeds that undecided claims need), gpu (within ten minutes on one H100-class GPU)
    or paper (the paper's own settings)."""

    seeds: int | None = None
    """Number of seeds (0, 1, ...), the same for every arm. If not given, 3, and at scale hours
    what `python -m papers list` shows."""

    out: Path = Path()
    """Folder that gets results/, docs/results.md, and runs/reproduce/ with the finished jobs;
    by default the current one."""

    backend: str = "processes"
    """processes, or ray: a Ray cluster, local where RAY_ADDRESS names none (extra cluster)."""

    jobs: int | None = None
    """Jobs at the same time; the number of CPU cores if not given, 1 on a GPU."""

    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = ()
    """Settings that replace the scale's own; needs a folder of its own (--out), so that
    published results stay as they are."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def check(args: Reproduce) -> None:
    """Check the arguments that can be checked without the recipe."""
    require_known("Unknown scale", args.scale, SCALES)
    require_known("Unknown backend", args.backend, BACKENDS)
    require_known("Unknown device", args.device, DEVICES)
    for name, value in (("seeds", args.seeds), ("jobs", args.jobs)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}.")
    if args.set and args.out == Path():
        raise UsageError(
            "--set changes the settings of the scale, so its results are not those of the "
            "scale: name a folder of their own with --out."
        )
