"""Weights of images of ones, rotated to the left or to the right, by their angle.

Raghu et al. 2021, section 3.1: a curriculum of example weights, learned by algorithm 1 through
whole student runs. Figures: ``docs/results.md``.
"""

from dataclasses import dataclass

import torch
from scipy.stats import rankdata
from torch import Tensor

from papers.framework.recipe import Outcome, Plot, Recipe, above, below, expectation
from papers.raghu2021commentaries.curriculum_cifar import CurriculumSettings, learned
from papers.students import batches_of, correlation
from tutelage.models import TwoBlockCNN
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import Curriculum
from tutelage.types import Batch, Observation, Progress, as_prepared
from tutelage.validation.ranges import at_least_one
from tutelage_cli.claims import Claim
from tutelage_cli.data.local import load_known
from tutelage_cli.data.synthetic.named import Sizes, rotated_parts
from tutelage_cli.data.synthetic.rotated_ones import OVERLAPPING, SEPARATE

ARMS = {"overlapping": OVERLAPPING, "separate": SEPARATE}
FIRST = {"overlapping": 0, "separate": 15}
"""smallest angle of each arm, in degrees, where its bins begin"""
BINS, WIDTH = 6, 5  # the bins, and degrees in each
MOMENTS = 10  # evaluations of the weights along a student's training, besides one at its start
PAPER = CurriculumSettings()  # the same for both arms


@dataclass(frozen=True)
class Settings:
    """Settings of a job; the defaults are the paper's."""

    overlapping: CurriculumSettings = PAPER
    separate: CurriculumSettings = PAPER
    sizes: tuple[int, int, int] = (10_000, 5_000, 5_000)
    """training, held-out and test images"""

    def __post_init__(self) -> None:
        at_least_one(Sizes(*self.sizes), *Sizes._fields)


@dataclass(frozen=True)
class _TestImages:
    batch: Batch
    degrees: Tensor  # [N] absolute angle of each image

    @torch.no_grad()
    def weights(self, curriculum: Curriculum, fraction: float) -> Tensor:
        # at a fraction of a student's training
        unused = self.batch.inputs.new_zeros(0)
        observation = Observation(unused, unused, {}, Progress(fraction))
        return curriculum.weigh(as_prepared(self.batch), observation).cpu()

    def correlations(self, curriculum: Curriculum) -> list[float]:
        # Spearman's, of weight and angle, at each moment of a student's training
        fractions = [moment / MOMENTS for moment in range(MOMENTS + 1)]
        return [_spearman(self.weights(curriculum, f), self.degrees) for f in fractions]

    def by_bin(self, curriculum: Curriculum, first: int) -> list[float]:
        # mean weight of each bin at the end of a student's training
        weights = self.weights(curriculum, 1.0)
        index = ((self.degrees - first) / WIDTH).long().clamp(0, BINS - 1)
        return [float(weights[index == n].mean()) for n in range(BINS)]


