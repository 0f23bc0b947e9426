"""The cells: data, noise and checked labels, each one run of ``tutelage train``."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from papers.framework.ideas import PUBLISHED_WEIGHINGS
from papers.models.minilm import MINILM, minilm_folder
from tutelage.errors import UsageError, nearest
from tutelage.storage.json_files import write_json
from tutelage_cli.train.names import OUT_OF_FOLD
from tutelage_cli.train.settings import stored_settings

LEARNED = ("margin-loss", OUT_OF_FOLD)
"""the teachers that learn, one that looks at the student and one at out-of-fold predictions"""
OF_PAPERS = ("internal-state", *PUBLISHED_WEIGHINGS)
"""teachers as papers have them, for the table of what each idea is worth"""
ON_IMAGES = ("internal-state", "loss", "curriculum")
"""the same for networks from scratch, which take longer"""
FROZEN = ("--student", "efficientnet-lite0", "--freeze", "--limit", "4000")
"""heads on the features of a pretrained network, of few images a seed, as computing features
takes most of the time"""
VECTORS = ("--student", MINILM, "--freeze", "--limit", "4000")
"""the same of sentences"""
FEW = ("--limit", "2000")
"""images on which a small network trains from scratch, few so that a cell takes minutes"""


class Cell(NamedTuple):
    """A data set with its noise, and how many checked examples there are."""

    data: str
    """mnist5k, or a folder below TUTELAGE_DATA"""
    noise: str
    checked: int
    flags: tuple[str, ...] = ()
    kind: str = ""
    """what tells it from a cell that is otherwise called the same"""
    teachers: tuple[str, ...] = ()
    """beside those of ``LEARNED``"""

    @property
    def name(self) -> str:
        """What its files are called."""
        data = self.data.replace("/", "-")
        return f"{data}-{self.noise.replace(':', '-')}-{self.checked}{self.kind}"

    @property
    def words(self) -> list[str]:
        """The words of ``tutelage train``."""
        data = self.data
        if data != "mnist5k":
            data = str(Path(os.environ.get("TUTELAGE_DATA", "")) / data)
        own = [str(minilm_folder()) if flag == MINILM else flag for flag in self.flags]
        flags = ["--noise", self.noise, "--held-out", str(self.checked), *own]
        return [data, *flags, "--teacher", *LEARNED, *self.teachers]


_CELLS = (
    *(Cell("mnist5k", "flip2:0.4", checked) for checked in (20, 50, 100, 200, 500)),
    *(Cell("glue/sst2", "flip:0.3", n, VECTORS) for n in (20, 50, 100, 200, 500)),
    *(Cell("pneumoniamnist", "flip:0.3", n, FEW) for n in (20, 100)),
    *(Cell("cifar10", "flip2:0.4", n, FROZEN) for n in (20, 100, 500)),
    *(Cell("cifar10", "human:worst", n, FROZEN) for n in (20, 100, 500)),
    *(Cell("cifar10", "human:random1", n, FROZEN) for n in (20, 100)),
    *(Cell("cifar10", "human:aggregate", n, FROZEN) for n in (20, 100)),
    *(Cell("cifar100", "hierarchical:0.4", n, FROZEN) for n in (100, 500)),
    *(
        Cell("cifar10", "flip2:0.4", n, (*FROZEN, "--imbalance", "10"), "-long-tailed")
        for n in (20, 100)
    ),
)
WITH_PAPERS = {
    "mnist5k-flip2-0.4-20": ON_IMAGES,
    "mnist5k-flip2-0.4-100": ON_IMAGES,
    "cifar10-flip2-0.4-100": OF_PAPERS,
    "cifar10-human-worst-100": OF_PAPERS,
    "glue-sst2-flip-0.3-100": OF_PAPERS,
}
"""cells in which teachers of papers are trained as well"""
CELLS = tuple(cell._replace(teachers=WITH_PAPERS.get(cell.name, ())) for cell in _CELLS)


def run_cells(names: Sequence[str], seeds: int, jobs: int | None, out: Path) -> list[Path]:
    """Run cells, or what is missing of them."""
    known = {cell.name: cell for cell in CELLS}
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown cell '{name}'. {nearest(name, known)}")
    chosen = [known[name] for name in names or known]
    for cell in chosen:
        _as_begun(cell, _folder(cell, out), seeds, jobs)
    return [_run(cell, seeds, jobs, out) for cell in chosen]


def _folder(cell: Cell, out: Path) -> Path:
    return out / "runs" / "pays" / cell.name


def _run(cell: Cell, seeds: int, jobs: int | None, out: Path) -> Path:
    if cell.data != "mnist5k" and not os.environ.get("TUTELAGE_DATA"):
        raise UsageError(
            f"{cell.name} needs {cell.data}: set TUTELAGE_DATA to a folder of data sets, or "
            "name cells of mnist5k."
        )
    run, file = _folder(cell, out), out / "results" / "pays" / f"{cell.name}.json"
    if not (run / "summary.json").exists():
        words = [*cell.words, "--seeds", str(seeds), "--out", str(run)]
        words = ["--resume", str(run)] if (run / "settings.json").exists() else words
        words += [] if jobs is None or "--resume" in words else ["--jobs", str(jobs)]
        command = [sys.executable, "-m", "tutelage_cli", "train", *words]
        if subprocess.run(command, check=False).returncode:
            raise UsageError(f"{cell.name} did not end; its run is {run}.")
    arms = json.loads((run / "summary.json").read_text("utf-8"))["arms"]
    kept = {
        arm: [{key: one[key] for key in ("seed", "test_accuracy", "ratio")} for one in results]
        for arm, results in arms.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {**cell._asdict(), "arms": kept})
    return file


def _as_begun(cell: Cell, run: Path, seeds: int, jobs: int | None) -> None:
    # a run goes on with the settings it began with, so that others are refused
    if not (run / "settings.json").exists():
        return
    begun = stored_settings(run)
    unfinished = not (run / "summary.json").exists()
    for flag, given, first in (("seeds", seeds, begun.seeds), ("jobs", jobs, begun.jobs)):
        if given != first and (flag == "seeds" or (unfinished and given is not None)):
            way_out = f"--{flag} {first}" if first is not None else f"no --{flag}"
            raise UsageError(
                f"{cell.name} began with {first or 'no'} {flag}, and goes on with its own: "
                f"{flag} is {given}; give {way_out}, or another --out."
            )
