"""Tables of the page on performance, drawn up from ``results/performance`` and stored runs."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.teaching_cost import ALL, CASES, LAST, UNTAUGHT
from benchmarks.teaching_cost_figure import stored_rows
from tests.docs.measured import ROOT, content, measured
from tutelage_cli.intervals import mean_interval

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
    for name in (
        *("hypergradients", "alignment", "augment", "mmel", "teaching_cost", "growth"),
        *("step_cost", "layers", "left_out_paths"),
    ):
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


def teaching() -> str:
    head = (
        "checked",
        "signal",
        "accuracy, %",
        "less `Reversible(2)`",
        "time, untaught = 1",
        "n",
    )
    lines, rows = [head, ("---",) * len(head)], stored_rows()
    for case, checked in CASES.items():
        of: dict[str, dict[int, Row]] = {UNTAUGHT: {}, ALL: {}, LAST: {}}
        for row in rows:
            if row["case"] == case:
                of[row["variant"]][row["seed"]] = row
        for way, own in of.items():
            gains = [100 * (row["accuracy"] - of[ALL][k]["accuracy"]) for k, row in own.items()]
            lines.append((
                f"{checked}",
                f"`{way}`",
                mean_and_spread([100 * row["accuracy"] for row in own.values()], ".1f"),
                "" if way == ALL else interval(gains),
                mean_and_spread([row["time"] for row in own.values()], ".2f"),
                f"{len(own)}",
            ))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def mean_and_spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.fmean(values):{form}} ± {statistics.stdev(values):{form}}"


def interval(values: Sequence[float]) -> str:
    found = mean_interval(values)
    text = f"{found.mean:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
    return text.replace("-", "−")


TABLES: Mapping[str, Callable[[], str]] = {
    "machine": machine,
    "taught": taught,
    "teaching": teaching,
    "hypergradients": hypergradients,
    "rewards": rewards,
    "augmentation": augmentation,
    "copies": copies,
}
