"""Commentaries on the Hugging Face Hub, which is a folder here: no network is used."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub import errors
from torch import nn

import tutelage as tl
from tests.trained import QUICK, content, found, one_line, pictures, run, unchecked, undrawn
from tutelage.commentaries import (
    Provenance,
    pull_commentary,
    push_commentary,
    save_commentary,
)
from tutelage.errors import MissingExtraError, UsageError
from tutelage.teachers import Blending, LearnedAugmentation, LossWeigher

NAME = "user/weigher"


class Response:
    """What a failed request came back with."""

    def __init__(self, status: int) -> None:
        self.status_code = status


def failure(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    """An error of the client, without a request."""
    error = kind.__new__(kind)
    Exception.__init__(error, f"{status} Client Error")
    error.response = Response(status)  # type: ignore[assignment]
    return error


class Hub:
    """The repositories, a folder each, and what is asked of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.token = root, "secret"
        self.fault: Exception | None = None
        self.made: list[dict[str, Any]] = []

    def __call__(self, token: str | None = None) -> "Hub":
        assert token in (None, self.token)
        return self

    def _checked(self, repo_type: str) -> None:
        assert repo_type == "dataset"
        if self.fault is not None:
            raise self.fault

    def create_repo(self, name, *, repo_type, private, exist_ok):
        self._checked(repo_type)
        assert exist_ok
        self.made.append({"name": name, "private": private})
        (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / name / ".gitattributes").touch()

    def list_repo_files(self, name, *, repo_type):
        self._checked(repo_type)
        return [path.name for path in (self.root / name).iterdir()]

    def upload_folder(self, *, repo_id, folder_path, repo_type, allow_patterns, commit_message):
        self._checked(repo_type)
        assert commit_message
        for pattern in allow_patterns:
            shutil.copy(Path(folder_path) / pattern, self.root / repo_id / pattern)

    def snapshot_download(self, name, *, repo_type, revision, allow_patterns, token):
        self._checked(repo_type)
        assert token in (None, self.token)
        if not (self.root / name).is_dir():
            raise failure(errors.RepositoryNotFoundError, 404)
        if revision not in (None, "main"):
            raise failure(errors.RevisionNotFoundError, 404)
        cached = self.root / "cache" / name
        cached.mkdir(parents=True, exist_ok=True)
        for pattern in allow_patterns:
            if (self.root / name / pattern).is_file():
                shutil.copy(self.root / name / pattern, cached / pattern)
        return str(cached)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    made = Hub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", made)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: made.token)
    monkeypatch.chdir(tmp_path)
    with unchecked():
        yield made


@pytest.fixture
def stored(tmp_path):
    torch.manual_seed(0)
    teacher = LossWeigher(width=7)
    for p in teacher.parameters():
        nn.init.normal_(p)
    save_commentary(teacher, tmp_path / "weigher")
    return tmp_path / "weigher"


def test_what_is_pushed_comes_back_to_the_bit(hub, stored):
    assert push_commentary(stored, NAME, private=True) == f"hf://{NAME}"
    assert hub.made == [{"name": NAME, "private": True}]
    assert pull_commentary(f"{NAME}@main", "mine/copy") == stored.parent / "mine" / "copy"
    assert found(stored.parent / "mine" / "copy") == found(stored)
    weights = tl.load_commentary(stored, nn.Module()).state_dict()
    for place in (f"hf://{NAME}", f"hf://{NAME}@main"):
        loaded = tl.load_commentary(place, nn.Module())
        assert isinstance(loaded, LossWeigher)
        for name, value in loaded.state_dict().items():
            assert torch.equal(value, weights[name])


@pytest.mark.usefixtures("hub")
def test_the_command_line_pushes_and_pulls(stored):
    answer = run("commentary", "push", stored, NAME)
    assert answer.code == 0, answer
    assert f'tl.load_commentary("hf://{NAME}", student)' in answer.out
    assert "Not recorded: data, classes, student, signal, seeds" in " ".join(answer.out.split())
    shutil.rmtree(stored)
    answer = run("commentary", "pull", NAME)
    assert answer.code == 0, answer
    assert sorted(path.name for path in stored.iterdir()) == [
        "README.md",
        "commentary.json",
        "weights.safetensors",
    ]
    one_line(run("commentary", "pull", NAME), "another commentary", "--overwrite")
    assert run("commentary", "pull", NAME, "--overwrite").code == 0
    Path("other").mkdir()
    Path("other/mine").touch()
    for words in ((), ("--overwrite",)):
        one_line(run("commentary", "pull", NAME, "other", *words), "not a commentary")


@pytest.mark.usefixtures("hub")
def test_a_commentary_of_the_hub_is_shown_by_its_address(stored):
    push_commentary(stored, NAME)
    shutil.rmtree(stored)
    for place in (f"hf://{NAME}", f"hf://{NAME}@main"):
        answer = run("commentary", "show", place, "--json")
        assert answer.code == 0, answer
        told = json.loads(answer.out)
        assert told["commentary"] == place
        assert "teacher: LossWeigher" in told["lines"]
        page = Path("weigher.html")
        assert Path(told["files"]["page"]) == page.absolute()
        assert place in page.read_text(encoding="utf-8")
        page.unlink()


@pytest.mark.usefixtures("hub")
def test_a_learned_augmentation_of_the_hub_is_exported_by_its_address(tmp_path):
    name = "user/augmentation"
    teacher = LearnedAugmentation(mean=[0.5], std=[0.2])
    save_commentary(teacher, tmp_path / "own", Provenance(sides=(8, 8)))
    push_commentary(tmp_path / "own", name)
    for place, file in ((f"hf://{name}", "augmentation.json"), (tmp_path / "own", "own.json")):
        answer = run("commentary", "export", place)
        assert answer.code == 0, answer
        assert (tmp_path / file).is_file()
    assert content(tmp_path / "augmentation.json") == content(tmp_path / "own.json")


