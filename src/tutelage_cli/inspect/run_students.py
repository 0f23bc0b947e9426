"""Which students of a run are inspected."""

import numpy as np

from tutelage_cli.inspect.args import Inspect
from tutelage_cli.inspect.example_tables import OUT_OF_FOLD, ExampleTable
from tutelage_cli.inspect.out_of_fold import by_folds
from tutelage_cli.inspect.reading import students_of
from tutelage_cli.inspect.run import Run

LEARNED = 0.5
"""share of the untaught student's gain in log-likelihood from which on folds rank labels"""
FOLDS_BEHIND = (
    "The students of folds have learned less than half of what the untaught student has, by "
    "the log-likelihood of held-out examples: labels are not ranked by them. More --epochs "
    "may help; --by out-of-fold ranks by them all the same."
)


def students_to_inspect(run: Run, args: Inspect) -> tuple[str, list[ExampleTable], list[str]]:
    """The arm, empty for students of folds, its students, and notes on the run."""
    notes, wanted = _of_run(run), args.arm is None and args.by in ("auto", OUT_OF_FOLD)
    if wanted and (students := by_folds(run, args.seed)):
        learned = float(np.mean([one.learned for one in students]))
        if args.by == OUT_OF_FOLD or learned >= LEARNED:
            return "", students, notes
        notes = [*notes, FOLDS_BEHIND]
    return *_chosen(run, args), notes


def _chosen(run: Run, args: Inspect) -> tuple[str, list[ExampleTable]]:
    if args.arm is not None:
        return args.arm, students_of(run, args.arm, args.seed)
    begun = [arm for arm in run.settings.arms if run.finished[arm]]
    if args.seed is not None:
        begun = [arm for arm in begun if args.seed in run.finished[arm]] or begun
    taught = [arm for arm in begun if arm != "untaught"]
    for arm in taught:
        students = students_of(run, arm, args.seed)
        if any(one.weighs for one in students):
            return arm, students
    arm = next(iter([*taught, *begun]), run.settings.arms[-1])
    return arm, students_of(run, arm, args.seed)


def _of_run(run: Run) -> list[str]:
    if not run.missing:
        return []
    total = len(run.settings.arms) * run.settings.seeds
    return [
        f"The run is not finished: {total - run.missing} of its {total} students are. Go on "
        f"with: tutelage train --resume {run.folder}"
    ]
