"""What every test shares: one torch thread, and the folder of real data sets where there is one."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder named by TUTELAGE_DATA; the test is skipped where there is none."""
    folder = os.environ.get("TUTELAGE_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TUTELAGE_DATA does not name a folder of data sets")
    return Path(folder)
