"""The report of one run as a single HTML file that needs nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from tutelage.storage.atomic_files import atomic_path
from tutelage_cli.report import (
    augmentation,
    copies,
    elements,
    interactive,
    sections,
    splits,
    teacher,
)
from tutelage_cli.report import (
    styles as styles,
)
from tutelage_cli.report.content import RunContent

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


def render(content: RunContent) -> str:
    """The whole report as one HTML5 document without outside references."""
    parts = {
        "results": ("Results", sections.results(content)),
        "learning": ("Learning curves", sections.learning(content)),
        **{
            anchor: part
            for n, arm in enumerate(content.arms)
            for anchor, part in _of_arm(content, arm.name, n)
        },
        "repeat": ("How to repeat this", sections.repeat(content)),
    }
    return document(content.title, content.data, content.verdict, parts)


def _of_arm(content: RunContent, name: str, n: int) -> Iterator[tuple[str, tuple[str, str]]]:
    policy = augmentation.section(content, name, anchor=f"arm-{n}")
    thinks = policy or teacher.section(content, name, anchor=f"arm-{n}")
    yield f"arm-{n}", (name, thinks)
    drawn = splits.section(content, name, anchor=f"splits-{n}")
    yield f"splits-{n}", (f"{name}: parts", drawn)
    copied = copies.section(content, name, anchor=f"copies-{n}")
    yield f"copies-{n}", (f"{name}: copies", copied)


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
