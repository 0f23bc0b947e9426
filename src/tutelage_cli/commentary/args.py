"""Arguments of ``tutelage commentary``; imports nothing heavy, so that ``--help`` is fast."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.terminal import Output

LEARN_HELP = """Learn a commentary with one student, to train others with it.

A stopped run continues after its last round when the same command is given
again.

Examples:
  tutelage commentary learn mnist5k --teacher blending --out digits/blending
  tutelage commentary learn my-images/ --teacher mask --algorithm implicit
  tutelage train mnist5k --commentary digits/blending --student resnet8"""
SHOW_HELP = """Describe a commentary, and write a page with charts of what it learned.

Examples:
  tutelage commentary show digits/blending
  tutelage commentary show my-images/commentary --data my-images/ --out page.html"""

EXPORT_HELP = """Write a learned augmentation as JSON that names functions of torchvision.

Nine lines apply it without this package: docs/augmentation.md.

Examples:
  tutelage commentary export runs/x/commentary
  tutelage commentary export runs/x/commentary --size 64 64 --out policy.json"""


@dataclass(frozen=True)
class Learn:
    """Learn a commentary."""

    settings: Annotated[LearnSettings, tyro.conf.arg(name="")]

    out: Path | None = None
    """Folder of the commentary. If not given: commentaries/DATA-TEACHER, numbered if that
    exists."""

    log: Literal["tensorboard", "mlflow", "wandb"] | None = None
    """Write the held-out loss of every round to OUT.curves; tensorboard --logdir shows it.
    mlflow and wandb as for `tutelage train`."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Show:
    """Show a commentary."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary."""

    data: str | None = None
    """Images to show it on, as for `tutelage train`; curricula and masks need some. If not
    given, the data it was learnt on where that has a name of its own. Of a folder or table,
    what cannot be read or has no label is left out."""

    image_size: int | None = None
    """Pixels a side of images of many sizes, as for `tutelage train`."""

    ignore_labels: tuple[str, ...] = ()
    """Labels that mark rows as unlabelled, as for `tutelage train`."""

    out: Path | None = None
    """The HTML page. If not given: NAME-OF-THE-FOLDER.html beside the folder."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Export:
    """Write a learned augmentation as a file for others."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary, of a learned augmentation."""

    size: tuple[int, int] | None = None
    """Height and width of the images that it is for, pixels. If not given, of those that it was
    learnt on."""

    out: Path | None = None
    """The JSON file. If not given: NAME-OF-THE-FOLDER.json beside the folder."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Commentary:
    """Arguments of ``tutelage commentary``."""

    command: (
        Annotated[
            Learn,
            tyro.conf.subcommand(
                "learn", default=Learn(LearnSettings()), description=LEARN_HELP
            ),
        ]
        | Annotated[Show, tyro.conf.subcommand("show", description=SHOW_HELP)]
        | Annotated[Export, tyro.conf.subcommand("export", description=EXPORT_HELP)]
    )
