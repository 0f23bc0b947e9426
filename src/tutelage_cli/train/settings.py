"""The settings of ``tutelage train``, which define its flags and settings files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tutelage.errors import UsageError, require_known
from tutelage.validation.ranges import (
    at_least_one,
    factor,
    not_negative,
    require_above_zero,
    shares,
)
from tutelage_cli.config.flags import ByFlag, flag
from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.runner.run_folder import run_settings
from tutelage_cli.train.names import ALL, NONE, TAUGHT_BY, USED_BY, controls_of

EMBEDDED = "mnist5k"
COLOURED_DIGITS = ("coloured-mnist", "digits-on-backgrounds")
"""synthetic colour sets whose images must not be mirrored"""
IMAGE_SETTINGS = ("image_column", "image_size", "augment", "broken_images", "empty_classes")
"""settings that apply to images only"""
TEXT_SETTINGS = ("text_column", "max_length")
"""settings that apply to texts only"""
UNROLL_STEPS = 2
"""student steps that a teacher's gradient is unrolled over, where the settings do not say"""
FORMER_DEFAULTS = {"level": "free", "layers": "all", "unroll_steps": UNROLL_STEPS}
"""stored by runs that did not use them, where the default is None now"""


@dataclass(frozen=True)
class TrainSettings:
    """All that determines the result of a run of ``tutelage train``."""

    data: Annotated[str, tyro.conf.Positional] = EMBEDDED
    """Where the images come from: mnist5k (5,000 real digits that ship with a package), a set
    made from others (rotated-mnist, rotated-mnist-overlapping, coloured-mnist,
    digits-on-backgrounds, objects-on-backgrounds), a folder (Parquet files as the Hugging Face
    Hub has them, one subfolder per class, or a CSV with a path and a label column), a
    well-known set of which there is a copy (cifar10, cifar100, mnist, pneumoniamnist), or the
    id of a Hugging Face data set. Or texts: a CSV or Parquet file, or a folder of such, with a
    text and a label column. Or feature vectors: a .npy file with --labels-from, a .npz file, or
    Parquet files with a column of vectors."""

    teacher: tuple[str, ...] = ("margin-loss",)
    """Teachers to train with, beside the untaught student: margin-loss, internal-state, loss,
    curriculum, l2t-loss; or policies of augmentation: learned-augmentation, uniform-augment,
    rand-augment, trivial-augment, auto-augment; or out-of-fold, which starts at the targets of
    cross-fitted; or baselines: mentornet-dd, mentornet, reweight, self-paced, focal, gce."""

    controls: tuple[str, ...] = (ALL,)
    """What to compare teaching with: all, none, or some of checked-only, fine-tuned,
    checked-included, early-stopped, regularised, pruned, forward-corrected, cross-fitted. They
    are students without a teacher, most of them of the same held-out labels; the verdict is
    against the best of them."""

    student: str | None = None
    """Network to train. Of images: cnn (the default of grey ones), cnn4, resnet8 (of colour
    ones), resnet20, resnet32, resnet44, resnet56, resnet110, resnet18-cifar, resnet34-cifar,
    wrn-D-K, efficientnet-lite0 (pretrained), torchvision:NAME, timm:NAME, a folder of
    transformers, or FILE.py:FUNCTION. Of texts: bag (the default) or a folder of transformers.
    Of feature vectors: mlp (the default) or linear."""

    student_weights: Path | None = None
    """Weights that the student starts from, all but its last layer: a .safetensors, .pt or .pth
    file."""

    freeze: bool = False
    """Train an mlp on the features of the pretrained student, which are computed once."""

    tap: str | None = None
    """Module of the student whose output the internal-state teacher takes; if not given, the
    input of the last linear layer."""

    level: Literal["free", "centred"] | None = None
    """The weights of margin-loss and internal-state are a sigmoid of logits: free, as in the
    paper, or centred, with the mean of the batch subtracted from the logits. If not given,
    centred for margin-loss and free for internal-state."""

    folds: int = 5
    """Parts of the training set for out-of-fold predictions, each predicted by a student of the
    others, for pruned, forward-corrected and cross-fitted; 3 cost less and are less accurate
    than 5."""

    rounds: Literal[1, 2] = 2
    """Of cross-fitted and out-of-fold. 1: the targets come from students of folds that train
    with the loss corrected by the transitions between labels. 2: these targets train fresh
    students of folds, from which the targets come; costs more, is more accurate."""

    commentary: Path | None = None
    """Train with this stored commentary instead of learning a teacher: a folder, or
    hf://user/name of the Hugging Face Hub."""

    label_embedding: Literal["keep", "zero"] = "keep"
    """A commentary learned on another number of classes is refused; zero: its parameters of
    classes are zeroed instead."""

    metric: Literal["log-likelihood", "expected-accuracy"] = "log-likelihood"
    """Held-out objective that the teacher maximises: the log-likelihood or the probability of
    the right class."""

    noise: str | None = None
    """Wrong labels to add: none, uniform:RATE, flip:RATE, flip2:RATE or hierarchical:RATE with
    RATE in 0..1 (the last within the superclasses of cifar100), or the labels that people gave
    to cifar10: human:WHO with WHO aggregate, random1, random2, random3 or worst. If not given,
    flip2:0.4 on the embedded digits and none on your own data."""

    imbalance: float | None = None
    """Keep a long-tailed part of the training set: the first class as large as the smallest
    was, the last one smaller by this factor, those between in geometric steps."""

    held_out: int | None = None
    """Images with right labels, class balanced, for the held-out loss; taken from the training
    set and not trained on. If not given, 500, or a fifth of the set where that is less; 20 of
    the embedded digits."""

    held_out_from: str | None = None
    """A source like the data, whose labels are right: all of it is held out, in place of
    training examples."""

    test_from: str | None = None
    """A source like the data, whose labels are right: all of it is the test set, in place of
    the data's own."""

    labels_from: Path | None = None
    """Train on labels from this Parquet or CSV file, found by the names of the images where it
    has a column name (or path), else by row; held-out images keep the data's own labels. Of a
    .npy file of features: its labels, by row."""

    label_column: str | None = None
    """Label column of the file that --labels-from names, else of the data, where it is guessed
    if not given."""

    weights_from: Path | None = None
    """Train with weights of this Parquet or CSV file instead of a teacher, found by the names
    of the images: columns name (or path) and weight, such as students/*/examples.parquet."""

    default_weight: float | None = None
    """Weight of images that this file lacks, or whose picture or label has changed since; if
    not given, such files are refused."""

    image_column: str | None = None
    """Image (or path) column of the data; guessed if not given."""

    text_column: tuple[str, ...] = ()
    """Text column of the data, or two for pairs of sentences; guessed if not given, in tables
    that have no column of images."""

    feature_column: str | None = None
    """Column or array of feature vectors; guessed if not given."""

    max_length: int = 128
    """Tokens of a text that a student sees; the rest is cut off."""

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

    limit: int | None = None
    """Train on this many images only, class balanced, beside the held-out ones."""

    augment: Literal["none", "crop", "crop-flip"] | None = None
    """Random crop after padding by 4, and horizontal flip. If not given, crop-flip for colour
    images, and none for grey ones and for made sets of digits, which no mirror leaves alone."""

    epochs: int = 12
    """Passes over the training set."""

    batch_size: int = 100
    """Images per student step."""

    lr: float = 0.1
    """Learning rate of the student's momentum SGD; 0.01 suits a pretrained student of texts."""

    choose_lr: tuple[float, ...] = ()
    """Learning rates to choose from in place of --lr: every arm of a seed gets the one with
    which an untaught student predicts the held-out labels best."""

    momentum: float = 0.9
    """Velocity decay per step, in (0, 1)."""

    weight_decay: float = 5e-4
    """L2 penalty of the student's weights, per unit of learning rate; where the control
    regularised is trained, taught students have the multiple of it that regularised chose."""

    decay_at: tuple[float, ...] = (2 / 3, 5 / 6)
    """Shares of the run after which the student's learning rate is divided by ten; the first
    epoch has the whole rate."""

    teacher_lr: float | None = None
    """Learning rate of the teacher's Adam; 0.02 if not given, 0.1 for learned-augmentation, and
    1e-4 for l2t-loss, which fails at 0.02."""

    teacher_every: int | None = None
    """Student steps between two teacher steps; if not given, 2 through the last layer, 1 for
    the teacher loss, 2 for learned-augmentation, which augments at one of so many, and 5 for
    all others."""

    unroll_steps: int | None = None
    """Student steps that the teacher's gradient is unrolled over, through all layers; 2 if not
    given."""

    layers: Literal["all", "last"] | None = None
    """Layers of the student that the gradient of margin-loss and internal-state is taken
    through: all, or the last linear one alone over one student step. If not given, the last for
    margin-loss where features are given, unless it unrolls steps, and else all."""

    seeds: int = 3
    """How often every student is trained, with seeds 0, 1, ...; the same for every teacher."""

    jobs: int | None = None
    """Students trained at the same time; if not given, the number of CPU cores, and 1 on a GPU
    or where all of them are expected to take less than 10 seconds."""

    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        if not self.teacher:
            raise UsageError(f"--teacher names none. Allowed: {', '.join(TAUGHT_BY)}.")
        for name in self.teacher:
            require_known("Unknown teacher", name, TAUGHT_BY)
        if len(set(self.teacher)) < len(self.teacher):
            raise UsageError(f"--teacher names one twice: {' '.join(self.teacher)}.")
        controls_of(self.controls)
        _check_commentary(self)
        _check_labels(self)
        _check_weights(self)
        _check_rates(self)
        _check_use(self)
        _check_numbers(self)
        unroll, every = self.unroll_steps, self.teacher_every
        if unroll is None or (self.layers == "last" and unroll == UNROLL_STEPS):
            return  # earlier releases stored the default
        if self.layers == "last":
            raise UsageError(
                "--layers last takes the teacher's gradient through one student step: leave "
                "--unroll-steps out."
            )
        if every is not None and unroll > every:
            raise UsageError(
                f"--unroll-steps is {unroll}, but there are only {every} student steps between "
                f"two teacher steps: give --teacher-every {unroll} or more."
            )

    @property
    def noise_or_default(self) -> str:
        """The noise to add, the default filled in."""
        default = "flip2:0.4" if self.data == EMBEDDED and self.labels_from is None else "none"
        return default if self.noise is None else self.noise

    def augment_or_default(self, channels: int) -> str:
        """The augmentation, the default filled in."""
        plain = channels != 3 or self.data in COLOURED_DIGITS
        return self.augment or ("none" if plain else "crop-flip")

    @property
    def data_label_column(self) -> str | None:
        """The label column of the data, where ``labels_from`` gives no other labels."""
        return self.label_column if self.labels_from is None else None

    @property
    def taught(self) -> tuple[str, ...]:
        """The arms with a teacher."""
        if self.weights_from is not None:
            return ("weights",)
        return ("commentary",) if self.commentary is not None else self.teacher

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms to train: untaught, taught, controls."""
        return ("untaught", *self.taught, *controls_of(self.controls))


def _check_commentary(settings: TrainSettings) -> None:
    if settings.commentary is None:
        if settings.label_embedding != "keep":
            raise UsageError(
                "--label-embedding is about a stored commentary: give --commentary, too, or "
                "leave it out."
            )
        return
    if settings.teacher != TrainSettings.teacher:
        raise UsageError(
            f"A commentary teaches instead of {', '.join(settings.teacher)}: give --commentary "
            "or --teacher, not both."
        )


def _check_labels(settings: TrainSettings) -> None:
    file, noise = settings.labels_from, settings.noise_or_default
    if file is None:
        return
    if noise.startswith("human:"):
        raise UsageError(
            f"--noise {noise} and --labels-from {file} both give the labels: give only one."
        )
    if settings.label_column is None and not needs_label_file(settings):
        raise UsageError(f"--labels-from {file} needs --label-column: the name of a column.")


def needs_label_file(settings: TrainSettings) -> bool:
    """Whether the data have no labels of their own (.npy files): ``labels_from`` gives them."""
    return Path(settings.data).suffix.casefold() == ".npy"


def _check_weights(settings: TrainSettings) -> None:
    if settings.weights_from is None:
        if settings.default_weight is not None:
            raise UsageError("--default-weight is about --weights-from: give that, too.")
        return
    if settings.teacher != TrainSettings.teacher or settings.commentary is not None:
        raise UsageError(
            "--weights-from teaches instead of --teacher and --commentary: give one of the "
            "three."
        )
    not_negative(ByFlag(settings), "--default-weight")


def _check_rates(settings: TrainSettings) -> None:
    rates = settings.choose_lr
    for lr in rates:
        require_above_zero("every number of --choose-lr", lr)
    if len(rates) == 1 or len(set(rates)) < len(rates):
        listed = " ".join(f"{lr:g}" for lr in rates)
        raise UsageError(
            f"--choose-lr is {listed}; allowed: none, or two and more that differ."
        )
    if rates and settings.lr != TrainSettings.lr:
        raise UsageError("--lr and --choose-lr both give the learning rate: give only one.")


def _check_use(settings: TrainSettings) -> None:
    for name, teachers in USED_BY.items():
        value = getattr(settings, name)
        chosen = value not in (getattr(TrainSettings, name), FORMER_DEFAULTS.get(name))
        if chosen and not set(teachers) & set(settings.taught):
            arms = ", ".join(("untaught", *settings.taught))
            raise UsageError(
                f"{flag(name)} does nothing here, where students are {arms}: it is about "
                f"{', '.join(teachers)}. Give such a teacher, or leave {flag(name)} out."
            )


def _check_numbers(settings: TrainSettings) -> None:
    by_flag = ByFlag(settings)
    at_least_one(
        by_flag, "--held-out", "--epochs", "--batch-size", "--teacher-every", "--seeds"
    )
    at_least_one(by_flag, "--unroll-steps", "--limit", "--jobs", "--image-size", "--max-length")
    factor(by_flag, "--imbalance")
    not_negative(by_flag, "--lr", "--weight-decay", "--teacher-lr")
    if not 0 < settings.momentum < 1:
        raise UsageError(f"--momentum must lie in (0, 1), got {settings.momentum:g}.")
    shares(by_flag, "--decay-at")
    if settings.folds < 2:
        raise UsageError(f"--folds must be at least 2, got {settings.folds}.")


def stored_settings(run: Path) -> TrainSettings:
    """The settings that a run was started with."""
    return from_plain(TrainSettings, {"controls": [NONE]} | run_settings(run), str(run))
