"""What is installed with what: the library alone, and the extras that bring the rest."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGES, ROOT
from tests.wheel import readme_loop
from tutelage_cli.__main__ import MODULES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LIBRARY = {"jaxtyping", "numpy", "safetensors", "torch"}
INTEGRATIONS = tuple(
    f"tutelage.{module}"
    for module in (
        "integrations.accelerate",
        "integrations.lightning",
        "integrations.transformers",
        "sklearn.classifier",
    )
)
"""modules that need a package of an extra"""
ALONE = """
import importlib, pkgutil, sys
from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        blocked = name.partition(".")[0] in BLOCKED
        return None if blocked else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
import tutelage
for module in pkgutil.walk_packages(tutelage.__path__, "tutelage."):
    if module.name not in INTEGRATIONS:
        importlib.import_module(module.name)
"""


def packages_of(requirements: list[str]) -> set[str]:
    """The packages that a list of requirements brings, extras of this project included."""
    found: set[str] = set()
    for requirement in requirements:
        name, extras = re.findall(r"^([\w-]+)(?:\[([\w,-]*)\])?", requirement)[0]
        found |= {name} - {"tutelage"}
        for extra in filter(None, extras.split(",") if name == "tutelage" else ()):
            found |= packages_of(PROJECT["optional-dependencies"][extra])
    return found


def missing_extras(source: str) -> Iterator[tuple[str, str]]:
    """The module and the extra of every message about a missing one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
            "MissingExtraError",
            "require_module",
        }:
            module, extra = node.args
            if isinstance(module, ast.Constant) and isinstance(extra, ast.Constant):
                yield str(module.value), str(extra.value)


def run_python(*words: str, path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with another one before the installed packages."""
    paths = f"{path}{os.pathsep}{ROOT / 'src'}"
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_library_needs_four_packages() -> None:
    assert packages_of(PROJECT["dependencies"]) == LIBRARY


def test_the_library_imports_and_teaches_without_any_package_of_an_extra(tmp_path) -> None:
    extras = PROJECT["optional-dependencies"]
    brought = packages_of([requirement for extra in extras.values() for requirement in extra])
    blocked = {name.replace("-", "_") for name in brought - {"pyright"}} | set(MODULES)
    script = f"BLOCKED, INTEGRATIONS = {sorted(blocked)}, {INTEGRATIONS}{ALONE}{readme_loop()}"
    done = run_python("-c", script, path=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "my-images" / "commentary" / "commentary.json").is_file()


def test_the_command_line_checks_every_package_of_its_extra() -> None:
    assert sorted(MODULES.values()) == sorted(packages_of(["tutelage[train]"]))


@pytest.mark.parametrize("module", ["tutelage", "tutelage_cli"])
def test_without_its_extra_the_command_line_says_so_in_one_line(tmp_path, module) -> None:
    hide = "import sys\nfor name in ('altair', 'tyro', 'yaml'):\n    sys.modules[name] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hide)
    done = run_python("-m", module, "--help", path=tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tutelage: not installed: altair, pyyaml, tyro. "
        "Install the command line with: pip install '.[train]' in a checkout of tutelage\n"
    )
    done = run_python("-m", module, "--version", path=tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"tutelage {PROJECT['version']}\n")


def test_the_package_s_name_runs_the_command_line_which_its_import_does_not(tmp_path) -> None:
    done = run_python("-m", "tutelage", "--help", path=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "usage: tutelage" in done.stdout
    code = "import sys, tutelage.__main__; sys.exit('tutelage_cli' in sys.modules)"
    assert run_python("-c", code, path=tmp_path, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("package", PACKAGES)
def test_an_extra_that_a_message_names_brings_the_module(package: str) -> None:
    named = [
        pair
        for path in PACKAGES[package].rglob("*.py")
        for pair in missing_extras(path.read_text(encoding="utf-8"))
    ]
    assert named
    wrong = [
        (module, extra)
        for module, extra in named
        if module.replace("_", "-") not in packages_of([f"tutelage[{extra}]"])
    ]
    assert wrong == []


def test_pages_and_messages_install_from_a_checkout_as_no_index_has_the_package() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    messages = [file for package in PACKAGES.values() for file in package.rglob("*.py")]
    command = re.compile(r"pip install (-\S+ )*'?tutelage")
    assert [
        str(of) for of in (*pages, *messages) if command.search(of.read_text("utf-8"))
    ] == []
