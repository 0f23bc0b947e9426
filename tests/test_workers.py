"""Workers of joblib's go on after they have loaded much."""

import os
import time
from typing import Any

import joblib
import pytest
from joblib.externals.loky import process_executor

from tutelage_cli.runner.workers import keep_loaded

KEPT: list[bytes] = []


def grow(seconds: float) -> int:
    """Hold 400 MB, and be looked at at the end: joblib does so once a second."""
    KEPT.append(b"x" * 400_000_000 if seconds > 1 else b"")
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.skipif(not process_executor._USE_PSUTIL, reason="joblib looks only with psutil")
def test_a_worker_that_has_grown_takes_the_next_job(recwarn) -> None:
    options: dict[str, Any] = {"n_jobs": 2, "batch_size": 1, "pre_dispatch": "all"}
    parallel = joblib.Parallel(**options, initializer=keep_loaded)
    with parallel:
        parallel(joblib.delayed(grow)(0.2) for _ in range(2))  # what joblib compares with
        before = set(parallel(joblib.delayed(grow)(1.2) for _ in range(2)))
        after = set(parallel(joblib.delayed(grow)(0.0) for _ in range(4)))
    assert after <= before
    assert not recwarn.list
