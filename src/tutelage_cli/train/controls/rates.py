"""The learning rate of a seed, chosen among some by an untaught student of each."""

import json
from dataclasses import replace

from tutelage.errors import UsageError
from tutelage.storage.checkpoint import name_damaged_file
from tutelage.storage.json_files import write_json
from tutelage_cli.train.job import Job

RATES = "learning-rates"
"""arm of untaught students, one for each learning rate to choose from"""
KEY = "log_likelihood"


class DivergedError(UsageError):
    """A student's loss is not finite any more."""


def rate_jobs(job: Job) -> list[Job]:
    """An untaught student for each learning rate to choose from."""
    settings = job.settings
    return [
        replace(job.with_arm(RATES, place), settings=replace(settings, lr=lr, choose_lr=()))
        for place, lr in enumerate(settings.choose_lr)
    ]


def write_rate_result(job: Job, log_likelihood: float | None, seconds: float) -> None:
    """Write the result of the student of a learning rate."""
    write_json(job.folder / "result.json", {KEY: log_likelihood, "seconds": seconds})


def chosen_rate(job: Job) -> float:
    """The learning rate whose untaught student predicts the checked examples best."""
    likelihoods = {one.settings.lr: _log_likelihood(one) for one in rate_jobs(job)}
    known = {lr: value for lr, value in likelihoods.items() if value is not None}
    if likelihoods and not known:
        rates = ", ".join(f"{lr:g}" for lr in likelihoods)
        raise UsageError(f"The students of every --choose-lr, {rates}, diverged: lower them.")
    return max(known, key=lambda lr: known[lr], default=job.settings.lr)


def with_chosen_rate(job: Job) -> Job:
    """A student under the learning rate of its seed."""
    if job.arm == RATES or not job.settings.choose_lr:
        return job
    return replace(job, settings=replace(job.settings, lr=chosen_rate(job), choose_lr=()))


def _log_likelihood(job: Job) -> float | None:
    file = job.folder / "result.json"
    with name_damaged_file(file, f"Delete {job.folder}, then go on with --resume {job.run}."):
        try:
            return json.loads(file.read_text(encoding="utf-8"))[KEY]
        except OSError as error:
            raise ValueError(str(error)) from error
