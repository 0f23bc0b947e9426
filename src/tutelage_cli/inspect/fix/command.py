"""Writes the training data of a run anew and says how to train on them."""

import filecmp
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tutelage.errors import UsageError
from tutelage.storage.atomic_files import fresh_folder, replace_folder
from tutelage.storage.json_files import write_error, write_json
from tutelage_cli.inspect.args import Inspect, require_free
from tutelage_cli.inspect.findings import Inspection
from tutelage_cli.inspect.fix.corrections import Counts, corrected, require_flagged
from tutelage_cli.inspect.fix.write_files import write_fixed
from tutelage_cli.train.report_content import command_line

FACTS = "fix.json"
"""what was done, beside the tables"""


class FixResult(NamedTuple):
    """What was written."""

    folder: Path
    counts: Counts
    train: str
    """the command that trains on it"""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"folder": str(self.folder), "train": self.train, **self.counts._asdict()}


def fix(args: Inspect, inspection: Inspection) -> FixResult:
    """Write the data of an inspected run without the flagged labels to ``args.fix``."""
    assert args.fix is not None
    assert inspection.run is not None
    require_flagged(inspection)
    settings = inspection.run.settings
    if args.data is not None:
        settings = replace(settings, data=args.data)
    out = args.fix
    _refuse_inside(out, settings.data)
    data = corrected(inspection.labels, settings, args.fix_by)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = fresh_folder(out)
        try:
            train = command_line(write_fixed(fresh, out, settings, data))
            facts = {"run": str(args.run), "fix_by": args.fix_by, "by": inspection.labels.by}
            write_json(fresh / FACTS, facts | data.counts._asdict() | {"train": train})
            if out.is_symlink():
                raise UsageError(f"--fix {out} is a link: name the folder itself.")
            if out.exists() and any(out.iterdir()) and not _same(fresh, out):
                require_free(out, earlier=False)
            replace_folder(fresh, out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        then = "or name another folder with --fix"
        raise UsageError(write_error(error, out, then)) from error
    return FixResult(out, data.counts, train)


def sentences(fixed: FixResult) -> list[str]:
    """What was done, for the terminal."""
    counts = fixed.counts
    if counts.dropped or not counts.flagged:
        done = f"{counts.dropped:,} flagged labels left out"
    else:
        done = f"{counts.replaced:,} of {counts.flagged:,} flagged labels replaced"
        done += f", {counts.kept:,} kept, as they are predicted" if counts.kept else ""
        if counts.right is not None:
            done += f"; of all flagged {counts.right:,} are right now"
    return [
        f"Fixed:        {fixed.folder}: {counts.left:,} training examples, {done}",
        f"Train on it:  {fixed.train}",
    ]


def _refuse_inside(out: Path, source: str) -> None:
    place = Path(source).expanduser()
    if place.is_dir() and out.resolve().is_relative_to(place.resolve()):
        raise UsageError(
            f"--fix {out} is inside the data {source}, which stay as they are: name a folder "
            "elsewhere."
        )


def _same(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.iterdir())
    if names != sorted(path.name for path in other.iterdir()):
        return False
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)
