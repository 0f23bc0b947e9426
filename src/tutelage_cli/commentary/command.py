"""``tutelage commentary``: what is printed, and what stops it."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tutelage.errors import UsageError, require_module
from tutelage_cli.commentary.args import Export, Learn, Show
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.runner.run_folder import exists, free_folder
from tutelage_cli.terminal import say

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


def commentary(asked: Learn | Show | Export) -> None:
    """Do what was asked and print what came of it."""
    if isinstance(asked, Learn):
        _learn(asked)
    elif isinstance(asked, Export):
        _export(asked)
    else:
        _show(asked)


def _learn(asked: Learn) -> None:
    settings, output = asked.settings, asked.output
    out = asked.out or _free(settings)
    if exists(out):
        raise UsageError(f"{out} exists. Name another folder with --out.")
    if asked.log is not None:
        require_module(asked.log, "train")
    say(output.progress(), "Reading the data ...")
    # torch comes in here, after everything that can be refused without it
    from tutelage_cli.commentary.display import Rounds
    from tutelage_cli.commentary.learn import learn

    with Rounds(output.progress(), settings.rounds) as rounds, _curves(asked, out) as draw:

        def tell(number: int, loss: float) -> None:
            rounds.tell(number, loss)
            draw(number, {"round/held_out_loss": loss})

        learn(settings, out, tell)
    use = ["tutelage", "train", settings.data, *_reading(settings)]
    use = [*use, "--commentary", str(out)]
    result = output.result()
    for line in (
        f"Commentary: {out}",
        f"Look at it: {shlex.join(['tutelage', 'commentary', 'show', str(out)])}",
        f"Use it:     {shlex.join(use)}",
    ):
        say(result, line)
    output.document({
        "commentary": str(out),
        "teacher": settings.teacher,
        "rounds": settings.rounds,
        "held_out_loss": rounds.losses,
        "use": shlex.join(use),
    })


@contextmanager
def _curves(asked: Learn, out: Path) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    if asked.log is None:
        yield lambda *_: None
        return
    from tutelage.logs import TensorBoard

    board = TensorBoard(out.with_name(f"{out.name}.curves"))
    try:
        yield board
    finally:
        board.close()


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


def _show(asked: Show) -> None:
    from tutelage_cli.commentary.show import show
    from tutelage_cli.data.reading import Reading

    out = asked.out or asked.folder.resolve().with_suffix(".html")
    reading = Reading("skip", "keep", "skip", asked.ignore_labels, asked.image_size)
    say(asked.output.progress(), f"Reading {asked.folder} ...")
    _tell(asked, show(asked.folder, asked.data, out, reading=reading), {"page": out})


def _export(asked: Export) -> None:
    from tutelage_cli.commentary.export import export

    out = asked.out or asked.folder.resolve().with_suffix(".json")
    _tell(asked, export(asked.folder, asked.size, out), {"policy": out})


def _tell(asked: Show | Export, lines: Sequence[str], files: Mapping[str, Path]) -> None:
    result = asked.output.result()
    for line in lines:
        say(result, line)
    if isinstance(asked, Show):
        say(result, f"Page: {files['page']}")
    asked.output.document({
        "commentary": str(asked.folder),
        "told": list(lines),
        "files": {name: str(file) for name, file in files.items()},
    })