def _spearman(one: Tensor, other: Tensor) -> float:
    return correlation(*(torch.from_numpy(rankdata(values)) for values in (one, other)))


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Learn a curriculum, and measure its weights of test images."""
    own = settings.overlapping if arm == "overlapping" else settings.separate
    sizes = Sizes(*settings.sizes)
    train, held_out, test = rotated_parts(ARMS[arm], sizes, seed=mixed_seed(seed, 2))
    images = [part.images for part in (train, held_out, test)]
    training, judging, testing = batches_of(
        images, (own.batch, *sizes[1:]), mixed_seed(seed, 3), device
    )
    held_out_batch, test_batch = (
        next(batches.whole(batches.size)) for batches in (judging, testing)
    )
    test_images = _TestImages(test_batch, test.facts["degrees"].abs())
    with seeded(mixed_seed(seed, 1)):
        curriculum = Curriculum(TwoBlockCNN(2, 1, 28)).to(device)
    before = test_images.correlations(curriculum)
    episodes = learned(curriculum, own, training, held_out_batch)
    losses = [float(episode.held_out_loss) for episode in episodes]
    after = test_images.correlations(curriculum)
    bins = test_images.by_bin(curriculum, FIRST[arm])
    series = {"weight": bins, "learned": after[1:], "untaught": before[1:]}
    return Outcome(_metrics(before, after, bins), series | {"held-out loss": losses})


def _metrics(before: list[float], after: list[float], bins: list[float]) -> dict[str, float]:
    return {
        "correlation_start": after[0],
        "correlation_end": after[-1],
        "correlation_change": after[-1] - after[0],
        "untaught_end": before[-1],
        "untaught_change": before[-1] - before[0],
        "smallest_angles": bins[0],
        "least_beyond": min(bins[1:]),
        "largest_angles": bins[-1],
        "large_angles": sum(bins[-2:]) / 2,
    }


def _by_angle(arm: str) -> Plot:
    across = f"bin of |rotation|, {WIDTH} degrees each, from {FIRST[arm]}"
    return Plot(
        f"Weight at the end of training, {arm}", "weight", {arm: (arm, "weight")}, across=across
    )


def _along(arm: str) -> Plot:
    lines = {series: (arm, series) for series in ("learned", "untaught")}
    title = f"|rotation| and weight, {arm}"
    return Plot(title, "rank correlation", lines, across="tenth of a student's training")


SMOKE = CurriculumSettings(2, 8, 1e-3, 2)
RECIPE = Recipe(
    name="commentaries-rotated-mnist",
    title="Weights are low at angles that both classes share; without such, at large angles.",
    paper="commentaries",
    where="Figures 1, B.1 and B.2",
    arms=tuple(ARMS),
    metrics={
        "correlation_start": "Spearman correlation of |rotation| and weight at the start of a "
        "student's training",
        "correlation_end": "the same at the end",
        "correlation_change": "correlation_end minus correlation_start",
        "untaught_end": "correlation at the end with an untrained curriculum",
        "untaught_change": "change from start to end with an untrained curriculum",
        "smallest_angles": "mean weight in the first bin of 5 degrees, at the end of training",
        "least_beyond": "smallest mean weight of the other bins",
        "largest_angles": "mean weight in the last bin",
        "large_angles": "mean of the mean weights of the last two bins",
    },
    settings={
        "smoke": Settings(SMOKE, SMOKE, (16, 16, 200)),
        "mini": Settings(
            CurriculumSettings(), CurriculumSettings(teacher_steps=10), (4000, 1000, 1000)
        ),
        "gpu": Settings(
            CurriculumSettings(teacher_steps=10), CurriculumSettings(teacher_steps=10)
        ),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 20},
    run=run,
    claims=(
        Claim(
            "With shared angles (arm overlapping, within 5 degrees), weights are lowest at "
            "these angles.",
            below("smallest_angles", "overlapping", ("overlapping", "least_beyond")),
        ),
        Claim(
            "With shared angles, weights within 5 degrees are lower than from 20 degrees on.",
            below("smallest_angles", "overlapping", ("overlapping", "large_angles")),
        ),
        Claim(
            "With shared angles, the rank correlation of angle and weight is positive, at the "
            "start and at the end of training.",
            above("correlation_start", "overlapping", 0.0)
            + above("correlation_end", "overlapping", 0.0),
        ),
        Claim(
            "With shared angles, the rank correlation increases during training.",
            above("correlation_change", "overlapping", 0.0),
        ),
        Claim(
            "Without shared angles (arm separate), the rank correlation decreases during "
            "training and is negative at the end.",
            below("correlation_change", "separate", 0.0)
            + below("correlation_end", "separate", 0.0),
        ),
        expectation(
            "This is due to learning: with shared angles, the final rank correlation is "
            "higher than with an untrained curriculum; without shared angles, it decreases "
            "more.",
            above("correlation_end", "overlapping", ("overlapping", "untaught_end"))
            + below("correlation_change", "separate", ("separate", "untaught_change")),
        ),
    ),
    plots=tuple(draw(arm) for draw in (_by_angle, _along) for arm in ARMS),
    prepare=lambda _settings: load_known("mnist"),
)
