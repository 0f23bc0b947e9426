"""What takes seconds to import is imported where it is used."""

import subprocess
import sys

SLOW = (
    "altair",
    "datasets",
    "pandas",
    "scipy",
    "sklearn",
    "torchvision",
    "transformers",
)


def test_training_and_the_library_import_nothing_slow_that_they_may_not_need() -> None:
    modules = ("tutelage_cli.train.worker", "tutelage_cli.train.study", "tutelage.models")
    code = f"import sys, {', '.join(modules)}, tutelage as tl; tl.fit, tl.sklearn; "
    code += "print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())
    assert imported >= set(modules)
    assert not set(SLOW) & imported
