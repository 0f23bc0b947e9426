"""What ``docs/pays.md`` says of cells, drawn up from the files in ``results/pays/``."""

from collections.abc import Sequence

from papers.pays.cells import CELLS
from papers.pays.comparison import OURS, TEACHER, UNTAUGHT, CellComparison, counts, stored
from tests.docs.measured import ROOT
from tutelage_cli.intervals import Interval
from tutelage_cli.train.names import OUT_OF_FOLD

LESS, ELSE = "less the control", "less the best of all others"
HEAD = (
    "cell",
    "seeds",
    UNTAUGHT,
    "best control",
    OURS,
    LESS,
    TEACHER,
    LESS,
    ELSE,
    OUT_OF_FOLD,
    ELSE,
)


def cells() -> str:
    """Both comparisons of every cell."""
    lines = [HEAD, ("---",) * len(HEAD), *(_line(row) for row in stored(ROOT))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def decided() -> str:
    """How many cells each comparison decides, and how many have not run."""
    rows = stored(ROOT)
    lines = [f"* {line}" for line in counts(rows)]
    missing = len(CELLS) - len(rows)
    return "\n".join([*lines, f"* Not run yet: {missing} of {len(CELLS)} cells."])


def _line(row: CellComparison) -> Sequence[str]:
    means = row.means
    assert row.teacher is not None
    return (
        row.name,
        str(row.seeds),
        f"{means[UNTAUGHT]:.1f}",
        f"{row.control} {means[row.control]:.1f}",
        f"{means[OURS]:.1f}",
        _interval(row.ours),
        f"{means[TEACHER]:.1f}",
        _interval(row.teacher),
        _interval(row.taught[TEACHER]),
        f"{means[OUT_OF_FOLD]:.1f}",
        _interval(row.taught[OUT_OF_FOLD]),
    )


def _interval(of: Interval) -> str:
    text = f"{of.mean:+.1f} [{of.low:+.1f}, {of.high:+.1f}]".replace("-", "−")
    return f"**{text}**" if of.above or of.below else text
