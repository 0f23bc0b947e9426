"""Selects how cross-fitting uses checked examples, which its students of folds did not see."""

from tutelage.crossfit import CrossFitted
from tutelage.storage.json_files import write_json
from tutelage_cli.train.controls.folds import (
    STAGES,
    chosen_distilled,
    chosen_settings,
    fold_stages_of,
    read_out_of_fold,
    seconds_of_folds,
)
from tutelage_cli.train.controls.tuning import ControlInputs

METHODS = ("given labels", "one round", "two rounds")
"""what each of ``STAGES`` is evaluated for; each relies more on the checked examples"""
SELECTED = "selected.json"


def select(inputs: ControlInputs) -> tuple[CrossFitted, float]:
    """Select by ``FoldStages.select``.

    Returns:
        The result, and the seconds of all students of folds.
    """
    job, data = inputs.job, fold_stages_of(inputs.material, inputs.job)
    arms = STAGES[: job.settings.rounds + 1]
    stages = [read_out_of_fold(job, arm, inputs.material) for arm in arms]
    settings = chosen_settings(job)
    last = chosen_distilled(job, inputs.material) if job.settings.rounds > 1 else settings
    found = data.result(settings, last.decay_factor, stages)
    _, likelihoods = data.select(stages)
    means = dict(zip(METHODS, likelihoods, strict=False))
    write_json(
        job.folder / SELECTED, {"method": METHODS[found.selected], "log_likelihood": means}
    )
    return found, sum(seconds_of_folds(job, arm) for arm in arms)
