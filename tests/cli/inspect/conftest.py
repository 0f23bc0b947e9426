"""What the tests of inspection share: one trained run with injected noise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trained import pictures, run, unchecked

SHORT = [
    "--epochs",
    "3",
    "--seeds",
    "2",
    "--held-out",
    "12",
    "--batch-size",
    "8",
    "--jobs",
    "1",
    "--controls",
    "none",
]


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Functions are not type checked, as users run them."""
    monkeypatch.setenv("COLUMNS", "120")
    with unchecked():
        yield


@pytest.fixture(scope="session")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty grey images; a class and a file are named like formulas."""
    folder = pictures(tmp_path_factory.mktemp("data") / "animals", ("=cat", "dog", "emu"))
    (folder / "dog" / "00.png").rename(folder / "dog" / "@SUM(A1).png")
    return folder


@pytest.fixture(scope="session")
def noisy(animals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run on them, not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "noisy"
    flags = ["--teacher", "margin-loss", "--noise", "uniform:0.5", "--out", folder]
    with unchecked():
        answer = run("train", animals, *SHORT, *flags)
    assert answer.code == 0, answer
    return folder
