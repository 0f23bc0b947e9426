"""Where results cannot be written, that is told in a line, and what is finished stays."""

from tests.disks import closed, full_disk
from tests.trained import one_line

SMALL = ("--seeds", 2, "--jobs", 1)
AGAIN = "same command again"


def test_a_job_that_cannot_be_kept_stops_all_and_none_is_lost(place):
    with full_disk(64):  # room for the note that a job ran
        one_line(place.reproduce(*SMALL), "plain-seed0.json", "File too large", AGAIN)
    assert place.reproduce(*SMALL).code == 0
    assert len(place.ran()) == 7  # the first one twice


def test_results_without_room_are_told_and_no_job_runs_again(place):
    with full_disk(1024):  # room for a job's file, none for the result
        one_line(place.reproduce(*SMALL), "tiny.json", "File too large", "Make room", AGAIN)
    assert len(place.ran()) == 6
    assert place.reproduce(*SMALL).code == 0
    assert place.ran() == []
    assert not list(place.out.rglob(".*.[0-9]*"))


def test_closed_folders_of_results_are_told(place):
    with closed(place.out):
        one_line(place.reproduce(*SMALL), place.out, "Permission denied", "Allow writing")
    assert place.reproduce(*SMALL).code == 0
    with closed(place.out / "docs"):
        one_line(place.reproduce(*SMALL), "results.md", "Permission denied", "Allow writing")


def test_what_killed_writes_left_goes_with_the_next(place):
    assert place.reproduce(*SMALL).code == 0
    for left in ("results/mini/.tiny.json.999999999", "docs/.results.md.999999999"):
        (place.out / left).write_text("half")
    assert place.reproduce(*SMALL).code == 0
    assert not list(place.out.rglob(".*.[0-9]*"))
