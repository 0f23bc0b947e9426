"""Learned masks of images with two digits: they are near the digit that is the label.

Raghu et al. 2021, section 5, Figure 6 and appendix D: a red and a blue MNIST digit in two
quadrants; the red one is the label. The paper shows images with masks and prints no number.
Figures: ``docs/results.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import Tensor

from papers.framework.recipe import Outcome, Panel, Plot, Recipe, above, below, expectation
from papers.framework.settings import Positive, RecipeSettings, Student
from papers.raghu2021commentaries.masks_table import attention_masks, mask_drawing
from papers.students import batches_of, build_network, endless, evaluate, joint_tutor
from tutelage.randomness import mixed_seed
from tutelage.teachers import AttentionMask
from tutelage.training.loops import alternating
from tutelage.types import Batch
from tutelage_cli.claims import Claim
from tutelage_cli.data.images import Described
from tutelage_cli.data.local import load_known
from tutelage_cli.data.synthetic.named import Sizes, coloured_parts

EVALUATIONS = 10
"""evaluations on test images while the masks are learned, besides one before training"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    side: int = 56  # pixels of an image; a digit has half of it
    sigma: Positive = 15.0  # standard deviation of the mask, pixels
    student: Student = "resnet18-cifar"  # see ``tutelage.models.STUDENTS``
    lr: Positive = 1e-4  # of Adam, for student and masks, and the scale of the Neumann series
    batch: int = 128  # images per student step, and as many held-out ones per teacher step
    steps: int = 7800  # of the student, each with a teacher step
    train: int = 10_000  # images
    held_out: int = 5_000  # images
    tested: int = 5_000  # test images


@dataclass(frozen=True)
class MaskEvaluation:
    """The test images, and the centres of their digits."""

    batches: Sequence[Batch]
    red: Tensor  # [N, 2] row and column of the red digit's centre, pixels
    blue: Tensor  # [N, 2]
    side: int  # pixels of an image

    @torch.no_grad()
    def centres(self, masks: AttentionMask) -> Tensor:
        """The centre of the mask of every image."""
        return torch.cat([masks.centres(batch.inputs) for batch in self.batches]).cpu()

    def measure(self, masks: AttentionMask) -> dict[str, float]:
        """Metrics of the distance between the masks' centres and the digits."""
        centre = self.centres(masks)
        red, blue = ((centre - digit).norm(dim=1) for digit in (self.red, self.blue))
        return {
            "near_red": float((red < blue).float().mean()),
            "in_red": float(((centre - self.red).abs() < self.side / 4).all(1).float().mean()),
            "red_distance": float(red.mean()),
            "blue_distance": float(blue.mean()),
        }


def _labelled(part: Described, arm: str) -> Described:
    labels = part.images.labels if arm == "red" else part.facts["blue_label"]
    return Described(part.images.with_labels(labels), part.facts)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Learn masks together with one student."""
    sizes = Sizes(settings.train, settings.held_out, settings.tested)
    parts = coloured_parts(settings.side, sizes, seed=mixed_seed(seed, 2))
    train, held_out, tested = (_labelled(part, arm) for part in parts)
    images = [part.images for part in (train, held_out, tested)]
    training, judging, testing = batches_of(
        images, [settings.batch] * 3, mixed_seed(seed, 3), device
    )
    digits = tested.facts["red_centre"], tested.facts["blue_centre"]
    test = MaskEvaluation(list(testing.whole(500)), *digits, settings.side)
    student = build_network(settings.student, train.images, mixed_seed(seed, 0)).to(device)
    masks = attention_masks(3, settings.sigma, mixed_seed(seed, 1)).to(device)
    tutor = joint_tutor(student, masks, settings.lr, seed=seed)
    evaluations = [test.measure(masks)]
    batches = islice(endless(training), settings.steps)
    interval = max(1, settings.steps // EVALUATIONS)
    for _ in alternating(tutor, batches, map(judging.draw, count())):
        if tutor.steps % interval == 0:
            evaluations.append(test.measure(masks))
    return Outcome(
        evaluations[-1] | {"test_accuracy": evaluate(tutor, testing)["test_accuracy"]},
        {name: [metrics[name] for metrics in evaluations] for name in evaluations[0]},
        {"masks": mask_drawing(tested.images, test.centres(masks), settings.sigma)},
    )


ACROSS = "evaluation (1: before training)"
RECIPE = Recipe(
    name="commentaries-masks-coloured-mnist",
    title="Masks that are learned jointly with a student find the digit that is the label.",
    paper="commentaries",
    where="Figure 6, coloured MNIST",
    arms=("red", "blue"),
    metrics={
        "near_red": "share of test images whose mask centre is nearer to the red digit than "
        "to the blue one; chance is 0.5",
        "in_red": "share of test images whose mask centre is in the red digit's quadrant; "
        "chance is 0.25",
        "red_distance": "distance of the mask centre from the red digit's centre, mean over "
        "test images, pixels",
        "blue_distance": "the same for the blue digit",
        "test_accuracy": "of the student on masked test images, %",
    },
    settings={
        "smoke": Settings(28, 7.0, "cnn", 1e-3, 8, 2, 16, 16, 16),
        "mini": Settings(32, 8.0, "cnn", 1e-3, 32, 600, 4000, 2000, 1000),
        "gpu": Settings(steps=1200),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 120},
    run=run,
    claims=(
        Claim(
            "If the red digit is the label, the mask centre is nearer to it than to the blue "
            "digit, in most test images and in the mean distance.",
            above("near_red", "red", 0.5)
            + below("red_distance", "red", ("red", "blue_distance")),
        ),
        expectation(
            "If the red digit is the label, the mask centre is nearer to it in more than 80% "
            "of the test images.",
            above("near_red", "red", 0.8),
        ),
        expectation(
            "If the blue digit is the label of the same images, the mask centre is nearer to "
            "it, in most test images and in the mean distance.",
            below("near_red", "blue", 0.5)
            + below("blue_distance", "blue", ("blue", "red_distance")),
        ),
    ),
    plots=(
        *(
            Panel(f"Test images and masks, label {arm}", arm, "masks")
            for arm in ("red", "blue")
        ),
        Plot(
            "Images with the mask nearer to the red digit",
            "share",
            {f"label {arm}": (arm, "near_red") for arm in ("red", "blue")},
            ACROSS,
        ),
        Plot(
            "Distance of mask from digits, label red",
            "pixels",
            {f"to {colour}": ("red", f"{colour}_distance") for colour in ("red", "blue")},
            ACROSS,
        ),
    ),
    prepare=lambda _settings: load_known("mnist"),
)
