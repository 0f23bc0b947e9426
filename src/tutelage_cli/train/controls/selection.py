"""Selects how cross-fitting uses checked examples, which its students of folds did not see."""

from torch import Tensor

from tutelage.crossfit import CrossFitted
from tutelage.crossfit.fold_settings import may_need_more_steps
from tutelage.crossfit.likelihoods import calibrated
from tutelage.storage.json_files import write_json
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.controls.folds import (
    STAGES,
    chosen_distilled,
    chosen_settings,
    fold_stages_of,
    probabilities,
    read_out_of_fold,
    seconds_of_folds,
)
from tutelage_cli.train.controls.plan_parts import load_trained
from tutelage_cli.train.controls.tuning import ControlInputs

METHODS = ("given labels", "one round", "two rounds")
"""what each of ``STAGES`` is evaluated for; each relies more on the checked examples"""
UNTAUGHT = "untaught"
SELECTED = "selected.json"


def select(inputs: ControlInputs) -> tuple[CrossFitted, float]:
    """Select by ``FoldStages.select``.

    Returns:
        The result, and the seconds of all students of folds, and of the untaught student if it
        is compared with them.
    """
    job, data = inputs.job, fold_stages_of(inputs.material, inputs.job)
    arms = STAGES[: job.settings.rounds + 1]
    stages = [read_out_of_fold(job, arm, inputs.material) for arm in arms]
    settings = chosen_settings(job)
    last = chosen_distilled(job, inputs.material) if job.settings.rounds > 1 else settings
    seconds, whole = sum(seconds_of_folds(job, arm) for arm in arms), None
    if may_need_more_steps(settings):
        whole, of_untaught = _untaught(inputs)
        seconds += of_untaught
    found = data.result(settings, last.decay_factor, stages, whole)
    _, likelihoods = data.select(stages)
    means: dict[str, float] = dict(zip(METHODS, likelihoods, strict=False))
    if whole is not None and bool(whole.isfinite().all()):
        means[UNTAUGHT] = float(calibrated(whole, data.checked).mean())
    method = METHODS[0 if found.on_given else found.selected]
    write_json(job.folder / SELECTED, {"method": method, "log_likelihood": means})
    return found, seconds


def _untaught(inputs: ControlInputs) -> tuple[Tensor, float]:
    """Probabilities of the checked examples by the untaught student, and its seconds."""
    job, train = inputs.job.with_arm(UNTAUGHT), inputs.material.train
    tutor = build_tutor(UNTAUGHT, job.seed, train, job.settings, 1)
    seconds = load_trained(tutor, job)
    return probabilities(tutor, inputs.streams.held_out), seconds
