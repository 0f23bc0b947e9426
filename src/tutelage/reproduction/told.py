"""What a person reads in the terminal when a reproduction has ended."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tutelage.reproduction import words
from tutelage.reproduction.reproduce import Found
from tutelage.reproduction.results import Row, rows

NARROW = 76
"""columns of a terminal below which the table is told line by line"""
MOST_FAILURES = 10


def tell(console: Console, found: Found) -> None:
    """Print the paper's numbers beside ours, every claim with its verdict, and the files.

    Args:
        console: Where to.
        found: What came of it.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    content = found.content
    every = rows(content)
    _tell_table(console, say, [row for row in every if _counts(row, content["claims"])])
    if content["scale"] != "paper":
        say(f"Scale {content['scale']}: the settings are not the paper's; see its claims.")
    say(words.score(every))
    for claim in content["claims"]:
        say(f"\nClaim: {words.spoken(claim)}\nVerdict: {claim['verdict']}")
        for judged in claim["comparisons"]:
            say(f"  {judged['text']}: {judged['verdict']}; {words.reason(judged)}")
    say(f"\nRule: {content['claim']['rule']}")
    say(f"{content['recipe']}, {content['scale']}: {content['claim']['verdict']}")
    for file in found.files:
        say(f"Written: {file}")
    for failure in found.failures[:MOST_FAILURES]:
        say(f"FAILED {failure.arm}, seed {failure.seed}: {failure.reason}")
    if found.failures:
        more = len(found.failures) - MOST_FAILURES
        say(f"and {more} more" if more > 0 else "")
        say(f"Tracebacks are in {found.folder}; the same command runs what is missing.")


def _counts(row: Row, claims: Sequence[Mapping[str, Any]]) -> bool:
    spoken = [tuple(m) for c in claims for j in c["comparisons"] for m in j["measures"]]
    return bool(row.match) or (row.arm, row.metric) in spoken


def _tell_table(console: Console, say: Callable[[str], None], shown: list[Row]) -> None:
    if console.width < NARROW:  # a table would cut its numbers
        for row in shown:
            pairs = zip(words.HEADER, words.cells(row), strict=True)
            say("; ".join(f"{name}: {value}" for name, value in pairs))
        return
    table = Table(*words.HEADER, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for row in shown:
        table.add_row(*map(escape, words.cells(row)))
    console.print(table)
