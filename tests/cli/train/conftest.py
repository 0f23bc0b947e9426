"""What the tests of a study share: one trained run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trained import QUICK, pictures, run, unchecked

TAUGHT = ["--teacher", "margin-loss", "internal-state", "--noise", "uniform:0.6"]


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Functions are not type checked, as users run them."""
    with unchecked():
        yield


@pytest.fixture(scope="session")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty grey images of three classes in a folder with an odd name."""
    return pictures(tmp_path_factory.mktemp("data") / "pets [v1] é")


@pytest.fixture(scope="session")
def trained(pets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of two taught students beside an untaught one; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    with unchecked():
        answer = run("train", pets, *QUICK, *TAUGHT, "--out", folder)
    assert answer.code == 0, answer
    (folder.parent / "printed").write_text(answer.out, encoding="utf-8")
    return folder
