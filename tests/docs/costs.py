"""Tables of the page on performance, drawn up from ``results/performance`` and stored runs."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.docs.measured import ROOT, content, measured

Row = Mapping[str, Any]
BESIDE = {
    "adam, 100 steps": "whole runs, 100 steps of Adam",
    "adam, 400 steps": "whole runs, 400 steps of Adam",
    "momentum, 400 steps": "whole runs, 400 steps of momentum SGD",
    "one step, group norm": "one step, ResNet-20, group norm",
    "one step, batch norm": "one step, ResNet-20, batch norm",
    "implicit, 1 term": "at the end of training, one term",
}
REWARDS = (
    "resnet20, group norm",
    "resnet20, batch norm",
    "transformer",
    "wrn-16-4, group norm",
)
TAUGHT = {
    "mnist5k-flip2": "small CNN, digits, a teacher step every 5",
    "cifar10-flip2-resnet8": "ResNet-8, CIFAR-10, a teacher step every 10",
    "cifar10n-worse-cnn": "small CNN, CIFAR-10, a teacher step every 10",
}


def stored(name: str) -> Any:
    return content(ROOT / "results" / "performance" / f"{name}-cpu.json")


def machine() -> str:
    lines = ["| figures | platform | cores | python | torch |", "|---|---|---|---|---|"]
    for name in ("hypergradients", "alignment", "augment", "mmel", "growth"):
        told = stored(name)["environment"]
        cells = (told[key] for key in ("platform", "cpus", "python", "torch"))
        lines.append(
            f"| [{name}](../results/performance/{name}-cpu.json) | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def _spread(row: Row, key: str = "time", form: str = ".2f") -> str:
    low, high = row["quartiles"]
    return f"{row[key]:{form}} [{low:{form}}, {high:{form}}]"


def hypergradients() -> str:
    lines = ["| run | way | time | memory | error | n |", "|---|---|---|---|---|---|"]
    for row in stored("hypergradients")["results"]:
        if row["case"] in BESIDE:
            error = "" if row["error"] is None else f"{row['error']:.0e}"
            cells = (BESIDE[row["case"]], row["variant"], _spread(row), f"{row['memory']:.2f}")
            lines.append(f"| {' | '.join(cells)} | {error} | {row['n']} |")
    return "\n".join(lines)


def rewards() -> str:
    lines = ["| student | way | time added | memory added | n |", "|---|---|---|---|---|"]
    for row in stored("alignment")["results"]:
        if row["student"] in REWARDS and row["variant"] != "plain" and row.get("n", 1) > 1:
            time, memory = _spread(row, form=".0f"), f"{row['memory']:.0f}"
            lines.append(
                f"| {row['student']} | {row['variant']} | {time} | {memory} | {row['n']} |"
            )
    return "\n".join(lines)


def augmentation() -> str:
    lines = ["| images | way | time | n |", "|---|---|---|---|"]
    lines += [
        f"| {row['what']} | {row['variant']} | {_spread(row, 'ratio')} | {row['n']} |"
        for row in stored("augment")["results"]
    ]
    return "\n".join(lines)


def copies() -> str:
    lines = ["| student | step | time | gradient off by | n |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['student']}, epoch {row['epochs']} | {row['kind']} | {_spread(row)} | "
        f"{row['gradient_error']:.1%} | {row['n']} |"
        for row in stored("mmel")["results"]
        if row["epochs"] == 1
    ]
    return "\n".join(lines)


def taught() -> str:
    lines = ["| run | teacher | time, untaught = 1 | n |", "|---|---|---|---|"]
    for file, what in TAUGHT.items():
        link = f"[{what}](../results/mini/{file}.json)"
        for arm, found in measured(file).items():
            if arm != "untaught":
                ratios: Sequence[float] = found["ratio"]
                mean, spread = statistics.fmean(ratios), statistics.stdev(ratios)
                lines.append(
                    f"| {link} | `{arm}` | {mean:.2f} ± {spread:.2f} | {len(ratios)} |"
                )
    return "\n".join(lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "machine": machine,
    "taught": taught,
    "hypergradients": hypergradients,
    "rewards": rewards,
    "augmentation": augmentation,
    "copies": copies,
}
