"""The table of arms as strings, shared by the page and the terminal."""

from collections.abc import Sequence
from statistics import fmean, median, stdev

from tutelage_cli.report import formats
from tutelage_cli.report.content import Arm, PerSeed

MEMORY = "Memory, MiB"
HEADER: tuple[str, ...] = (
    "Arm",
    "Test accuracy, %",
    "Seconds",
    "Time, untaught = 1",
    MEMORY,
    "Weight, right labels",
    "Weight, wrong labels",
    "AUROC",
)

SEED_HEADER: tuple[str, ...] = ("Arm", "Seed", *HEADER[1:])


def rows(arms: Sequence[Arm]) -> list[tuple[str, ...]]:
    """One row of strings per arm, under ``HEADER``.

    Test accuracy is the mean over seeds with the sample standard deviation; the ratio of time
    is the median over seeds; everything else is the mean over seeds.
    """
    return [
        (
            arm.name,
            accuracy(arm.test_accuracy),
            formats.seconds(fmean(arm.seconds)),
            formats.ratio(median(arm.ratio)),
            formats.mebibytes(fmean(arm.memory) if arm.memory else None),
            *(_mean(values) for values in (arm.weight_right, arm.weight_wrong, arm.auroc)),
        )
        for arm in arms
    ]


def seed_rows(arms: Sequence[Arm]) -> list[tuple[str, ...]]:
    """One row of strings per arm and seed, under ``SEED_HEADER``."""
    return [
        (
            arm.name,
            str(seed),
            formats.percent(arm.test_accuracy[i]),
            formats.seconds(arm.seconds[i]),
            formats.ratio(arm.ratio[i]),
            formats.mebibytes(arm.memory[i] if arm.memory else None),
            *(
                formats.number(values[i] if values else None)
                for values in (arm.weight_right, arm.weight_wrong, arm.auroc)
            ),
        )
        for arm in arms
        for i, seed in enumerate(arm.seeds)
    ]


def accuracy(shares: PerSeed) -> str:
    """Mean and sample standard deviation over seeds, in percent."""
    mean = formats.percent(fmean(shares))
    if len(shares) == 1 or mean == formats.DASH:
        return mean
    return f"{mean} ± {formats.percent(stdev(shares))}"


def caption(arms: Sequence[Arm]) -> str:
    """Caption of the table of arms, with the number of seeds."""
    seeds = max(len(arm.seeds) for arm in arms)
    return f"Mean ± standard deviation over {seeds} seeds" if seeds > 1 else "One seed"


def _mean(values: PerSeed | None) -> str:
    return formats.number(fmean(values) if values else None)
