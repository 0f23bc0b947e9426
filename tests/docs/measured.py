"""What the pages say of measured numbers, drawn up from the files in ``results/``."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from papers.framework.power import CORES, judged_with_power
from tutelage_cli.claims import FAILS, HOLDS, Comparison, ComparisonResult, evaluate

ROOT = Path(__file__).parents[2]
SAID = {HOLDS: "**better**", FAILS: "**worse**"}


class Gain(NamedTuple):
    """One arm beside another."""

    problem: str
    file: str
    metric: str
    arm: str
    instead_of: str
    side: Literal["above", "below"] = "above"
    percent: float = 1.0
    """what brings the metric to the unit shown"""
    unit: str = "accuracy, %"


def _errors(problem: str, file: str, *arms: str) -> list[Gain]:
    return [
        Gain(problem, file, "error", arm, "plain", "below", 1.0, "error, %") for arm in arms
    ]


def _pairs(problem: str, file: str, metric: str, *pairs: str) -> list[Gain]:
    split = [pair.split() for pair in pairs]
    return [Gain(problem, file, metric, arm, other) for arm, other in split]


def _accuracies(problem: str, file: str, *pairs: str) -> list[Gain]:
    return _pairs(problem, file, "test_accuracy", *pairs)


def _copies(problem: str, file: str, *pairs: str) -> list[Gain]:
    return _pairs(problem, file, "accuracy", *pairs)


def _few_shot(problem: str, arm: str) -> list[Gain]:
    return _copies(problem, "commentaries-fewshot", f"{arm}.weights {arm}.maml")


def _runs(problem: str, file: str, arm: str) -> Gain:
    return Gain(problem, file, "test_accuracy", arm, "untaught", percent=100.0)


def _reused(problem: str, file: str) -> Gain:
    return _runs(problem, f"reuse-{file}", "commentary")


NOISE = ("margin-loss", "margin-loss-centred", "meta-weight-net", "mentornet", "interactions")
HUMAN = ("margin-loss", "interactions")
CLEAN = ("interactions", "l2t-loss", "self-paced", "focal", "l2t-data")
LONG_TAILED = ("margin-loss", "interactions", "M0")
LESS_NOISE = ("margin-loss", "meta-weight-net", "mentornet", "interactions")
CURRICULUM = "commentaries-curriculum-cifar"
BLENDING, MASKS = "commentaries-blending-cifar", "commentaries-masks-cifar"
XRAY, BACKGROUNDS = "commentaries-masks-xray", "commentaries-masks-backgrounds"
GAINS = (
    *_errors("digits, 40% of labels flipped", "interactions-noise-flip", *NOISE),
    *_errors("digits, 20% flipped", "interactions-noise-flip-20", *LESS_NOISE),
    *_errors("digits, 40% drawn anew", "interactions-noise-uniform", *LESS_NOISE),
    _runs("CIFAR-10, 40% flipped, ResNet-8", "cifar10-flip2-resnet8", "margin-loss"),
    *_errors("CIFAR-10, labels of people", "interactions-human-noise", *HUMAN),
    *_errors("CIFAR-10, right labels", "interactions-clean", *CLEAN),
    *_errors("long-tailed classes", "interactions-imbalance", *LONG_TAILED),
    Gain("curriculum, its own CNN", CURRICULUM, "final_cnn", "curriculum", "none"),
    Gain("curriculum, a ResNet", CURRICULUM, "final_resnet", "curriculum", "none"),
    *_accuracies(
        "blending, CIFAR-10", BLENDING, "learned none", "learned random", "mixup none"
    ),
    *_accuracies("masks, CIFAR-10", MASKS, "learned none", "learned centre"),
    *_accuracies("masks, chest X-rays", XRAY, "learned random", "learned centre"),
    *_accuracies("masks, backgrounds that mislead", BACKGROUNDS, "learned none"),
    *_accuracies(
        "augmentation, 100 digits",
        "ola-digits",
        *("learned none", "uniform none", "learned frozen"),
    ),
    *_accuracies(
        "augmentation, CIFAR-100",
        "ola-cifar",
        "cifar100.learned.wl cifar100.uniform.wl",
        "cifar100.learned.wl cifar100.frozen.wl",
    ),
    *_accuracies(
        "mixture, a tenth with random labels",
        "gar-splits",
        "fc.gar.labels fc.uniform.labels",
        "fc-bn.gar.labels fc-bn.uniform.labels",
        "cnn-bn-slow.gar.labels cnn-bn-slow.uniform.labels",
    ),
    *_copies(
        "copies, 1,000 digits",
        "mmel-cifar",
        *("hard one", "soft one", "hard uniform", "soft uniform", "soft long"),
    ),
    *_copies(
        "copies, 4,000 images of CIFAR-10",
        "mmel-cifar-resnet32",
        "hard one",
        "soft one",
        "hard uniform",
        "soft long",
    ),
    Gain("texts, SST-2", "mmel-glue", "score", "hard", "uniform"),
    Gain("texts, SST-2", "mmel-glue", "score", "soft", "none"),
    Gain(
        "translation, sentences mispaired",
        "interactions-translation",
        "bleu",
        "mispaired.surface",
        "mispaired.none",
        unit="BLEU",
    ),
    *_few_shot("few-shot, five each", "5-shot"),
    *_few_shot("few-shot, five each, some corrupted", "5-shot-corrupted"),
    _reused("commentary of fresh students, ResNet-8", "margin-loss-unroll-resnet8"),
    _reused("commentary of fresh students, CNN", "margin-loss-unroll-cnn"),
    _reused("commentary of one run, CNN", "margin-loss-run-cnn"),
    _reused("commentary of blending, ResNet-8", "blending-overfitted-resnet8"),
)
"""chosen for what people ask, and not for what came of it: a comparison for each problem with
what it would replace, and with the control of its recipe"""


def measured(
    name: str, root: Path = ROOT, scale: str = "mini"
) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """By arm and metric one value a seed, of a recipe's result or a stored run."""
    arms = content(root / "results" / scale / f"{name}.json")["arms"]
    return {
        arm: found if isinstance(found, dict) else _by_metric(found)
        for arm, found in arms.items()
    }


