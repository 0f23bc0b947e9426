"""What the stages of cross-fitting cost, by the steps that ``tutelage train`` plans."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from tutelage_cli.train.controls.folds import (
    CORRECTED,
    DISTILLED,
    DISTILLED_TRIALS,
    PLAIN,
    TRIALS,
)
from tutelage_cli.train.controls.job_stages import steps_of, training_stages
from tutelage_cli.train.settings import TrainSettings

CONTROL = "cross-fitted"
STAGES: Mapping[str, str] = {
    TRIALS: "1. trials",
    PLAIN: "2. plain students",
    CORRECTED: "3. corrected students",
    DISTILLED_TRIALS: "4. trials on targets",
    DISTILLED: "5. distilled students",
    CONTROL: "7. final student",
}
"""by arm"""


class Run(NamedTuple):
    """A run of ``tutelage train`` whose cost a column has."""

    steps: int = 6000
    folds: int = 5
    rounds: Literal[1, 2] = 2


RUNS: Mapping[str, Run] = {
    "600 steps and more": Run(),
    "the same, `--rounds 1`": Run(rounds=1),
    "the same, `--folds 3`": Run(folds=3),
    "the same, `--folds 2`": Run(folds=2),
    "the same, `--folds 2 --rounds 1`": Run(folds=2, rounds=1),
    "480 steps": Run(steps=480),
    "240 steps": Run(steps=240),
    "100 steps and fewer": Run(steps=100),
}


def costs() -> str:
    """The plain trainings that each stage costs, by kind of run."""
    columns = {title: _costs(run) for title, run in RUNS.items()}
    lines = [("stage", "in the folder of the run", *columns), ("---",) * (2 + len(columns))]
    for arm, stage in STAGES.items():
        own = (f"{cost[arm]:.2f}" if cost[arm] else "" for cost in columns.values())
        lines.append((stage, f"`{arm}`", *own))
    totals = (f"**{sum(cost.values()):.1f}**" for cost in columns.values())
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines, ("all", "", *totals)])


def _costs(run: Run) -> Mapping[str, float]:
    settings = TrainSettings(
        seeds=1, controls=(CONTROL,), folds=run.folds, rounds=run.rounds, epochs=1
    )
    found = dict.fromkeys(STAGES, 0.0)
    for stage in training_stages(Path("run"), settings):
        for job in stage:
            if job.arm in found:
                found[job.arm] += steps_of(job, run.steps) / run.steps
    return found
