"""The oldest and the newest releases that ``pyproject.toml`` allows, in an environment each.

    python -m tests.versions build/versions oldest newest

Installs the library alone and runs README's loop, adds the extras, trains with the command
line, and runs the tests that depend most on other packages. ``results/versions/`` stores the
releases and the counts, of which ``docs/versions.md`` has a table. Takes 7 GB of disk for an
environment and installs packages, so that it is no part of the suite.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.wheel import ROOT, readme_loop

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = sorted(
    PROJECT["optional-dependencies"].keys()
    - {"benchmarks", "cluster", "dev", "docs", "wandb"}  # whose packages TESTS do not import
)
TESTS = (
    "tests/test_packaging.py",
    "tests/cli/data",
    "tests/commentaries/test_hub.py",
    "tests/fitting",
    "tests/integrations",
    "tests/logs",
    "tests/models/test_catalogue.py",
    "tests/signals/test_by_hand.py",
    "tests/signals/test_exactness.py",
)
TOOLS = ("beartype", "hypothesis", "pytest")
"""what TESTS need beside the extras"""
FEW = "--limit 300 --held-out 40 --epochs 2 --seeds 1 --controls none"
ENDS = ("oldest", "newest")
STORED = ROOT / "results" / "versions"


def bounds(requirements: Iterable[str]) -> dict[str, str]:
    """The oldest release of each package that requirements, own extras among them, allow."""
    found: dict[str, str] = {}
    for requirement in map(Requirement, requirements):
        if requirement.name == PROJECT["name"]:
            extras = (PROJECT["optional-dependencies"][name] for name in requirement.extras)
            lowest = bounds(word for extra in extras for word in extra)
        else:
            (bound,) = (s.version for s in requirement.specifier if s.operator == ">=")
            lowest = {requirement.name: bound}
        for name, version in lowest.items():
            found[name] = max(version, found.get(name, version), key=Version)
    return found


def allowed() -> dict[str, str]:
    """The oldest releases of what the library and its extras need."""
    return bounds([*PROJECT["dependencies"], f"tutelage[{','.join(EXTRAS)}]"])


def constraints(lowest: Mapping[str, str]) -> str:
    """A constraints file of pip, with exactly these releases."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(lowest.items()))


def counts(report: str) -> dict[str, int]:
    """How many tests passed, failed and were skipped, of a report of pytest in JUnit's XML."""
    suites = list(ET.fromstring(report).iter("testsuite"))
    total, failed, errors, skipped = (
        sum(int(suite.attrib[key]) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    bad = failed + errors
    return {"passed": total - bad - skipped, "failed": bad, "skipped": skipped}


def run(*words: str | Path, cwd: Path, check: bool = True) -> None:
    """Run a program that reads neither the caller's packages nor data sets."""
    hidden = {"PYTHONPATH", "TUTELAGE_DATA", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    subprocess.run(words, env=environment, cwd=cwd, check=check)


def install(folder: Path, end: str) -> Path:
    """Python of an environment of one end, where README's loop and `tutelage train` ran."""
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--clear", folder / "venv", cwd=ROOT)
    limits = folder / "constraints.txt"
    limits.write_text(constraints(allowed()) if end == "oldest" else "", encoding="utf-8")
    pip = (python, "-m", "pip", "install", "-q", "-c", limits)
    with tempfile.TemporaryDirectory() as empty:
        run(*pip, "-e", ".", cwd=ROOT)
        run(python, "-c", readme_loop(), cwd=Path(empty))
        run(*pip, *TOOLS, "-e", f".[{','.join(EXTRAS)}]", cwd=ROOT)
        run(python, "-m", "tutelage", "train", "mnist5k", *FEW.split(), cwd=Path(empty))
    return python


def tested(python: Path, report: Path) -> dict[str, Any]:
    """The releases in an environment, and how many of TESTS pass there."""
    report.unlink(missing_ok=True)
    run(python, "-m", "pytest", f"--junitxml={report}", *TESTS, cwd=ROOT, check=False)
    listed = subprocess.check_output([python, "-m", "pip", "list", "--format", "json"])
    installed = {canonicalize_name(row["name"]): row["version"] for row in json.loads(listed)}
    return {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: installed[canonicalize_name(name)] for name in sorted(allowed())},
        "tests": counts(report.read_text(encoding="utf-8")),
    }


def stored() -> dict[str, dict[str, Any]]:
    """What came of both ends."""
    return {end: json.loads((STORED / f"{end}.json").read_text("utf-8")) for end in ENDS}


def table(results: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The table of the page: date, Python and tests of each end, then its releases."""
    found = stored() if results is None else results
    columns = [
        {
            "date": result["date"],
            "Python": result["python"],
            **{f"tests {key}": f"{n:,}" for key, n in result["tests"].items()},
            **{f"`{name}`": version for name, version in result["packages"].items()},
        }
        for result in found.values()
    ]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, "–") for column in columns)] for name in names]
    lines = [["", *found], ["---"] * (len(columns) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Try the ends that are named; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="for the environments, which stay there")
    parser.add_argument("ends", nargs="+", choices=ENDS)
    wanted = parser.parse_args()
    failed = 0
    for end in wanted.ends:
        folder = wanted.folder.absolute() / end
        folder.mkdir(parents=True, exist_ok=True)
        result = tested(install(folder, end), folder / "report.xml")
        STORED.mkdir(exist_ok=True)
        text = json.dumps(result, indent=2) + "\n"
        (STORED / f"{end}.json").write_text(text, encoding="utf-8")
        failed += result["tests"]["failed"]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