def _by_metric(seeds: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {key: [seed[key] for seed in seeds] for key in seeds[0] if key != "seed"}


def content(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def largest_scale(name: str) -> str:
    """The largest scale on a CPU at which a recipe has run."""
    return "hours" if (ROOT / "results" / "hours" / f"{name}.json").exists() else "mini"


def gains_table() -> str:
    """Every gain as a row, at the largest scale that ran: means, the paired difference with its
    interval, the verdict.
    """
    lines = [
        "| problem | taught by, instead of | without → with | gain [90% interval] | n | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(gain) for gain in GAINS]
    return "\n".join(lines)


def _row(gain: Gain) -> str:
    scale = largest_scale(gain.file)
    arms = measured(gain.file, scale=scale)
    judged = evaluate(
        Comparison((gain.arm, gain.metric), gain.side, (gain.instead_of, gain.metric)), arms
    )
    assert judged.mean is not None
    assert judged.low is not None
    assert judged.high is not None
    numbers = (judged.mean, judged.low, judged.high)
    mean, low, high = (gain.percent * number for number in numbers)
    cells = (
        f"[{gain.problem}]({_link(gain.file, scale)})",
        f"`{gain.arm}`, `{gain.instead_of}`",
        f"{gain.unit}: "
        + " → ".join(
            _spread(arms[arm][gain.metric], gain.percent) for arm in (gain.instead_of, gain.arm)
        ),
        f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]".replace("-", "−"),
        f"{judged.n}",
        SAID.get(judged.verdict) or _would_take(judged, gain.file, scale),
    )
    return f"| {' | '.join(cells)} |"


def _would_take(judged: ComparisonResult, file: str, scale: str) -> str:
    taken = content(ROOT / "results" / scale / f"{file}.json").get("seconds", 0.0)
    found = judged_with_power(judged, None, taken / judged.n / CORES)
    seeds = found["needed"]["seeds"]
    return found["verdict"] + (f" ({seeds:,} seeds)" if seeds else "")


def _spread(values: Sequence[float], percent: float) -> str:
    found = [percent * value for value in values]
    return f"{statistics.fmean(found):.1f} ± {statistics.stdev(found):.1f}"


def _link(file: str, scale: str) -> str:
    recipe = "recipe" in content(ROOT / "results" / scale / f"{file}.json")
    return f"results.md#{file}-{scale}" if recipe else f"../results/{scale}/{file}.json"
