"""The result of an inspection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from tutelage.errors import UsageError
from tutelage_cli.inspect.args import Inspect
from tutelage_cli.inspect.combined import Labels, combined
from tutelage_cli.inspect.example_tables import (
    OUT_OF_FOLD,
    By,
    ExampleTable,
    agrees,
    issue_scores,
    known_issue_scores,
    scores,
)
from tutelage_cli.inspect.own_table import read_own
from tutelage_cli.inspect.quality import Quality, auroc, known_wrong, quality
from tutelage_cli.inspect.run import Run, open_run
from tutelage_cli.inspect.threshold import limit, smallest_fpr


@dataclass(frozen=True, eq=False)
class Inspection:
    """The labels of one arm, ranked, with thresholds and figures."""

    run: Run | None
    """None where a table was read"""
    arm: str
    """empty for a table"""
    students: tuple[str, ...]
    clean: tuple[int, ...]
    """held-out examples of each student; empty where they give no threshold"""
    limits: tuple[float, ...]
    """by student, the weight below which, or the loss above which, a label is flagged"""
    max_fpr: float
    """the share that is allowed"""
    labels: Labels
    quality: Quality | None
    """of the flagged; None where it is not known which labels are wrong, or none is flagged"""
    auroc: float
    """chance that a wrong label has a larger score than a right one; NaN where not known"""
    notes: tuple[str, ...]
    """what a reader must know, a sentence or two each"""

    @property
    def flagged(self) -> int:
        """How many labels are likely wrong."""
        return 0 if self.labels.flagged is None else int(self.labels.flagged.sum())


def inspect_run(args: Inspect) -> Inspection:
    """Read the run and rank its examples."""
    run, arm, students, notes = _read(args)
    usable = scores(students)
    if args.by == OUT_OF_FOLD and OUT_OF_FOLD not in usable:
        raise UsageError(_lacking_folds(args, arm))
    if not usable or args.by not in ("auto", *usable):
        raise UsageError(
            f"{arm or args.run.name} cannot be ranked by {args.by}: "
            f"{' and '.join(usable) or 'neither weight nor loss'} differ between its examples."
        )
    wanted = usable[0] if args.by == "auto" else args.by
    both = wanted == "weight" and "loss" in usable
    disagreeing = [one.student for one in students if both and not agrees(one)]
    by: By = "loss" if disagreeing and args.by == "auto" else wanted
    faults = [] if by == OUT_OF_FOLD else _uncalibrated(args, students, by)
    if faults or by == OUT_OF_FOLD:
        students = [replace(one, held_out=None) for one in students]
    labels = combined(students, by, max_fpr=args.max_fpr, top=args.top)
    held_out_tables = [one.held_out for one in students if one.held_out is not None]
    sign = -1 if by == "weight" else 1
    return Inspection(
        run=run,
        arm=arm,
        students=tuple(one.student for one in students),
        clean=tuple(len(known_issue_scores(one, by)) for one in held_out_tables),
        limits=tuple(
            sign * limit(known_issue_scores(one, by), args.max_fpr) for one in held_out_tables
        ),
        max_fpr=args.max_fpr,
        labels=labels,
        quality=_quality(labels),
        auroc=_auroc(labels),
        notes=(
            *notes,
            *_of_choice(arm, usable, disagreeing, by),
            *faults,
            *_of_truth(labels),
            *_of_missing(students, by),
            *_of_chance(labels, args),
        ),
    )


def _read(args: Inspect) -> tuple[Run | None, str, list[ExampleTable], list[str]]:
    if not args.run.is_file():
        # with PyTorch, which tables of losses do without
        from tutelage_cli.inspect.run_students import students_to_inspect

        run = open_run(args.run)
        return run, *students_to_inspect(run, args)
    if args.arm is not None or args.seed is not None:
        raise UsageError(f"{args.run} is a table, which has no arms and no seeds.")
    table = read_own(args.run)
    return None, "", [table], list(table.notes)


def _lacking_folds(args: Inspect, arm: str) -> str:
    if args.run.is_file():
        return (
            f"{args.run} has no out-of-fold predictions: give a column probability_CLASS for "
            "each class, of students that were not trained on the row."
        )
    if args.arm is not None:
        return f"Out-of-fold predictions do not belong to the arm {arm}: leave out --arm."
    return (
        f"{args.run} has no out-of-fold predictions, or not yet: train with --controls "
        "pruned, forward-corrected or cross-fitted, or with --teacher out-of-fold."
    )


def _quality(labels: Labels) -> Quality | None:
    known = _known(labels)
    if labels.true is None or labels.flagged is None or not known.any():
        return None
    return quality(labels.flagged[known], known_wrong(labels.given, labels.true)[known])


def _auroc(labels: Labels) -> float:
    known = _known(labels)
    if labels.true is None or not known.any():
        return float("nan")
    return auroc(-labels.mean_rank[known], known_wrong(labels.given, labels.true)[known])


def _known(labels: Labels) -> Bool[np.ndarray, "N"]:
    has_truth = np.array([bool(name) for name in labels.true or [""] * len(labels)], dtype=bool)
    return has_truth & ~np.isnan(labels.mean_rank)


def _of_truth(labels: Labels) -> list[str]:
    lacking = sum(not name for name in labels.true or ())
    if labels.true is None or not lacking:
        return []
    return [f"Of {lacking:,} labels it is not known whether they are right: left out of that."]


def _of_missing(students: Sequence[ExampleTable], by: By) -> list[str]:
    notes = []
    for what, parts in (
        ("labels", students),
        ("held-out examples", [one.held_out for one in students if one.held_out is not None]),
    ):
        lacking = sum(int(np.isnan(issue_scores(one, by)).sum()) for one in parts)
        if lacking:
            notes.append(f"Of {lacking:,} {what} the {by} is missing: they count for nothing.")
    return notes


def _of_choice(arm: str, usable: Sequence[By], disagreeing: Sequence[str], by: By) -> list[str]:
    if "weight" not in usable and arm not in ("", "untaught"):
        return [
            f"By the student's loss: {arm} weighs all examples the same, or held-out ones in a "
            "way that cannot be compared."
        ]
    if not disagreeing:
        return []
    text = (
        f"Low weights are no sign of wrong labels here: large losses do not have them in "
        f"{', '.join(disagreeing)}."
    )
    advice = "So labels are ranked by loss; --by weight gives the teacher's order."
    return [f"{text} {advice}" if by == "loss" else f"{text} --by loss may be better."]


def _of_chance(labels: Labels, args: Inspect) -> list[str]:
    if labels.flagged is None or labels.by == OUT_OF_FOLD:
        return []
    if labels.flagged.sum() > args.max_fpr * len(labels):
        return []
    return [
        "That is no more than right labels alone might give: the list shows nothing. Perhaps "
        "all labels are right, or held-out ones are wrong, too, or the students have "
        "memorised the wrong ones."
    ]


def _uncalibrated(args: Inspect, students: Sequence[ExampleTable], by: By) -> list[str]:
    lacking = [one.student for one in students if one.held_out is None]
    if lacking and args.run.is_file():
        return ["No list of labels likely wrong: no row of the table is marked held_out."]
    if lacking:
        return [
            "No list of labels likely wrong: the run has no predictions of "
            f"held-out examples ({', '.join(lacking)}). Delete result.json in their folders "
            f"and give tutelage train --resume {args.run}: they are evaluated again, not "
            "trained."
        ]
    held_out_tables = [one.held_out for one in students if one.held_out is not None]
    fewest = min(len(known_issue_scores(one, by)) for one in held_out_tables)
    if args.max_fpr < smallest_fpr(fewest):
        return [
            f"No list of labels likely wrong: {fewest} held-out examples allow no share below "
            f"{smallest_fpr(fewest):.2g}, and --max-fpr is {args.max_fpr:g}. Give a "
            "larger one, or train with a larger --held-out."
        ]
    return []
