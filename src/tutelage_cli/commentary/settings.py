"""The settings of ``tutelage commentary learn``, which define its flags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tutelage.errors import UsageError, require_known
from tutelage.validation.ranges import above_zero, at_least_one
from tutelage_cli.config.flags import ByFlag
from tutelage_cli.train.names import LEARNING, OLA, USED_BY
from tutelage_cli.train.settings import EMBEDDED, TrainSettings

LEARNED = LEARNING | {
    "blending": "how much of a second image to mix in, for each pair of classes",
    "mask": "which spot of each image the student sees, when it is tested, too",
}
"""the teachers by name"""
ON_IMAGES = ("curriculum", "blending", "mask")
"""those whose input is images"""
TEACHER_LR = {"blending": 0.1, "margin-loss": 0.02, "internal-state": 0.02}
"""default learning rates; ``OTHER_LR`` for the others"""
OTHER_LR = 1e-3
SHARED = (
    *("data", "student", "student_weights", "level", "noise", "held_out", "held_out_from"),
    *("limit", "labels_from", "text_column", "max_length", "feature_column", "batch_size"),
    *("image_column", "label_column", "broken_images", "empty_classes", "missing_labels"),
    *("ignore_labels", "image_size", "device"),
)
"""settings of the data, the student and the device, as those of ``tutelage train``"""
UNROLL_HELD_OUT = 500
"""default size of the held-out batch after a whole run"""


@dataclass(frozen=True)
class LearnSettings:
    """All that determines the result of ``tutelage commentary learn``."""

    data: Annotated[str, tyro.conf.Positional] = EMBEDDED
    """Where the examples come from, as for `tutelage train`: a name, a folder or a Hub id of
    images, a table of texts, a table of feature vectors."""

    teacher: str = "curriculum"
    """What to learn: curriculum, blending, mask, loss, l2t-loss, margin-loss or
    internal-state. The first three are about images alone."""

    student: str | None = None
    """Network to learn with, as for `tutelage train`; cnn for images if not given. The
    commentary trains others, too."""

    student_weights: Path | None = None
    """Weights that every student starts from, as for `tutelage train`."""

    algorithm: Literal["unroll", "implicit"] = "unroll"
    """unroll: fresh students one after the other, with a teacher step through the whole run of
    each. implicit: one student, with a teacher step after each of its steps."""

    steps: int = 100
    """Student steps in an episode."""

    episodes: int = 20
    """unroll: students, with one teacher step after each. implicit: parts of the one student's
    run."""

    batch_size: int = 50
    """Examples per student step."""

    held_out_batch: int | None = None
    """Held-out examples on which a student is evaluated each time; if not given, 500 (or all,
    where there are fewer) for unroll and as many as in a batch for implicit."""

    optimizer: Literal["adam", "sgd"] = "adam"
    """The student's optimiser; sgd has no momentum."""

    lr: float = 1e-3
    """Learning rate of the student."""

    teacher_lr: float | None = None
    """Learning rate of the teacher's Adam; if not given, 0.1 for blending, 0.02 for margin-loss
    and internal-state, and 0.001 for the others."""

    level: Literal["free", "centred"] = "free"
    """Whether the level of the weights of margin-loss and internal-state is held, as for
    `tutelage train`."""

    sigma: float | None = None
    """Standard deviation of a mask, pixels; a quarter of the image's height if not given."""

    held_out: int | None = None
    """Examples, class balanced, on which students are evaluated; taken from the training set
    and not trained on. 500, or a fifth of the training set, if not given."""

    held_out_from: str | None = None
    """A folder, table or id of examples with labels you trust: students are evaluated on all
    of it in place of training examples."""

    noise: str = "none"
    """Wrong labels to add to what is trained on: none, uniform:RATE, flip:RATE, flip2:RATE or
    hierarchical:RATE with RATE in 0..1, or human:WHO (docs/data.md)."""

    limit: int | None = None
    """Train on this many examples only, class balanced, beside the held-out ones."""

    labels_from: Path | None = None
    """A file of labels, as for `tutelage train`; those of a .npy file of feature vectors."""

    text_column: tuple[str, ...] = ()
    """Text column of a table of texts, or two of pairs; guessed if not given."""

    max_length: int = TrainSettings.max_length
    """Tokens of a text that are read."""

    feature_column: str | None = None
    """Column or array of feature vectors; guessed if not given."""

    image_column: str | None = None
    """Image (or path) column of the data; guessed if not given."""

    label_column: str | None = None
    """Label column of the data; guessed if not given."""

    broken_images: Literal["refuse", "skip"] = "refuse"
    """skip: leave images out that cannot be read, and list them."""

    empty_classes: Literal["refuse", "keep"] = "refuse"
    """keep: take class folders without images as classes that no example has."""

    missing_labels: Literal["refuse", "skip"] = "refuse"
    """skip: leave rows out that have no label, and list them."""

    ignore_labels: tuple[str, ...] = ()
    """Labels that mark rows as unlabelled, such as 255 or -1: these rows are left out."""

    image_size: int | None = None
    """Pixels a side: cut the largest square about each image's centre and bring it to that
    size. If not given, all images must be of one size."""

    seed: int = 0
    """Seed of all random numbers."""

    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        if self.teacher == OLA:
            raise UsageError(
                f"{OLA} learns along with a student: tutelage train --teacher {OLA}. Its "
                "commentary is then in the run's folder."
            )
        require_known("Unknown teacher", self.teacher, LEARNED)
        at_least_one(ByFlag(self), "--steps", "--episodes", "--held-out-batch")
        above_zero(ByFlag(self), "--lr", "--teacher-lr", "--sigma")
        if self.sigma is not None and self.teacher != "mask":
            raise UsageError(f"--sigma is of masks; the teacher {self.teacher} has none.")
        if self.level != "free" and self.teacher not in USED_BY["level"]:
            levelled = " and ".join(USED_BY["level"])
            raise UsageError(f"--level is about {levelled}; {self.teacher} has none to hold.")
        _ = self.study

    @property
    def study(self) -> TrainSettings:
        """The settings of a study with the same data and student; without augmentation."""
        return TrainSettings(**{name: getattr(self, name) for name in SHARED}, augment="none")

    @property
    def teacher_lr_or_default(self) -> float:
        """The teacher's learning rate, the default filled in."""
        default = TEACHER_LR.get(self.teacher, OTHER_LR)
        return default if self.teacher_lr is None else self.teacher_lr

    @property
    def held_out_batch_or_default(self) -> int:
        """Held-out images in each held-out loss, the default filled in."""
        default = UNROLL_HELD_OUT if self.algorithm == "unroll" else self.batch_size
        size = default if self.held_out_batch is None else self.held_out_batch
        limited = self.held_out_from is None and self.held_out is not None
        return min(size, self.held_out or size) if limited else size
