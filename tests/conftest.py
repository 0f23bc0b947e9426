"""What every test shares: one torch thread, a cache of its own, and the real data sets."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep decoded data sets out of the user's cache folder, and between tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder named by TUTELAGE_DATA; the test is skipped where there is none."""
    folder = os.environ.get("TUTELAGE_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TUTELAGE_DATA does not name a folder of data sets")
    return Path(folder)
