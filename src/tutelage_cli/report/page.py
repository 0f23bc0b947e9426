"""The report of one run as a single HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from tutelage.storage.atomic_files import atomic_path
from tutelage_cli.report import (
    augmentation,
    charts,
    elements,
    interactive,
    styles,
    table,
    teacher,
)
from tutelage_cli.report.content import RunContent

NOTES = (
    "Over seeds: test accuracy is the mean ± the sample standard deviation, time relative "
    "to the untaught arm is the median, all else is the mean. Seconds: of the student's and "
    "the teacher's steps, and of all students that an arm builds on. Memory: what training "
    "added at its peak to what its process held in RAM or, on a card, to what torch had "
    "allocated there. Weight: how much the teacher lets an example count, on average over "
    "rightly and over wrongly labelled training examples; of a control, how much the given "
    "label counts: 0 where it is pruned, its share of the target where predictions are the "
    "targets. AUROC: chance that a wrongly labelled example weighs less than a rightly "
    "labelled one; 0.5 is guessing. A dash: not applicable, or not known."
)
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src $allowed">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<link rel="icon" href="data:,">
<style>
$style</style>
</head>
<body>
$patterns
<header>
<h1>$title</h1>
<p class="data">$data</p>
$verdict
</header>
<nav aria-label="Contents"><ul>$contents</ul></nav>
<main>
$body
</main>
$scripts
</body>
</html>
""")


def _results(content: RunContent) -> str:
    """The table of arms, what its columns mean, the arms, and the results of every seed."""
    over = f"Arms compared. {table.caption(content.arms)}"
    shown = elements.table(over, table.HEADER, table.rows(content.arms), style="arms")
    who = "".join(
        f"<div><dt>{escape(arm.name)}</dt><dd>{escape(arm.teacher)}</dd></div>"
        for arm in content.arms
    )
    seeds = elements.table(
        "Every arm and seed", table.SEED_HEADER, table.seed_rows(content.arms), style="seeds"
    )
    body = (
        f'{shown}{elements.paragraph(NOTES, style="note")}<dl class="who">{who}</dl>'
        f"<details><summary>Every seed</summary>{seeds}</details>"
    )
    return elements.section("Results", body, anchor="results")


def _learning(content: RunContent) -> str:
    """Test accuracy and training loss over epochs, for all arms."""
    if not content.curves:
        return ""
    names = [arm.name for arm in content.arms]
    body = charts.learning_curves(content.curves, names)
    body += elements.paragraph(charts.BANDS, style="note")
    return elements.section("Learning curves", body, anchor="learning")


def _repeat(content: RunContent) -> str:
    """How to run this again: the command, the settings and the environment."""
    body = (
        f'<pre tabindex="0"><code>{escape(content.command)}</code></pre>'
        f'<div class="columns">{elements.pairs("Settings", content.settings)}'
        f"{elements.pairs('Environment', content.environment)}</div>"
    )
    return elements.section("How to repeat this", body, anchor="repeat")


def render(content: RunContent) -> str:
    """The whole report as one HTML5 document without outside references."""
    parts = {
        "results": ("Results", _results(content)),
        "learning": ("Learning curves", _learning(content)),
        **{
            f"arm-{n}": (arm.name, _of_arm(content, arm.name, anchor=f"arm-{n}"))
            for n, arm in enumerate(content.arms)
        },
        "repeat": ("How to repeat this", _repeat(content)),
    }
    return document(content.title, content.data, content.verdict, parts)


def _of_arm(content: RunContent, name: str, *, anchor: str) -> str:
    policy = augmentation.section(content, name, anchor=anchor)
    return policy or teacher.section(content, name, anchor=anchor)


def document(
    title: str, data: str, verdict: Sequence[str], parts: Mapping[str, tuple[str, str]]
) -> str:
    """A page of sections."""
    shown = {anchor: part for anchor, part in parts.items() if part[1]}
    lead, *rest = verdict or ("",)
    body = "\n".join(html for _, html in shown.values())
    run = interactive.scripts(body)
    return _PAGE.substitute(
        title=escape(title),
        style=resources.files("tutelage_cli.report").joinpath("page.css").read_text("utf-8"),
        data=escape(data),
        verdict=elements.paragraph(lead, style="lead")
        + "".join(elements.paragraph(sentence, style="verdict") for sentence in rest),
        contents="".join(
            f'<li><a href="#{anchor}">{escape(name)}</a></li>'
            for anchor, (name, _) in shown.items()
        ),
        body=body,
        patterns=styles.PATTERNS,
        allowed=" ".join(map(interactive.digest, run)),
        scripts="\n".join(f"<script>{script}</script>" for script in run),
    )


def write(content: RunContent, path: Path) -> None:
    """Write the report to a file, atomically."""
    write_page(render(content), path)


def write_page(text: str, path: Path) -> None:
    """Write a page to a file, atomically."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
