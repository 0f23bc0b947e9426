"""Arguments of ``tutelage commentary``; imports nothing heavy, so that ``--help`` is fast."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.runner.log_names import LogName
from tutelage_cli.terminal import Output

LEARN_HELP = """Learn a commentary with one student, to train others with it.

A stopped run continues after its last episode when the same command is given
again.

Examples:
  tutelage commentary learn mnist5k --teacher blending --out digits/blending
  tutelage commentary learn my-images/ --teacher mask --algorithm implicit
  tutelage train mnist5k --commentary digits/blending --student resnet8"""
SHOW_HELP = """Describe a commentary, and write a page with charts of what it learned.

Examples:
  tutelage commentary show digits/blending
  tutelage commentary show my-images/commentary --data my-images/ --out page.html
  tutelage commentary show hf://user/digits-blending"""

EXPORT_HELP = """Write a learned augmentation as JSON that names functions of torchvision.

Nine lines apply it without this package: docs/augmentation.md.

Examples:
  tutelage commentary export runs/x/commentary
  tutelage commentary export runs/x/commentary --size 64 64 --out policy.json"""


CARD_HELP = """Record what is missing on the card of a commentary: README.md beside it.

With --run, the gain in test accuracy of students that it taught, beside the controls of that
run. Without flags: say what is missing.

Examples:
  tutelage train mnist5k --commentary digits/blending --student resnet8 --out runs/reused
  tutelage commentary card digits/blending --run runs/reused
  tutelage commentary card my-images/commentary --data pets --student resnet32 --seeds 0"""

PUSH_HELP = """Upload a commentary to a data set repository of the Hugging Face Hub.

Needs a token that may write: hf auth login, or HF_TOKEN. The repository is made if there is
none. Others load it with tl.load_commentary("hf://user/name", student), or pull it.

Examples:
  tutelage commentary push digits/blending user/digits-blending
  tutelage commentary push digits/blending user/digits-blending --private"""

PULL_HELP = """Download a commentary from a data set repository of the Hugging Face Hub.

Examples:
  tutelage commentary pull user/digits-blending
  tutelage commentary pull user/digits-blending@main digits/blending"""


@dataclass(frozen=True)
class Learn:
    """Learn a commentary."""

    settings: Annotated[LearnSettings, tyro.conf.arg(name="")]

    out: Path | None = None
    """Folder of the commentary. If not given: commentaries/DATA-TEACHER, numbered if that
    exists."""

    overwrite: bool = False
    """Replace the commentary that is in OUT, once the new one is learned."""

    log: LogName | None = None
    """Write the held-out loss of every episode to OUT.curves; tensorboard --logdir shows it.
    mlflow and wandb as for `tutelage train`."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Show:
    """Show a commentary."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary: a folder, or hf://user/name of the Hugging Face Hub."""

    data: str | None = None
    """Images to show it on, as for `tutelage train`; curricula and masks need some. If not
    given, the data it was learned on where that has a name of its own. Of a folder or table,
    what cannot be read or has no label is left out."""

    image_size: int | None = None
    """Pixels a side of images of many sizes, as for `tutelage train`."""

    ignore_labels: tuple[str, ...] = ()
    """Labels that mark rows as unlabelled, as for `tutelage train`."""

    out: Path | None = None
    """The HTML page. If not given: NAME-OF-THE-FOLDER.html beside the folder; of a commentary
    of the Hub, here."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Export:
    """Write a learned augmentation as a file for others."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary, of a learned augmentation: a folder, or hf://user/name."""

    size: tuple[int, int] | None = None
    """Height and width of the images that it is for, pixels. If not given, of those that it was
    learned on."""

    out: Path | None = None
    """The JSON file. If not given: NAME-OF-THE-FOLDER.json beside the folder; of a commentary
    of the Hub, here."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Card:
    """Record what is missing on the card of a commentary."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary."""

    run: Path | None = None
    """A run of `tutelage train --commentary FOLDER`: its gains are recorded."""

    data: str | None = None
    """The data that it was learned on, by name."""

    student: str | None = None
    """The student that it was learned with, by name."""

    signal: str | None = None
    """The signal that it was learned by."""

    seeds: tuple[int, ...] = ()
    """The seeds of the runs that it was learned in."""

    runs: int | None = None
    """Fresh students that it was learned through, one after the other."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Push:
    """Upload a commentary to the Hugging Face Hub."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The commentary."""

    repository: Annotated[str, tyro.conf.Positional]
    """The data set repository, as user/name."""

    private: bool = False
    """Make the repository private, if it is made."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Pull:
    """Download a commentary from the Hugging Face Hub."""

    repository: Annotated[str, tyro.conf.Positional]
    """The data set repository, as user/name or user/name@revision."""

    out: Annotated[Path | None, tyro.conf.Positional] = None
    """Folder of the commentary. If not given: the name of the repository, here."""

    overwrite: bool = False
    """Replace the commentary that is in OUT."""

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
        | Annotated[Card, tyro.conf.subcommand("card", description=CARD_HELP)]
        | Annotated[Push, tyro.conf.subcommand("push", description=PUSH_HELP)]
        | Annotated[Pull, tyro.conf.subcommand("pull", description=PULL_HELP)]
    )
