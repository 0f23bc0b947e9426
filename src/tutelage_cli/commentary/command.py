"""``tutelage commentary``: its commands, which print their result."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tutelage.errors import UsageError, require_module
from tutelage_cli.commentary.args import Card, Export, Learn, Pull, Push, Show
from tutelage_cli.config.flags import flags_of
from tutelage_cli.runner.run_folder import exists, free_folder
from tutelage_cli.runner.workers import refuse_several_processes
from tutelage_cli.terminal import say
from tutelage_cli.train.args import LOG_EXTRAS

READING = (
    "image_column",
    "label_column",
    "broken_images",
    "empty_classes",
    "missing_labels",
    "ignore_labels",
    "image_size",
    "labels_from",
    "text_column",
    "max_length",
    "feature_column",
)
"""settings of the data's readers"""


def commentary(args: Learn | Show | Export | Card | Push | Pull) -> None:
    """Run a command about commentaries and print the result."""
    if isinstance(args, Learn):
        _learn(args)
    elif isinstance(args, Card | Push | Pull):
        from tutelage_cli.commentary.sharing import share

        share(args)
    elif isinstance(args, Export):
        _export(args)
    else:
        _show(args)


def _learn(args: Learn) -> None:
    refuse_several_processes()
    settings, output = args.settings, args.output
    name = f"{Path(settings.data).resolve().name or 'data'}-{settings.teacher}"
    out = args.out or free_folder(Path("commentaries"), name)
    if exists(out) and not args.overwrite:
        raise UsageError(f"{out} exists. Name another folder with --out, or --overwrite it.")
    if args.log is not None:
        require_module(args.log, LOG_EXTRAS[args.log])
    # imported after all checks that need no torch
    from tutelage_cli.commentary.display import Episodes
    from tutelage_cli.commentary.learn import learn

    with Episodes(output.progress(), settings.episodes) as episodes, _curves(args, out) as draw:

        def on_episode(number: int, loss: float) -> None:
            episodes.update(number, loss)
            draw(number, {"episode/held_out_loss": loss})

        notify = partial(say, output.progress())
        learn(settings, out, on_episode, notify, overwrite=args.overwrite)
    use = ["tutelage", "train", settings.data, *flags_of(settings, READING)]
    use = [*use, "--commentary", str(out)]
    result = output.result()
    for line in (
        f"Commentary: {out}",
        f"Show it:    {shlex.join(['tutelage', 'commentary', 'show', str(out)])}",
        f"Use it:     {shlex.join(use)}",
    ):
        say(result, line)
    output.document({
        "commentary": str(out),
        "teacher": settings.teacher,
        "episodes": settings.episodes,
        "held_out_loss": episodes.losses,
        "use": shlex.join(use),
    })


@contextmanager
def _curves(args: Learn, out: Path) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    if args.log is None:
        yield lambda *_: None
        return
    from tutelage_cli.runner.trackers import open_log

    curves = out.with_name(f"{out.name}.curves")
    title = f"{args.settings.teacher}, episodes"
    log = open_log(args.log, curves, group=curves, title=title, step=None)
    try:
        yield log
    finally:
        log.close()


def _show(args: Show) -> None:
    from tutelage_cli.commentary.show import show
    from tutelage_cli.data.reading import Reading

    reading = Reading("skip", "keep", "skip", args.ignore_labels, args.image_size)
    folder, place, beside = _at_hand(args)
    out = args.out or beside.with_name(f"{beside.name}.html")
    say(args.output.progress(), f"Reading {place} ...")
    lines = show(folder, args.data, out, reading=reading, place=place)
    _print_lines(args, place, lines, {"page": out})


def _export(args: Export) -> None:
    from tutelage_cli.commentary.show import export

    folder, place, beside = _at_hand(args)
    out = args.out or beside.with_name(f"{beside.name}.json")
    lines = export(folder, args.size, out, place=place)
    _print_lines(args, place, lines, {"policy": out})


def _at_hand(args: Show | Export) -> tuple[Path, str, Path]:
    # the folder, downloaded if it is on the Hub; what it is called; what files are named after
    from tutelage.commentaries.hub import HUB, is_address, local_folder

    if not is_address(args.folder):
        return args.folder, str(args.folder), args.folder.resolve()
    place = HUB + "/".join(args.folder.parts[1:])
    say(args.output.progress(), f"Downloading {place} ...")
    name = args.folder.name.partition("@")[0]
    return local_folder(args.folder), place, Path(name).resolve()


def _print_lines(
    args: Show | Export, place: str, lines: Sequence[str], files: Mapping[str, Path]
) -> None:
    result = args.output.result()
    for line in lines:
        say(result, line)
    if isinstance(args, Show):
        say(result, f"Page: {files['page']}")
    args.output.document({
        "commentary": place,
        "lines": list(lines),
        "files": {name: str(file) for name, file in files.items()},
    })
