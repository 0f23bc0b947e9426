"""The commands of the page on clusters run from top to bottom, on two nodes of this machine."""

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.clusters import for_nodes, require_ray
from tests.docs.blocks import DOCS
from tests.papers.framework.tiny import SWITCH
from tests.trained import QUICK, pictures

PAGE = (DOCS / "cluster.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
RAY = ("-m", "ray.scripts.scripts")
PROGRAMS = {"tutelage": "tutelage", "torchrun": "torch.distributed.run"}
"""programs that train, and their modules"""
SHORT = QUICK[:-2]
"""what a new run's command is shortened by"""
PAPERS = """
import sys
from papers.__main__ import main
from papers.catalogue import RECIPES
RECIPES["tiny"] = "tests.papers.framework.tiny"
sys.exit(main(["reproduce", "tiny", *sys.argv[3:]]))
"""
"""``python -m papers`` with a recipe that takes no time in place of the page's"""


class Reader:
    """Runs the page's commands in a folder; the nodes that it starts end with the block.

    Args:
        folder: Has the data that the page speaks of.
        nodes: Closes the nodes.
    """

    def __init__(self, folder: Path, nodes: contextlib.ExitStack) -> None:
        self.folder, self.nodes = folder, nodes
        self.host, self.port = require_ray().util.get_node_ip_address(), free_port()
        self.variables: dict[str, str] = {}
        self.ran: list[str] = []

    def run(self, line: str) -> None:
        here = line.replace("10.0.0.1", self.host).replace("6379", str(self.port))
        words = shlex.split(here.replace("/shared/", f"{self.folder}/shared/"))
        program, command = words[0], words[1]
        self.ran.append(f"{program} {command}")
        if program == "pip":
            return
        if program == "export":
            name, _, value = command.partition("=")
            self.variables[name] = value
        elif program == "ray" and command == "start":
            self._start_node([sys.executable, *RAY, *words[1:]])
        elif program == "ray":
            self._finish([sys.executable, *RAY, *words[1:]])
        elif program in PROGRAMS:
            new = [] if "--resume" in words else SHORT
            self._finish([sys.executable, "-m", PROGRAMS[program], *words[1:], *new])
        else:
            assert words[:3] == ["python", "-m", "papers"], line
            self._finish([sys.executable, "-c", PAPERS, *words[3:]])

    def _finish(self, words: Sequence[str]) -> None:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done

    def _start_node(self, words: Sequence[str]) -> None:
        # in the foreground, so that it can be ended without every other Ray of this machine
        more = ["--block", "--num-cpus=1"]
        if "--head" in words:
            temporary = self.nodes.enter_context(tempfile.TemporaryDirectory(prefix="ray"))
            more += ["--include-dashboard=false", f"--temp-dir={temporary}"]
        self.nodes.enter_context(started([*words, *more], self._environment()))

    def _environment(self) -> dict[str, str]:
        return dict(os.environ) | self.variables


@contextlib.contextmanager
def started(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """A node of a cluster."""
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        printed = ""
        while "Ray runtime started" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_texts(path: Path) -> None:
    rows = [
        f"{word} {number},{word}" for number in range(20) for word in ("good", "bad", "odd")
    ]
    path.write_text("\n".join(["text,label", *rows]), encoding="utf-8")


def test_the_commands_of_the_page_run(tmp_path, monkeypatch) -> None:
    require_ray()
    for_nodes(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "switches").mkdir()
    monkeypatch.setenv(SWITCH, str(tmp_path / "switches"))
    pictures(tmp_path / "my-images")
    pictures(tmp_path / "shared" / "my-images")
    write_texts(tmp_path / "my-texts.csv")
    with contextlib.ExitStack() as nodes:
        reader = Reader(tmp_path, nodes)
        for line in COMMANDS:
            reader.run(line)
    assert reader.ran.count("ray start") == 2
    assert reader.ran.count("tutelage train") == 5
    assert reader.ran[-1] == "python -m"
    assert reader.ran.count("torchrun --nproc-per-node") == 2
    for run in ("runs/pets", "runs/on-ray", "shared/runs/pets", "runs/texts"):
        assert (tmp_path / run / "report.html").exists()
