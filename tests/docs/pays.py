"""What ``docs/pays.md`` says of cells, drawn up from the files in ``results/pays/``."""

from collections.abc import Sequence

from papers.pays.cells import CELLS, LEARNED
from papers.pays.rows import OURS, UNTAUGHT, Row, counts, stored
from tests.docs.measured import ROOT
from tutelage_cli.intervals import Interval

HEAD = ("cell", "seeds", UNTAUGHT, "best control", OURS, "less the control", *LEARNED)


def cells() -> str:
    """Both comparisons of every cell."""
    lines = [HEAD, ("---",) * len(HEAD), *(_line(row) for row in stored(ROOT))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def decided() -> str:
    """How many cells each comparison decides, and how many have not run."""
    rows = stored(ROOT)
    told = [f"* {line}" for line in counts(rows)]
    missing = len(CELLS) - len(rows)
    return "\n".join([*told, f"* Not run yet: {missing} of {len(CELLS)} cells."])


def _line(row: Row) -> Sequence[str]:
    means = row.means
    taught = (f"{means[arm]:.1f}, {_told(row.taught[arm])}" for arm in LEARNED)
    return (
        row.name,
        str(row.seeds),
        f"{means[UNTAUGHT]:.1f}",
        f"{row.control} {means[row.control]:.1f}",
        f"{means[OURS]:.1f}",
        _told(row.ours),
        *taught,
    )


def _told(of: Interval) -> str:
    said = f"{of.mean:+.1f} [{of.low:+.1f}, {of.high:+.1f}]".replace("-", "−")
    return f"**{said}**" if of.above or of.below else said
