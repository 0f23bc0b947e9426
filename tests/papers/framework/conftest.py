"""What the tests of reproducing share: the tiny recipe under a name, in an empty folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from joblib.externals.loky import get_reusable_executor

from papers.catalogue import RECIPES
from tests.papers.framework.tiny import SWITCH
from tests.trained import Answer, run_papers, unchecked


class Place(NamedTuple):
    """Where commands run."""

    out: Path
    switches: Path
    """where the tiny recipe notes its runs, and finds what is to go wrong"""

    def reproduce(self, *words: object) -> Answer:
        return run_papers("reproduce", "tiny", *words)

    def ran(self) -> list[str]:
        """The jobs that ran since the last call, in the order of their names."""
        file = self.switches / "ran"
        names = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return sorted(names)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Iterator[Place]:
    """The tiny recipe, an empty folder to run in, and no type checks, as users run it."""
    switches, out = tmp_path / "switches", tmp_path / "out"
    switches.mkdir()
    out.mkdir()
    monkeypatch.chdir(out)
    monkeypatch.setenv(SWITCH, str(switches))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setitem(RECIPES, "tiny", "tests.papers.framework.tiny")
    with unchecked():
        yield Place(out, switches)
    get_reusable_executor().shutdown()  # its processes keep this test's environment
