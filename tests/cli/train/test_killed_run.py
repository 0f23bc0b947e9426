"""A run that is killed at random moments ends like one that never was."""

import subprocess
import sys


def test_killed_at_random_moments_and_resumed_is_the_unbroken_run(tmp_path):
    words = [sys.executable, "-m", "tests.cli.train.killing", tmp_path / "it"]
    words += ["--kills", "4", "--epochs", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done
    assert "4 kills" in done.stdout.splitlines()[-1]
