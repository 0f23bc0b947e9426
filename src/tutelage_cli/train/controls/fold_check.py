"""Names all students of folds whose files cannot be used, before any of them is needed."""

from collections.abc import Container, Iterable, Sequence

from tutelage.crossfit.fold_settings import VERSION
from tutelage.errors import UsageError, first_line
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.controls.folds import (
    DISTILLED_TRIALS,
    STAGES,
    TRIALS,
    content_digests,
    distilled_trial_jobs,
    fold_jobs,
    read_predictions,
    read_trial,
    trial_jobs,
)
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material

OF_FOLDS = (TRIALS, DISTILLED_TRIALS, *STAGES)
"""the students of folds"""


def check_folds(
    seeds: Iterable[tuple[Job, Material]],
    needed: Container[str] = OF_FOLDS,
    versions: Sequence[int] = (VERSION,),
) -> None:
    """Raise one ``UsageError`` for all finished students of folds that cannot be read.

    Only where one of the arms that are ``needed`` is among them.
    """
    there: list[Job] = []
    finished: list[Job] = []
    faults: list[tuple[Job, UsageError]] = []
    checked: set[int] = set()
    for job, material in seeds:
        checked.add(job.seed)
        contents = content_digests(material, versions)
        jobs = trial_jobs(job, stronger=True) + distilled_trial_jobs(job)
        jobs += [one for arm in STAGES for one in fold_jobs(job, arm)]
        there += [one for one in jobs if exists(one.folder)]
        for one in (one for one in jobs if exists(one.folder / "result.json")):
            finished.append(one)
            try:
                read_trial(one) if one.arm == TRIALS else read_predictions(one, contents)
            except UsageError as error:
                faults.append((one, error))
    if not any(one.arm in needed for one, _ in faults):
        return
    job, error = faults[0]
    if len(faults) == 1:
        raise error
    folder, reason = job.folder.parent, first_line(error.__cause__ or error)
    no_other = len(faults) == len(finished)
    names = ", ".join(one.folder.name for one in (there if no_other else dict(faults)))
    all_of_them = no_other and len(checked) == job.settings.seeds
    which = str(folder) if all_of_them else f"these folders in {folder}: {names}"
    raise UsageError(
        f"{len(faults)} of {len(finished)} students of folds cannot be used, "
        f"{job.folder.name} as its file is damaged ({reason}). Delete {which}; then go on with "
        f"--resume {job.run}: they are made again."
    ) from error
