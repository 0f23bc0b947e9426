"""Arguments of ``tutelage inspect``; imports nothing heavy, so that ``--help`` is fast."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tutelage.errors import UsageError
from tutelage.validation.ranges import at_least_one, between
from tutelage_cli.config.flags import ByFlag
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.terminal import Output

INSPECT_HELP = """List the training examples that a run distrusts, and labels likely wrong.

Prints a table; writes RUN/inspection: examples.csv, likely-wrong.csv, and
index.html with pictures. What the threshold promises: docs/inspection.md.

Examples:
  tutelage inspect runs/x
  tutelage inspect runs/x --arm margin-loss --top 50 --max-fpr 0.05
  tutelage inspect runs/x --json > found.json
  tutelage inspect my-loop.parquet"""


@dataclass(frozen=True)
class Inspect:
    """The arguments of ``tutelage inspect``."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a run, or a Parquet or CSV table of examples from a loop of your own
    (docs/inspection.md)."""

    arm: str | None = None
    """The arm whose students are inspected, such as margin-loss, or untaught. If not given:
    out-of-fold predictions where there are some, else the first teacher that weighs, else the
    first arm."""

    seed: int | None = None
    """Inspect the student of this seed alone; all seeds of the arm if not given."""

    by: Literal["auto", "out-of-fold", "weight", "loss"] = "auto"
    """What labels are ranked by: predictions by students of folds that were not trained on it,
    the teacher's weight or the student's loss. auto: the first where no arm is named, the run
    has them and they have learnt enough; the weight where low weights go with large losses;
    else the loss."""

    max_fpr: float = 0.01
    """By weight or loss: share of right labels that may be called wrong; the threshold is where
    that share of the held-out examples would be. Out-of-fold predictions give probabilities."""

    top: int = 20
    """Examples to print, and to show on the page."""

    data: str | None = None
    """Where the pictures are now, if they have moved since the run."""

    out: Path | None = None
    """Folder of what is written; RUN/inspection if not given."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def check(args: Inspect) -> None:
    """Refuse what is wrong without reading the run."""
    at_least_one(ByFlag(args), "--top")
    between(ByFlag(args), "--max-fpr")
    if not exists(args.run):
        raise UsageError(f"There is no run or table {args.run}.")
