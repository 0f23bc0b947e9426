"""Whatever a finished job's file holds: it counts, or one line says which file is damaged."""

import random

from papers.framework.args import Reproduce
from papers.framework.jobs import read_record
from papers.framework.plan import make_plan
from papers.framework.results import result
from tests.hostile import changed_json
from tests.papers.framework.tiny import RECIPE
from tutelage.errors import UsageError


def test_no_file_of_a_job_does_harm(place):
    assert place.reproduce("--seeds", 1, "--jobs", 1).code == 0
    todo = make_plan(RECIPE, Reproduce("tiny", seeds=1, device="cpu"))
    job, draw, count = todo.jobs[0], random.Random(0), 0
    whole = job.file.read_bytes()
    assert read_record(job, tuple(RECIPE.metrics)) is not None
    for _ in range(150):
        job.file.write_bytes(changed_json(whole, draw))
        told = ""
        try:
            result(todo, [])
        except UsageError as error:
            told = str(error)
        count += bool(told)
        assert not told or (str(job.file) in told and len(told.splitlines()) == 1)
    assert 50 < count < 150
