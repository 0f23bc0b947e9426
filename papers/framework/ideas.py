"""The idea of each paper compared with simpler methods on the same data."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from papers.framework.args import HOURS
from tutelage_cli.intervals import Interval, mean_interval
from tutelage_cli.train.names import CONTROLS

CONTROL_ARMS = (
    "regularised",
    "untaught",
    *(name for name in CONTROLS if name != "regularised"),
)
PAYS_METRIC = "test_accuracy"
"""the measure of ``python -m papers pays``, as a share"""


class Idea(NamedTuple):
    """Arms of an idea and of its alternatives, in one file of results."""

    paper: str
    """its key in ``paper_tables.PAPERS``"""
    name: str
    result: str
    """a file in ``results/``, without suffix; that of scale hours is used instead, if stored"""
    metric: str
    arms: tuple[str, ...]
    """forms of the idea, of which the best is compared"""
    alternatives: tuple[str, ...] = CONTROL_ARMS
    """alternatives, of which the best is compared; the first is the same training without the
    idea"""
    lower_is_better: bool = False


def _digits(paper: str, name: str, *arms: str) -> list[Idea]:
    cells = ("mnist5k-flip2-0.4-20", "mnist5k-flip2-0.4-100")
    return [Idea(paper, name, f"pays/{cell}", PAYS_METRIC, arms) for cell in cells]


def _features(paper: str, name: str, *arms: str) -> list[Idea]:
    cells = ("cifar10-flip2-0.4-100", "cifar10-human-worst-100", "glue-sst2-flip-0.3-100")
    return [Idea(paper, name, f"pays/{cell}", PAYS_METRIC, arms) for cell in cells]


PUBLISHED_WEIGHINGS = (
    "loss",
    "l2t-loss",
    "mentornet-dd",
    "mentornet",
    "reweight",
    "self-paced",
    "focal",
    "gce",
)
"""published weighting methods that are neither of these papers nor controls"""
INTERNAL = "teacher of internal states, I0 + M0"
MARGIN = "teacher of margin and loss (ours)"
PUBLISHED = "other published weighting methods"
SPACES = (("cifar10", "wl"), ("cifar10", "ra"), ("cifar100", "wl"), ("cifar100", "ra"))
IDEAS = (
    Idea(
        "commentaries",
        "learned blending of pairs of classes",
        "mini/commentaries-blending-cifar",
        "test_accuracy",
        ("learned",),
        ("none", "random", "mixup", "shuffled"),
    ),
    Idea(
        "commentaries",
        "example weights by image and iteration",
        "mini/commentaries-curriculum-cifar",
        "final_cnn",
        ("curriculum", "clipped"),
        ("none", "non-curriculum"),
    ),
    *_digits("commentaries", "example weights by image and iteration", "curriculum"),
    *(
        Idea(
            "commentaries",
            f"example weights of support images, {shots}",
            "mini/commentaries-fewshot",
            "accuracy",
            (f"{arm}.weights",),
            (f"{arm}.maml",),
        )
        for arm, shots in (
            ("1-shot", "one example per class"),
            ("5-shot", "five examples per class"),
            ("5-shot-corrupted", "five per class, some corrupted"),
        )
    ),
    *(
        Idea(
            "commentaries",
            "learned masks",
            f"mini/commentaries-masks-{data}",
            "test_accuracy",
            ("learned",),
            alternatives,
        )
        for data, alternatives in (
            ("cifar", ("none", "centre", "random")),
            ("xray", ("centre", "random")),
            ("backgrounds", ("none", "centre", "random")),
        )
    ),
    *(
        Idea(
            "gar",
            f"learned augmentation, {data}, space {space}",
            "mini/ola-cifar",
            "test_accuracy",
            (f"{data}.learned.{space}",),
            (f"{data}.uniform.wl", f"{data}.uniform.ra"),
        )
        for data, space in SPACES
    ),
    Idea(
        "gar",
        "learned augmentation",
        "mini/ola-digits",
        "test_accuracy",
        ("learned", "frozen"),
        ("none", "uniform", "random"),
    ),
    *(
        Idea(
            "gar",
            f"sampling from splits, {student}",
            "mini/gar-splits",
            "test_accuracy",
            (f"{student}.gar.labels",),
            (f"{student}.uniform.labels",),
        )
        for student in ("fc", "fc-bn", "cnn-bn-slow")
    ),
    *_digits("l2tdi", INTERNAL, "internal-state"),
    *_features("l2tdi", INTERNAL, "internal-state"),
    *_digits("l2tdi", MARGIN, "margin-loss"),
    *_features("l2tdi", MARGIN, "margin-loss"),
    *_digits("l2tdi", PUBLISHED, "loss"),
    *_features("l2tdi", PUBLISHED, *PUBLISHED_WEIGHINGS),
    Idea(
        "l2tdi",
        INTERNAL,
        "mini/interactions-clean",
        "error",
        ("interactions",),
        ("plain", "focal", "self-paced"),
        lower_is_better=True,
    ),
    *(
        Idea(
            "mmel",
            "augmented copies weighted by their losses",
            f"mini/{recipe}",
            metric,
            ("hard", "soft"),
            alternatives,
        )
        for recipe, metric, alternatives in (
            ("mmel-cifar", "accuracy", ("one", "long", "uniform")),
            ("mmel-cifar-resnet32", "accuracy", ("one", "long", "uniform")),
            ("mmel-glue", "score", ("none", "smoothed", "long", "uniform")),
        )
    ),
)


class IdeaComparison(NamedTuple):
    """An idea compared with the best of its alternatives."""

    idea: Idea
    arm: str
    """the best form of the idea, by the mean over seeds"""
    mean: float
    alternative: str
    """the best alternative, likewise"""
    alternative_mean: float
    versus_best: Interval
    """difference of ``arm`` and ``alternative``, paired by seed; above 0: the idea is better"""
    versus_plain: Interval
    """difference of ``arm`` and the first of ``Idea.alternatives``"""


def compare_ideas(root: Path) -> list[IdeaComparison]:
    """Every idea whose results are stored below ``root/results``, in the order of ``IDEAS``."""
    comparisons = []
    for idea in (_at_largest_scale(idea, root / "results") for idea in IDEAS):
        file = root / "results" / f"{idea.result}.json"
        if file.exists():
            values = _values(json.loads(file.read_text("utf-8"))["arms"], idea)
            if idea.alternatives[0] in values and any(arm in values for arm in idea.arms):
                comparisons.append(_compared(idea, values))
    return comparisons


def _at_largest_scale(idea: Idea, results: Path) -> Idea:
    hours = idea.result.replace("mini/", f"{HOURS}/")
    return idea._replace(result=hours) if (results / f"{hours}.json").exists() else idea


def _values(arms: Mapping[str, Any], idea: Idea) -> dict[str, list[float]]:
    """Values by arm, of the seeds that all arms have; without arms with a failed seed.

    Shares are turned into percent.
    """
    columns = {
        arm: [100 * seed[PAYS_METRIC] for seed in column]
        if isinstance(column, list)
        else column[idea.metric]
        for arm, column in arms.items()
        if arm in (*idea.arms, *idea.alternatives)
    }
    complete = {arm: values for arm, values in columns.items() if None not in values}
    count = min(map(len, complete.values()), default=0)  # of seeds 0, 1, ...
    return {arm: values[:count] for arm, values in complete.items()}


def _compared(idea: Idea, values: Mapping[str, Sequence[float]]) -> IdeaComparison:
    sign = -1 if idea.lower_is_better else 1
    means = {arm: fmean(column) for arm, column in values.items()}
    arm, alternative = (
        max((name for name in arms if name in means), key=lambda name: sign * means[name])
        for arms in (idea.arms, idea.alternatives)
    )
    best, plain = (
        mean_interval([sign * (x - y) for x, y in zip(values[arm], values[other], strict=True)])
        for other in (alternative, idea.alternatives[0])
    )
    return IdeaComparison(idea, arm, means[arm], alternative, means[alternative], best, plain)
