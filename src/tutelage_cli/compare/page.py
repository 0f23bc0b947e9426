"""The comparison of runs: printed, as a page and as plain values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.console import Console

from tutelage_cli.compare.runs import ACCURACY, Difference, RunComparison, arms_of
from tutelage_cli.report import charts, elements, formats
from tutelage_cli.report import table as report_table
from tutelage_cli.report.page import document
from tutelage_cli.terminal import say, say_table

PAIRED = ("Test accuracy of", "less that of", "Seeds", "Points", "90% interval", "Verdict")
RULE = (
    "Differences are paired by seed: higher or lower where the 90% interval of the mean "
    "difference lies on one side of zero (a one-sided t-test at 5%), else within chance; one "
    "seed gives no interval."
)


def print_tables(console: Console, compared: RunComparison) -> None:
    """Print the tables."""
    arms = [arm for member in compared.members for arm in arms_of(member)]
    say_table(
        console,
        report_table.HEADER,
        report_table.rows(arms),
        title=report_table.caption(arms),
        spare=(report_table.MEMORY,),
    )
    if compared.differing:
        say_table(console, _header(compared), _differing(compared), title="What differs")
    if compared.differences:
        rows = [row(one) for one in compared.differences]
        say_table(console, PAIRED, rows, title="Differences")
        say(console, f"{lead(compared)} {RULE}")
    for note in compared.notes:
        say(console, note)


def page(compared: RunComparison) -> str:
    """The HTML page."""
    arms = [arm for member in compared.members for arm in arms_of(member)]
    over = f"All arms. {report_table.caption(arms)}"
    results = elements.table(over, report_table.HEADER, report_table.rows(arms), style="arms")
    paired = elements.table(
        "Differences", PAIRED, [row(one) for one in compared.differences], style="seeds"
    )
    differing = elements.table(
        "What differs", _header(compared), _differing(compared), style="seeds"
    )
    note = elements.paragraph(RULE, style="note")
    parts = {
        "results": ("Results", elements.section("Results", results, anchor="results")),
        "differences": (
            "Differences",
            elements.section("Differences", paired + note, anchor="differences")
            if compared.differences
            else "",
        ),
        "curves": ("Learning curves", _curves(compared)),
        "settings": (
            "What differs",
            elements.section("What differs", differing, anchor="settings")
            if compared.differing
            else "",
        ),
    }
    names = ", ".join(member.name for member in compared.members)
    return document("Runs compared", names, [lead(compared), *compared.notes], parts)


def lead(compared: RunComparison) -> str:
    """The number of differences by verdict, as a sentence."""
    counts = Counter(one.verdict for one in compared.differences)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"Of {counts.total()} differences of test accuracy: {counted or 'none'}."


def as_plain(compared: RunComparison, files: Mapping[str, Path]) -> dict[str, Any]:
    """What is printed as JSON; docs/inspection.md lists the keys."""
    return {
        "runs": [
            {
                "run": str(member.run.folder),
                "name": member.name,
                "data": member.settings.data,
                "noise": member.settings.noise_or_default,
                "student": member.settings.student,
                "missing_students": member.run.missing,
                "arms": {
                    arm: _of_arm(list(results.values())) | {"seeds": list(results)}
                    for arm, results in member.results.items()
                    if results
                },
            }
            for member in compared.members
        ],
        "differing": {name: list(values) for name, values in compared.differing.items()},
        "differences": [asdict(one) for one in compared.differences],
        "files": {name: str(path) for name, path in files.items()},
        "notes": list(compared.notes),
    }


def row(one: Difference) -> tuple[str, ...]:
    """A difference as a row of the table."""
    interval = formats.DASH
    if one.low is not None and one.high is not None:
        interval = f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"
    points = f"{100 * one.mean:+.2f}"
    return one.what, one.baseline, str(one.seeds), points, interval, one.verdict


def _of_arm(results: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    accuracies = [result[ACCURACY] for result in results]
    shared = set.intersection(*(set(result) for result in results))
    return {
        "test_accuracy_mean": fmean(accuracies),
        "test_accuracy_std": stdev(accuracies) if len(accuracies) > 1 else None,
        **{name: [result[name] for result in results] for name in results[0] if name in shared},
    }


def _header(compared: RunComparison) -> list[str]:
    return ["Setting", *(member.name for member in compared.members)]


def _differing(compared: RunComparison) -> list[tuple[str, ...]]:
    return [(name, *values) for name, values in compared.differing.items()]


def _curves(compared: RunComparison) -> str:
    # accuracy on other data does not belong into the same drawing
    groups: dict[str, list[Any]] = {}
    for member in compared.members:
        groups.setdefault(str(member.facts.get("data")), []).append(member)
    body = ""
    for number, members in enumerate(groups.values()):
        curves = [curve for member in members for curve in member.curves]
        names = [arm.name for member in members for arm in arms_of(member)]
        mark, title = f"curves-{number}-", f"Test accuracy, {members[0].settings.data}"
        body += charts.learning_curves(curves, names, mark=mark, title=title)
    note = elements.paragraph(charts.BANDS, style="note")
    return elements.section("Learning curves", body + note, anchor="curves")
