"""What takes seconds to import is imported where it is used."""

import subprocess
import sys

import pytest

SLOW = (
    "altair",
    "datasets",
    "pandas",
    "scipy",
    "sklearn",
    "torchvision",
    "transformers",
)


@pytest.mark.parametrize("module", ["worker", "study"])
def test_training_imports_nothing_slow_that_it_may_not_need(module) -> None:
    code = f"import sys, tutelage_cli.train.{module}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not set(SLOW) & set(done.stdout.split())
