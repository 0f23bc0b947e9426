"""In which order the students of a run are trained, and for how many steps.

The students of folds are those of ``tutelage.crossfit.cross_fit``, a job each, so that they
train in parallel and are shared by controls; what they train on comes from ``FoldStages``
there. Its plain, corrected and distilled students are the arms ``folds``, ``corrected-folds``
and ``distilled-folds``, its trials ``fold-trials`` and ``distilled-trials``; ``plans``
selects the stage and has the final student, the arm ``cross-fitted``.
docs/controls.md, "Folds", explains the procedure, and in what ``tutelage.fit`` differs.
"""

from pathlib import Path

from tutelage.crossfit.fold_settings import corrected_settings, distilled_settings
from tutelage_cli.runner.log_names import LogName
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.controls.folds import (
    CHECKPOINTS,
    CORRECTED,
    DISTILLED,
    DISTILLED_TRIALS,
    PLAIN,
    TRIALS,
    TRIED,
    distilled_trial_jobs,
    fold_jobs,
    trial_jobs,
    tried_by,
)
from tutelage_cli.train.controls.rates import rate_jobs
from tutelage_cli.train.job import Job
from tutelage_cli.train.names import OUT_OF_FOLD, takes_chosen_decay
from tutelage_cli.train.settings import TrainSettings

ON_UNTAUGHT = ("fine-tuned", "early-stopped")
"""controls that go on from the untaught student"""
ON_TRIALS = ("regularised",)
"""controls that train as the best of the trials of a fold"""
ON_FOLDS = ("pruned", "forward-corrected")
"""controls that go on from what untaught students of folds predict"""
CROSS_FITTED = ("cross-fitted", OUT_OF_FOLD)
"""go on from all students of folds"""
READ_FOLDS = (
    PLAIN,
    CORRECTED,
    DISTILLED_TRIALS,
    DISTILLED,
    *ON_TRIALS,
    *ON_FOLDS,
    *CROSS_FITTED,
)
"""read files that students of folds wrote"""

EXPECTED = {
    CORRECTED: corrected_settings(TRIED[1]),
    DISTILLED: distilled_settings(TRIED[1]),
    **dict.fromkeys((PLAIN, DISTILLED_TRIALS, *ON_TRIALS), TRIED[1]),
}
"""how students train, about, as the settings are not chosen yet"""


def training_stages(
    run: Path, settings: TrainSettings, log_every: int = 0, log: LogName = "tensorboard"
) -> list[list[Job]]:
    """All students of a run, in stages: each builds on what earlier stages left.

    Students of folds are jobs of their own, so that none is trained twice; those that nothing
    is left to read are not among them.
    """
    stages: list[list[Job]] = [[], [], [], [], [], [], []]
    for seed in range(settings.seeds):
        job = Job(run, "untaught", seed, settings, log_every, log=log)
        jobs = {arm: job.with_arm(arm) for arm in settings.arms}
        any_of = jobs["untaught"]
        stages[0] += rate_jobs(any_of)
        for place, of_folds in enumerate(_fold_stages(any_of), start=1):
            stages[place] += of_folds
        for job in jobs.values():
            stages[_stage(job)].append(job)
    return [stage for stage in stages if stage]


def reads_folds(job: Job) -> bool:
    """Whether a student reads files that students of folds wrote."""
    return job.arm in READ_FOLDS or takes_chosen_decay(job.arm, job.settings.arms)


def is_finished(job: Job) -> bool:
    """Whether a student has its result."""
    return exists(job.folder / "result.json")


def _fold_stages(job: Job) -> list[list[Job]]:
    # the students of folds of a seed; none where all that is read of them is finished
    arms = {*job.settings.arms}
    readers = [one for one in map(job.with_arm, arms) if reads_folds(one)]
    if not readers:
        return []
    trials = trial_jobs(job, stronger=bool({*ON_TRIALS} & arms))
    plain = fold_jobs(job, PLAIN) if {*ON_FOLDS, *CROSS_FITTED} & arms else []
    rounds = job.settings.rounds if {*CROSS_FITTED} & arms else 0
    corrected = fold_jobs(job, CORRECTED) if rounds else []
    distilled = fold_jobs(job, DISTILLED) if rounds > 1 else []
    # predictions are inspected, too, and made again where they were deleted
    read = [*readers, *plain, *corrected, *distilled]
    if all(map(is_finished, read)):
        return []
    return [trials, plain, corrected, distilled_trial_jobs(job) if distilled else [], distilled]


def _stage(job: Job) -> int:
    if job.arm in CROSS_FITTED:
        return 6
    if job.arm in ON_FOLDS:
        return 3
    return 2 if job.arm in ON_UNTAUGHT or reads_folds(job) else 1


def steps_of(job: Job, length: int) -> int:
    """How many steps a student takes, about; for what is shown while it trains."""
    run = length * job.settings.epochs
    of_other_folds = round((1 - 1 / job.settings.folds) * run)
    if job.arm == TRIALS:
        return tried_by(job).steps(of_other_folds)
    if job.arm == PLAIN and not job.fold:  # is a trial
        return 1
    if job.arm in EXPECTED:
        return EXPECTED[job.arm].steps(of_other_folds)
    return max(1, run // 10) if job.arm in ON_UNTAUGHT else run


def epochs_of(job: Job) -> tuple[int, int]:
    """Epochs between two printed lines of a student."""
    epochs = job.settings.epochs
    if job.arm == "early-stopped":
        return 1, epochs
    if job.arm in ON_TRIALS:
        return CHECKPOINTS, CHECKPOINTS
    return (epochs + 1, epochs + 1) if job.arm == "fine-tuned" else (epochs, epochs)
