"""Files are written whole, in place of regular ones alone, and errors name the user's file."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.disks import closed, full_disk
from tests.trained import pictures
from tutelage.commentaries import save_commentary, write_policy
from tutelage.errors import UsageError
from tutelage.storage.atomic_files import atomic_path, write_atomically
from tutelage.storage.checkpoint import save_checkpoint
from tutelage.storage.json_files import write_json
from tutelage.teachers import LearnedAugmentation, LossWeigher
from tutelage_cli.data.by_name import write_by_name
from tutelage_cli.data.sources import load
from tutelage_cli.report.page import write_page
from tutelage_cli.train.example_history import empty_history, write_example_history


def made(path: Path, kind: str) -> Path:
    """Something that is no regular file."""
    elsewhere = path.with_name("elsewhere" if kind == "a link" else "gone")
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(path))
    elif kind == "a device":
        return Path("/dev/null")
    else:
        path.symlink_to(elsewhere)
        if kind == "a link":
            elsewhere.write_text("precious")
    return path


def a_set(tmp_path: Path) -> Any:
    return load(str(pictures(tmp_path / "pets", count=4))).train


WRITERS: dict[str, Callable[[Path, Any], object]] = {
    "bytes": lambda path, _: write_atomically(path, b"x" * 5000),
    "JSON": lambda path, _: write_json(path, ["x" * 5000]),
    "checkpoint": lambda path, _: save_checkpoint(path, {"a": torch.zeros(5000)}),
    "page": lambda path, _: write_page("x" * 5000, path),
    "policy": lambda path, _: write_policy(LearnedAugmentation(), path),
    "examples": lambda path, images: write_by_name(path, images, {}),
    "tracked": lambda path, images: write_example_history(
        path.parent, images, empty_history(len(images), 2), 2
    ),
}
KINDS = ("a named pipe", "a folder", "a socket", "a link", "a link to nothing")


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_by_every_writer(tmp_path, writer, kind):
    images = a_set(tmp_path)
    (tmp_path / "out").mkdir()
    path = made(tmp_path / "out" / "history.parquet", kind)
    before = path.lstat()
    told = f"There is {kind.removesuffix(' to nothing')}"
    with pytest.raises((OSError, UsageError), match=told) as caught:
        WRITERS[writer](path, images)
    assert str(path) in str(caught.value)
    assert path.lstat() == before
    left = {path.name, "elsewhere"} if kind == "a link" else {path.name}
    assert {other.name for other in path.parent.iterdir()} == left
    if kind == "a link":
        assert path.read_text() == "precious"


def test_a_device_is_refused(tmp_path):
    for path in (Path("/dev/null"), tmp_path / "null"):
        if path.parent == tmp_path:
            path.symlink_to("/dev/null")
        with pytest.raises(OSError, match=r"a device|a link"):
            write_atomically(path, b"")


def test_a_commentary_does_not_replace_what_is_none(tmp_path):
    os.mkfifo(tmp_path / "it")
    with pytest.raises(UsageError, match="not a commentary"):
        save_commentary(LossWeigher(), tmp_path / "it")


@pytest.mark.parametrize("writer", WRITERS)
def test_errors_name_the_file_that_was_asked_for(tmp_path, writer):
    images = a_set(tmp_path)
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "history.parquet"
    with closed(path.parent), pytest.raises((OSError, UsageError)) as caught:
        WRITERS[writer](path, images)
    told(caught.value, path, "Permission denied")
    with full_disk(100), pytest.raises((OSError, UsageError)) as caught:
        WRITERS[writer](path, images)
    told(caught.value, path, "File too large")
    assert list(path.parent.iterdir()) == []


def told(error: BaseException, path: Path, reason: str) -> None:
    """The file and the reason, and no file beside it."""
    assert str(path) in str(error), error
    assert reason in str(error), error
    assert f"/.{path.name}" not in str(error), error


def test_a_missing_folder_is_told_with_the_file(tmp_path):
    for write in (WRITERS["bytes"], WRITERS["page"]):
        with pytest.raises(FileNotFoundError) as caught:
            write(tmp_path / "gone" / "a.pt", None)
        told(caught.value, tmp_path / "gone" / "a.pt", "No such file")


def test_what_is_broken_off_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(path) as part:
        part.write_text(str(1 // 0))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
