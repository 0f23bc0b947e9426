"""The seconds of a job are its own work, not what others make it wait for."""

import time

import torch

from papers.framework.jobs import Failure, run_job
from papers.framework.plan import Job
from papers.framework.recipe import Outcome


def test_waiting_is_no_work_on_a_cpu(tmp_path):
    def waits(_arm: str, _seed: int, _settings: object, _device: torch.device) -> Outcome:
        time.sleep(0.5)
        return Outcome({"score": 1.0})

    def works(_arm: str, _seed: int, _settings: object, _device: torch.device) -> Outcome:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return Outcome({"score": 1.0})

    took = {}
    for run in (waits, works):
        record = run_job(run, Job(tmp_path, run.__name__, 0), None, "cpu")
        assert not isinstance(record, Failure)
        took[run] = record["seconds"]
    assert took[waits] < 0.3 <= took[works]
