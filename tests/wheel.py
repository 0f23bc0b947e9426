"""The wheel in an environment of its own: the library alone, the command line, all examples.

    python -m tests.wheel

Builds the wheel, installs it outside of the checkout, and runs there what README and
``examples/`` show. Takes half an hour on two busy cores and 6 GB of disk, and installs
packages, so that it is no part of the suite.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.docs.blocks import BLOCK

ROOT = Path(__file__).parents[1]
BATCHES = """
import itertools, torch, tutelage as tl
training = [
    tl.Batch(torch.randn(4, 3, 8, 8), torch.arange(4), torch.arange(4) + 4 * n)
    for n in range(10)
]
clean = itertools.cycle(training)
"""
EXAMPLE_EXTRAS = "accelerate,lightning,text,timm,train,transformers"
MODULES_OF_EXAMPLES = {"digits", "docstrings"}
"""examples that others import"""


def readme_loop() -> str:
    """README's training loop, on ten batches of random images."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = [code for language, code in BLOCK.findall(readme) if language == "python"]
    return BATCHES + code


class CleanEnvironment:
    """A virtual environment in a folder outside of the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        build = [
            self.bin / "python",
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "-w",
            folder,
            ROOT,
        ]
        subprocess.run(build, check=True, cwd=folder)
        (self.wheel,) = folder.glob("*.whl")

    def install(self, extras: str = "") -> None:
        """Install the wheel, with extras."""
        wanted = f"{self.wheel}[{extras}]" if extras else str(self.wheel)
        self.run("python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wanted)

    def run(self, program: str, *words: object, code: int = 0) -> str:
        """Run a program of the environment; fails on any other exit code."""
        began = time.monotonic()
        hidden = {"PYTHONPATH", "TUTELAGE_DATA", "VIRTUAL_ENV"}
        done = subprocess.run(
            [self.bin / program, *map(str, words)],
            env={key: value for key, value in os.environ.items() if key not in hidden},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = " ".join([program, *(str(word) for word in words if "\n" not in str(word))])
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {shown}\n")
        sys.stdout.flush()
        if done.returncode != code:
            sys.exit(f"exit code {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def check_library(clean: CleanEnvironment) -> None:
    """README's loop with the library's own dependencies; the command line names its extra."""
    clean.install()
    clean.run("python", "-c", readme_loop())
    said = clean.run("tutelage", "--help", code=2)
    assert "pip install '.[train]'" in said, said
    assert said.count("\n") == 1, said


def check_commands(clean: CleanEnvironment) -> None:
    """The four commands, on few images."""
    clean.install("train")
    few = ("--limit", 300, "--held-out", 40, "--epochs", 4, "--seeds", 2, "--controls", "none")
    clean.run("tutelage", "train", "mnist5k", *few, "--out", "runs/a")
    clean.run("tutelage", "inspect", "runs/a")
    clean.run("tutelage", "report", "runs/a", "--out", "report.html")
    clean.run("tutelage", "commentary", "show", "runs/a/commentary", "--out", "teacher.html")


def check_examples(clean: CleanEnvironment) -> None:
    """Every example for one epoch."""
    clean.install(EXAMPLE_EXTRAS)
    shutil.copytree(ROOT / "examples", clean.folder / "examples")
    for example in sorted((clean.folder / "examples").glob("*.py")):
        if example.stem == "torchrun":
            said = clean.run("torchrun", "--nproc-per-node", 2, example, 1)
        elif example.stem not in MODULES_OF_EXAMPLES:
            said = clean.run("python", example, 1)
        else:
            continue
        assert "accuracy: " in said, said


def main() -> None:
    """Run all checks; exits with the first failure."""
    with tempfile.TemporaryDirectory() as folder:
        clean = CleanEnvironment(Path(folder))
        check_library(clean)
        check_commands(clean)
        check_examples(clean)
    sys.stdout.write("The wheel works in an environment of its own.\n")


if __name__ == "__main__":
    main()
