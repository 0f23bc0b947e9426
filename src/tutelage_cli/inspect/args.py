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

INSPECT_HELP = """Rank the training labels of a run, and list those that are likely wrong.

Prints a table; writes RUN/inspection: examples.csv, likely-wrong.csv, and
index.html with pictures. The false positive rate: docs/inspection.md.
--fix writes a copy of the data without the labels likely wrong.

Examples:
  tutelage inspect runs/x
  tutelage inspect runs/x --arm margin-loss --top 50 --max-fpr 0.05
  tutelage inspect runs/x --json > found.json
  tutelage inspect runs/x --fix cleaned
  tutelage inspect my-loop.parquet"""


TABLES = (".csv", ".parquet", ".npy", ".npz")


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
    has them and they have learned enough; the weight where low weights and large losses agree;
    else the loss."""

    max_fpr: float = 0.01
    """By weight or loss: share of right labels that may be flagged; the threshold is where
    that share of the held-out examples would be. Out-of-fold predictions give probabilities."""

    top: int = 20
    """Examples to print, and to show on the page."""

    data: str | None = None
    """Where the pictures are now, if they have moved since the run."""

    out: Path | None = None
    """Folder of what is written; RUN/inspection if not given."""

    fix: Path | None = None
    """Write the data of the run to this new folder, without the labels likely wrong, and print
    the command that trains on it. The data themselves stay as they are."""

    fix_by: Literal["drop", "replace"] = "drop"
    """What --fix does with labels likely wrong: leave their examples out, or put the predicted
    label in their place."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def check(args: Inspect) -> None:
    """Refuse what is wrong without reading the run."""
    at_least_one(ByFlag(args), "--top")
    between(ByFlag(args), "--max-fpr")
    if not exists(args.run):
        raise UsageError(f"There is no run or table {args.run}.")
    if args.fix is None:
        if args.fix_by != Inspect.fix_by:
            raise UsageError(
                f"--fix-by {args.fix_by} is about --fix: name a new folder with it."
            )
        return
    if args.run.is_file():
        raise UsageError(
            f"--fix writes the data of a run of tutelage train; {args.run} is a table, which "
            "does not say what was trained on."
        )
    if args.fix.suffix.casefold() in TABLES:
        raise UsageError(
            f"--fix {args.fix} is written as a folder with a training and a test part: name it "
            f"without {args.fix.suffix}."
        )
    require_free(args.fix)


def require_free(out: Path, *, earlier: bool = True) -> None:
    """Refuse a folder that holds something else than, perhaps, an earlier fix."""
    if not exists(out) or (out.is_dir() and not any(out.iterdir())):
        return
    if not (earlier and exists(out / "fix.json")):
        raise UsageError(
            f"{out} exists and holds something else. Name a new folder with --fix."
        )
