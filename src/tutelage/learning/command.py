"""``tutelage commentary``: what is printed, and what stops it."""

import shlex
from pathlib import Path

from rich.console import Console

from tutelage.errors import UsageError
from tutelage.learning.asked import Export, Learn, Show
from tutelage.learning.settings import LearnSettings
from tutelage.runs import exists, free_folder

TOLD = 10
"""rounds that are told of, about"""
READING = (
    "image_column",
    "label_column",
    "broken_images",
    "empty_classes",
    "missing_labels",
    "ignore_labels",
    "image_size",
)
"""settings that say how data are read"""


def commentary(asked: Learn | Show | Export, console: Console) -> None:
    """Do what was asked and print what came of it.

    Args:
        asked: What was asked.
        console: Where to print.
    """
    if isinstance(asked, Learn):
        _learn(asked, console)
    elif isinstance(asked, Export):
        _export(asked, console)
    else:
        _show(asked, console)


def _learn(asked: Learn, console: Console) -> None:
    settings = asked.settings
    out = asked.out or _free(settings)
    if exists(out):
        raise UsageError(f"{out} exists. Name another folder with --out.")
    # torch comes in here, after everything that can be refused without it
    from tutelage.learning.learn import learn

    every = max(1, settings.rounds // TOLD)

    def tell(number: int, loss: float) -> None:
        if number == 1 or number % every == 0 or number == settings.rounds:
            console.print(
                f"round {number} of {settings.rounds}: held-out loss {loss:.4f}",
                highlight=False,
            )

    learn(settings, out, tell)
    for line in (
        f"Commentary: {out}",
        f"Look at it: {shlex.join(['tutelage', 'commentary', 'show', str(out)])}",
        f"Use it:     {shlex.join(['tutelage', 'train', settings.data, *_reading(settings)])} "
        f"--commentary {shlex.quote(str(out))}",
    ):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _reading(settings: LearnSettings) -> list[str]:
    # the flags without which the same data would be refused
    words: list[str] = []
    for name in READING:
        value = getattr(settings, name)
        if value != getattr(LearnSettings, name):
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return words


def _free(settings: LearnSettings) -> Path:
    name = Path(settings.data).resolve().name or "data"
    return free_folder(Path("commentaries"), f"{name}-{settings.teacher}")


def _show(asked: Show, console: Console) -> None:
    from tutelage.data.reading import Reading
    from tutelage.learning.show import show

    out = asked.out or asked.folder.resolve().with_suffix(".html")
    reading = Reading("skip", "keep", "skip", asked.ignore_labels, asked.image_size)
    for line in show(asked.folder, asked.data, out, reading=reading):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    console.print(f"Page: {out}", soft_wrap=True, markup=False, highlight=False)


def _export(asked: Export, console: Console) -> None:
    from tutelage.learning.export import export

    out = asked.out or asked.folder.resolve().with_suffix(".json")
    for line in export(asked.folder, asked.size, out):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
