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


@pytest.fixture(scope="session")
def switches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder for all tests: worker processes, which each take seconds to start, keep it."""
    get_reusable_executor().shutdown()  # it does not know the folder
    folder = tmp_path_factory.mktemp("switches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, str(folder))
        yield folder


@pytest.fixture
def place(tmp_path, switches, monkeypatch) -> Iterator[Place]:
    """The tiny recipe, an empty folder to run in, and no type checks, as users run it."""
    for file in switches.iterdir():
        file.unlink()
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setitem(RECIPES, "tiny", "tests.papers.framework.tiny")
    with unchecked():
        yield Place(out, switches)
