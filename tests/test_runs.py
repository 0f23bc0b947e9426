"""A run's folder is whole at every moment and belongs to one run only."""

import json
import os
from pathlib import Path

import pytest

from tutelage.errors import UsageError
from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.json_files import environment, write_json
from tutelage_cli.runner.run_folder import (
    create_run,
    free_folder,
    run_settings,
)


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step):
    file = tmp_path / "état [1].json"
    write_atomically(file, b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_write_replaces_the_whole_content(tmp_path):
    file = tmp_path / "a"
    for text in (b"a long first content", b"short", b""):
        write_atomically(file, text)
        assert file.read_bytes() == text
    assert list(tmp_path.iterdir()) == [file]


def test_write_never_shows_half_a_file(tmp_path, monkeypatch):
    file, seen = tmp_path / "a.json", []
    write_json(file, [1] * 1000)
    before = file.read_bytes()
    real = os.fsync

    def look(descriptor: int) -> None:
        seen.append(file.read_bytes())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    write_json(file, [2] * 1000)
    assert seen == [before]
    assert json.loads(file.read_text()) == [2] * 1000


def test_free_folder_is_the_first_that_nothing_is_at(tmp_path):
    runs = tmp_path / "runs"
    assert free_folder(runs, "pets") == runs / "pets"
    (runs / "pets").mkdir(parents=True)
    assert free_folder(runs, "pets") == runs / "pets-2"
    (runs / "pets-2").write_text("a file")
    (runs / "pets-4").mkdir()
    assert free_folder(runs, "pets") == runs / "pets-3"


def test_run_is_created_with_its_settings_and_environment(tmp_path):
    for folder in (tmp_path / "deep" / "données [v1]", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        create_run(folder, {"data": "é", "lr": 0.1})
        assert run_settings(folder) == {"data": "é", "lr": 0.1}
        written = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        assert written == environment()
        assert {"python", "torch", "tutelage", "platform"} <= written.keys()
        assert len(list(folder.iterdir())) == 2


def test_folder_of_another_run_is_refused_and_left_alone(tmp_path):
    create_run(tmp_path / "a", {"data": "x"})
    with pytest.raises(UsageError, match=r"holds another run.*--out.*--resume .*a$"):
        create_run(tmp_path / "a", {"data": "y"})
    assert run_settings(tmp_path / "a") == {"data": "x"}


def test_folder_with_other_things_and_a_file_are_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "notes.txt").write_text("precious")
    for path in (tmp_path / "thesis", tmp_path / "thesis" / "notes.txt"):
        with pytest.raises(UsageError, match=r"holds something else.*--out"):
            create_run(path, {})
    assert (tmp_path / "thesis" / "notes.txt").read_text() == "precious"
    assert len(list((tmp_path / "thesis").iterdir())) == 1


@pytest.mark.parametrize("place", ["file/run", "a" * 300, "file/a/b", "broken/run"])
def test_folder_that_cannot_be_made_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere" / "at-all")
    with pytest.raises(UsageError, match=r"cannot be written.*--out"):
        create_run(tmp_path / place, {})


def test_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        create_run(tmp_path / "a", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b'{"data": "\xff"}', b"[1]", b"null", b"7", b"[" * 100_000],
    ids=["missing", "empty", "cut", "latin", "list", "null", "number", "deep"],
)
def test_damaged_settings_are_told(tmp_path, content):
    if content is not None:
        (tmp_path / "settings.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"holds no run that can be continued") as caught:
        run_settings(tmp_path)
    assert str(Path(tmp_path)) in str(caught.value)
