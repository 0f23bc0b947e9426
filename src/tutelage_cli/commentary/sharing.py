"""``tutelage commentary`` card, push and pull: what others need to use a commentary."""

import json
from pathlib import Path
from typing import Any

from tutelage.commentaries import amend_card, pull_commentary, push_commentary, read_card
from tutelage.commentaries.card import FACTS, missing_facts
from tutelage.errors import UsageError
from tutelage_cli.commentary.args import Card, Pull, Push
from tutelage_cli.terminal import say
from tutelage_cli.train.settings import stored_settings
from tutelage_cli.train.verdict import gains_over_controls

ARM = "commentary"
"""the arm of a run that a stored commentary teaches"""


def share(args: Card | Push | Pull) -> None:
    """Run one of the commands."""
    if isinstance(args, Card):
        _card(args)
    elif isinstance(args, Push):
        _push(args)
    else:
        _pull(args)


def _card(args: Card) -> None:
    flags = {name: getattr(args, name) for name in ("data", "student", "signal", "runs")}
    facts = {name: value for name, value in flags.items() if value is not None}
    facts |= {"seeds": args.seeds} if args.seeds else {}
    facts |= gains_of_run(args.run, args.folder) if args.run is not None else {}
    if facts:
        amend_card(args.folder, **facts)
    missing = missing_facts(read_card(args.folder))
    result = args.output.result()
    say(result, f"Card: {args.folder / 'README.md'}")
    say(result, _said(missing))
    args.output.document({
        "commentary": str(args.folder),
        "recorded": sorted(facts),
        "missing": missing,
    })


def _push(args: Push) -> None:
    missing = missing_facts(read_card(args.folder))
    say(args.output.progress(), f"Uploading {args.folder} ...")
    address = push_commentary(args.folder, args.repository, private=args.private)
    result = args.output.result()
    say(result, f"Commentary: {address}")
    say(result, f'Load it:    tl.load_commentary("{address}", student)')
    say(result, _said(missing))
    args.output.document({"commentary": address, "missing": missing})


def _pull(args: Pull) -> None:
    name = args.repository.rpartition("/")[2].partition("@")[0]
    say(args.output.progress(), f"Downloading {args.repository} ...")
    out = pull_commentary(
        args.repository, args.out or Path(name or "commentary"), overwrite=args.overwrite
    )
    place = args.out or Path(out.name)
    result = args.output.result()
    say(result, f"Commentary: {place}")
    say(result, f"Show it:    tutelage commentary show {place}")
    args.output.document({"commentary": str(place), "missing": missing_facts(read_card(out))})


def _said(missing: list[str]) -> str:
    if not missing:
        return "The card says all that others need."
    names = ", ".join(FACTS[name].lower() for name in missing)
    return f"Not recorded: {names}. Record them with: tutelage commentary card"


def gains_of_run(run: Path, folder: Path) -> dict[str, Any]:
    """The gains of a commentary over the controls of a run that it taught in."""
    settings = stored_settings(run)
    if settings.commentary is None or settings.commentary.resolve() != folder.resolve():
        raise UsageError(
            f"{run} is no run with the commentary {folder}: give one of tutelage train DATA "
            f"--commentary {folder}."
        )
    try:
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        gains = gains_over_controls(summary["arms"], ARM)
        name = summary["data"]["name"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{run} has no whole summary.json. Go on with: tutelage train --resume {run}"
        ) from error
    student = settings.student or "the default student"
    return {
        "gains": gains,
        "measured_on": f"{student} on {name}, number of seeds: {settings.seeds}",
    }