def test_a_new_version_is_pushed_and_something_else_is_left_alone(hub, stored):
    push_commentary(stored, NAME)
    save_commentary(Blending(3), stored, overwrite=True)
    push_commentary(stored, NAME)
    assert isinstance(tl.load_commentary(f"hf://{NAME}", nn.Module()), Blending)
    (hub.root / "user" / "pets").mkdir()
    (hub.root / "user" / "pets" / "train.parquet").write_text("precious")
    before = found(hub.root / "user" / "pets")
    with pytest.raises(UsageError, match=r"not a commentary \(train.parquet\)"):
        push_commentary(stored, "user/pets")
    assert {k: v for k, v in found(hub.root / "user" / "pets").items() if v} == before


def test_what_goes_wrong_is_one_line(hub, stored):
    one_line(run("commentary", "push", hub.root.parent, NAME), "no commentary")
    one_line(run("commentary", "push", stored, "weigher"), "'weigher'", "user/name")
    one_line(run("commentary", "push", stored, f"{NAME}@v1"), "revision")
    one_line(
        run("commentary", "pull", "user/nobody", "x"), "no data set repository user/nobody"
    )
    words = ("train", "mnist5k", "--commentary", f"hf://{NAME}", "--out", "x")
    one_line(run(*words), f"no data set repository {NAME}")
    for command in ("show", "export"):
        told = run("commentary", command, f"hf://{NAME}")
        one_line(told, f"no data set repository {NAME}")
    one_line(run("commentary", "card", f"hf://{NAME}"), f"tutelage commentary pull {NAME}")
    push_commentary(stored, NAME)
    one_line(run("commentary", "pull", f"{NAME}@v9", "x"), "no such revision")
    (hub.root / NAME / "commentary.json").unlink()
    shutil.rmtree(hub.root / "cache", ignore_errors=True)
    one_line(run("commentary", "pull", NAME, "x"), f"hf://{NAME} is no commentary")
    with pytest.raises(UsageError, match="is no commentary"):
        tl.load_commentary(f"hf://{NAME}", nn.Module())
    for fault in (
        errors.LocalEntryNotFoundError("no connection,\nand not in the cache"),
        ConnectionError("no route"),
        errors.HTTPError("no name"),  # pyright: ignore[reportPrivateImportUsage]
        failure(errors.HfHubHTTPError, 500),
    ):
        hub.fault = fault
        one_line(run("commentary", "pull", NAME, "x"), "cannot be reached", "network")
    hub.fault = failure(errors.HfHubHTTPError, 403)
    one_line(run("commentary", "push", stored, NAME), "token", "HF_TOKEN")
    hub.token = None
    one_line(run("commentary", "push", stored, NAME), "No token", "hf auth login")
    assert not Path("x").exists()


IN_FORKS = """
import os, sys, torch, tutelage, tutelage_cli.commentary.command
from tutelage_cli.__main__ import main
assert "huggingface_hub" not in sys.modules
for name, words in WORDS.items():
    if os.fork() == 0:
        for stream, file in (sys.stdout, os.devnull), (sys.stderr, name):
            os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY), stream.fileno())
        sys.argv = ["tutelage", *words]
        sys.exit(main() if words else tutelage.load_commentary(ADDRESS, torch.nn.ReLU()))
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
"""forks of a process that has imported all but the client of the Hub"""


def test_a_process_that_imported_nothing_of_the_hub_says_it_in_one_line(stored):
    address = f"hf://{NAME}"
    words = {
        "pull": ("commentary", "pull", NAME, "x"),
        "push": ("commentary", "push", "weigher", NAME),
        "train": ("train", "mnist5k", "--commentary", address, "--out", "x"),
        "load": (),
    }
    hub = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(stored.parent / "home"), "HF_TOKEN": "secret"}
    done = subprocess.run(
        [sys.executable, "-c", f"WORDS, ADDRESS = {words}, {address!r}{IN_FORKS}"],
        cwd=stored.parent,
        env={**os.environ, **hub},
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
        check=True,
    )
    assert done.stdout.split() == ["2", "2", "2", "1"]
    for name in words:
        *before, last = (stored.parent / name).read_text().splitlines()
        assert f"{address} cannot be reached on the Hugging Face Hub" in last
        assert before == [] or name == "load"
    assert not (stored.parent / "x").exists()


def test_a_commentary_of_the_hub_trains_a_student_by_its_address(hub, stored, tmp_path):
    push_commentary(stored, NAME)
    (tmp_path / "own.yaml").write_text(f"commentary: hf://{NAME}@main\n")
    of_flag = ("--commentary", f"hf://{NAME}")
    with undrawn():
        for name, given in {"flag": of_flag, "file": ("--config", "own.yaml")}.items():
            answer = run(
                "train", pictures(tmp_path / f"of-{name}"), *given, *QUICK, "--out", name
            )
            assert answer.code == 0, answer
            # the run keeps the folder, so that a newer version does not change it
            settings = content(tmp_path / name / "settings.json")
            assert Path(settings["commentary"]) == hub.root / "cache" / NAME
            assert run("train", "--resume", name).code == 0


def test_without_the_client_the_extra_is_named(stored, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[hub\]'"):
        pull_commentary(NAME)
    assert isinstance(tl.load_commentary(stored, nn.Module()), LossWeigher)
