"""What a person reads in the terminal when a reproduction has ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from papers.framework import words
from papers.framework.reproduce import Found
from papers.framework.results import Row, rows
from tutelage_cli.terminal import say, say_table

MOST_FAILURES = 10


def tell(console: Console, found: Found) -> None:
    """Print the paper's numbers beside ours, every claim with its verdict, and the files."""
    content = found.content
    every = rows(content)
    counted = [row for row in every if _counts(row, content["claims"])]
    say_table(console, words.HEADER, [words.cells(row) for row in counted])
    if content["scale"] != "paper":
        scale = content["scale"]
        say(console, f"Scale {scale}: the settings are not the paper's; see its claims.")
    say(console, words.score(every))
    for claim in content["claims"]:
        say(console, f"\nClaim: {words.spoken(claim)}\nVerdict: {claim['verdict']}")
        for judged in claim["comparisons"]:
            say(console, f"  {judged['text']}: {judged['verdict']}; {words.reason(judged)}")
    say(console, f"\nRule: {content['claim']['rule']}")
    say(console, f"{content['recipe']}, {content['scale']}: {content['claim']['verdict']}")
    for file in found.files:
        say(console, f"Written: {file}")
    for failure in found.failures[:MOST_FAILURES]:
        say(console, f"FAILED {failure.arm}, seed {failure.seed}: {failure.reason}")
    if found.failures:
        more = len(found.failures) - MOST_FAILURES
        say(console, f"and {more} more" if more > 0 else "")
        where = f"Tracebacks are in {found.folder}"
        say(console, f"{where}; the same command runs what is missing.")


def _counts(row: Row, claims: Sequence[Mapping[str, Any]]) -> bool:
    spoken = [tuple(m) for c in claims for j in c["comparisons"] for m in j["measures"]]
    return bool(row.match) or (row.arm, row.metric) in spoken
