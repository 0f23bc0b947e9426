"""What ``tutelage commentary`` can be asked; light, so that ``--help`` need not wait."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tutelage.learning.settings import LearnSettings

LEARN_HELP = """Learn a commentary with one student, to train others with it.

A run that was stopped goes on after its last round when the same command is
given again.

Examples:
  tutelage commentary learn mnist5k --teacher blending --out digits/blending
  tutelage commentary learn my-images/ --teacher mask --algorithm implicit
  tutelage train mnist5k --commentary digits/blending --student resnet8"""
SHOW_HELP = """Say what a commentary is, and write a page with pictures of what it learnt.

Examples:
  tutelage commentary show digits/blending
  tutelage commentary show my-images/commentary --data my-images/ --out page.html"""


@dataclass(frozen=True)
class Learn:
    """Learn a commentary."""

    settings: Annotated[LearnSettings, tyro.conf.arg(name="")]

    out: Path | None = None
    """Folder of the commentary. If not given: commentaries/DATA-TEACHER, numbered if that
    exists."""


@dataclass(frozen=True)
class Show:
    """Show a commentary."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary."""

    data: str | None = None
    """Images to show it on, as for `tutelage train`; curricula and masks need some. If not
    given, the data it was learnt on where that has a name of its own."""

    out: Path | None = None
    """The HTML page. If not given: NAME-OF-THE-FOLDER.html beside the folder."""


@dataclass(frozen=True)
class Commentary:
    """What ``tutelage commentary`` was asked."""

    asked: (
        Annotated[
            Learn,
            tyro.conf.subcommand(
                "learn", default=Learn(LearnSettings()), description=LEARN_HELP
            ),
        ]
        | Annotated[Show, tyro.conf.subcommand("show", description=SHOW_HELP)]
    )
