"""Every example runs, and differs from the one it is made of only where it should."""

import difflib
import functools
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from tests.cli.train.killing import child, ended
from tests.integrations.few_examples import FOLDER, run

pytest.importorskip("sklearn")

ROOT = FOLDER.parent

pytestmark = [
    # its own use of a torch class that torch 2.14 deprecates (lightning 2.6.6, _pytree.py)
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
    # loaders of few examples need no worker processes, and logs no fewer steps
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    # the Trainer asks for pinned memory where there is no GPU, too
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true"),
]


class Change(NamedTuple):
    """What an example is made of."""

    base: str
    removed: int
    added: int
    package: str = "torch"


CHANGES = {
    "taught": Change("plain", 8, 15),
    "cross_fitted": Change("plain", 14, 3),
    "accelerate_": Change("taught", 1, 4, "accelerate"),
    "lightning_": Change("taught", 8, 17, "lightning"),
    "timm_student": Change("taught", 1, 3, "timm"),
    "torchrun": Change("taught", 4, 12),
    "mixture": Change("taught", 12, 10),
    "text_classifier": Change("taught", 10, 6, "transformers"),
    "transformers_": Change("text_classifier", 10, 15, "transformers"),
}


def lines(name: str) -> list[str]:
    """An example's lines but for its docstring and blank ones."""
    found = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()[1:]
    return [line for line in found if line.strip()]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    before = set(sys.modules)
    with torch.random.fork_rng():
        yield
    for name in {"digits", "docstrings"} & (set(sys.modules) - before):
        del sys.modules[name]


@pytest.mark.parametrize("name", CHANGES)
def test_an_example_is_its_base_with_few_lines_changed(name) -> None:
    change = CHANGES[name]
    told = list(difflib.ndiff(lines(change.base), lines(name)))
    counts = [sum(line.startswith(sign) for line in told) for sign in "-+"]
    assert counts == [change.removed, change.added]
    row = f"| `{name}.py` | `{change.base}.py` | {change.removed} | {change.added} |"
    assert row in (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    more = re.search(rf"^python examples/{name}\.py .* (\d+) lines (more|fewer)", readme, re.M)
    if more is not None:
        assert int(more[1]) * (1 if more[2] == "more" else -1) == change.added - change.removed


def test_every_example_is_in_the_table() -> None:
    there = {path.stem for path in FOLDER.glob("*.py")}
    assert there == {*CHANGES, "plain", "digits", "docstrings"}


@pytest.mark.parametrize("name", ["plain", *(n for n in CHANGES if n != "torchrun")])
def test_an_example_runs(name, capsys) -> None:
    pytest.importorskip(CHANGES[name].package if name in CHANGES else "torch")
    run(name)
    assert re.search(r"accuracy: [\d.]+%", capsys.readouterr().out)


def test_the_page_s_own_loop_runs() -> None:
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["tutor"].steps == 4


def test_two_processes_run_an_example_together(capsys, monkeypatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for key, value in told.items():
        monkeypatch.setenv(key, value)

    def act() -> int:
        os.environ["RANK"] = "1"
        run("torchrun")
        return 0

    other = child(act)
    monkeypatch.setenv("RANK", "0")
    waiting = functools.partial(dist.init_process_group, timeout=timedelta(seconds=120))
    monkeypatch.setattr(dist, "init_process_group", waiting)
    try:
        run("torchrun")
    finally:
        if (code := ended(other, within=120)) is None:
            os.kill(other, signal.SIGKILL)
    assert code == 0
    assert "accuracy: " in capsys.readouterr().out
