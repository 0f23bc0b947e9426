"""Comparison of runs: results, differing settings, and differences paired by seed."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tutelage.errors import UsageError
from tutelage_cli.claims import FAILS, HOLDS, Comparison, ComparisonResult, evaluate
from tutelage_cli.config.settings_files import to_plain
from tutelage_cli.inspect.run import Run, open_run
from tutelage_cli.report import Arm, Curve
from tutelage_cli.runner.run_folder import run_facts
from tutelage_cli.train.job_files import read_result
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.summary import arm_of, curve_of
from tutelage_cli.train.verdict import UNTAUGHT, split_arms

ACCURACY = "test_accuracy"
OF_MATERIAL = (
    "noise",
    "imbalance",
    "held_out",
    "held_out_from",
    "test_from",
    "labels_from",
    "label_column",
    "limit",
    "image_size",
)
"""settings that determine, with data and seed, what a student is trained on"""
ASIDE = ("jobs",)
"""settings that do not change any result"""
CALLED = {HOLDS: "higher", FAILS: "lower"}


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One of the runs that are compared."""

    name: str
    """of its folder; with those above it where two share it"""
    run: Run
    facts: Mapping[str, Any]
    """stored when it started: digest of the data, versions"""
    results: Mapping[str, Mapping[int, Mapping[str, float]]]
    """by arm and seed, of the finished students"""
    curves: tuple[Curve, ...]

    @property
    def settings(self) -> TrainSettings:
        """Its settings."""
        return self.run.settings


@dataclass(frozen=True)
class Difference:
    """Test accuracy of one arm less that of another, paired by seed, as shares."""

    what: str
    baseline: str
    seeds: int
    mean: float
    low: float | None
    """lower end of the mean's 90% interval; None with one seed"""
    high: float | None
    p: float | None
    """one-sided, for the mean's own side"""
    verdict: str
    """higher, lower, within chance, or of one seed, which gives no interval"""


@dataclass(frozen=True, eq=False)
class RunComparison:
    """The comparison of several runs."""

    members: tuple[ComparedRun, ...]
    differing: Mapping[str, tuple[str, ...]]
    """settings and versions that differ, by run"""
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def compare(folders: Sequence[Path]) -> RunComparison:
    """Compare runs."""
    real = [folder.resolve() for folder in folders]
    for place, folder in enumerate(real):
        if folder in real[:place]:
            raise UsageError(f"{folders[place]} is named twice; give each run once.")
    names = _names(real)
    members = tuple(_member(name, folder) for name, folder in zip(names, folders, strict=True))
    notes = [note for member in members for note in _unfinished(member)]
    differences = [d for member in members for d in _within(member)]
    first = members[0]
    for member in members[1:]:
        fault = unlike(first, member)
        if fault:
            notes.append(f"{member.name} and {first.name} are not compared: {fault}.")
        else:
            for arm in [arm for arm in member.results if arm in first.results]:
                differences += _paired(member, arm, first, arm)
    return RunComparison(members, _differing(members), tuple(differences), tuple(notes))


def arms_of(member: ComparedRun) -> tuple[Arm, ...]:
    """The arms of a run as the table shows them."""
    untaught = member.results.get("untaught", {})

    def known(seed: int, result: Mapping[str, float]) -> dict[str, float]:
        base = untaught[seed]["seconds"] if seed in untaught else float("nan")
        return {"seed": seed, **result, "ratio": result["seconds"] / base}

    named = {
        arm: arm_of(arm, [known(seed, result) for seed, result in results.items()])
        for arm, results in member.results.items()
        if results
    }
    return tuple(replace(arm, name=f"{member.name}: {name}") for name, arm in named.items())


def unlike(one: ComparedRun, other: ComparedRun) -> str:
    """Why two runs cannot be paired by seed."""
    if one.facts.get("data") != other.facts.get("data"):
        return "their data are not the same"
    named = [
        name
        for name in OF_MATERIAL
        if _material(one.settings, name) != _material(other.settings, name)
    ]
    return f"they differ in {', '.join(named)}, so that equal seeds mean different data" * bool(
        named
    )


def _material(settings: TrainSettings, name: str) -> Any:
    return settings.noise_or_default if name == "noise" else getattr(settings, name)


def _names(folders: Sequence[Path]) -> list[str]:
    for parts in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def _member(name: str, folder: Path) -> ComparedRun:
    run = open_run(folder)
    if not any(run.finished.values()):
        raise UsageError(
            f"{folder} has no finished student yet. Go on with: tutelage train --resume "
            f"{folder}"
        )
    results = {
        arm: {seed: read_result(run.job(arm, seed)) for seed in seeds}
        for arm, seeds in run.finished.items()
    }
    curves = tuple(
        replace(curve_of(run.job(arm, seed)), arm=f"{name}: {arm}")
        for arm, seeds in run.finished.items()
        for seed in seeds
    )
    return ComparedRun(name, run, run_facts(folder), results, curves)


def _unfinished(member: ComparedRun) -> list[str]:
    if not member.run.missing:
        return []
    return [
        f"{member.name} is not finished: {member.run.missing} of its students are missing. Go "
        f"on with: tutelage train --resume {member.run.folder}"
    ]


def _within(member: ComparedRun) -> Iterator[Difference]:
    """Every arm less the untaught one, and taught ones less the best control of their seeds."""
    taught, controls = split_arms(member.results)
    for arm, own in member.results.items():
        if arm != UNTAUGHT:
            yield from _paired(member, arm, member, UNTAUGHT)
        means = {
            control: fmean(member.results[control][seed][ACCURACY] for seed in own)
            for control in controls
            if arm in taught and own and own.keys() <= member.results[control].keys()
        }
        best = max(means, key=lambda control: means[control], default=UNTAUGHT)
        if best != UNTAUGHT:
            yield from _paired(member, arm, member, best)


def _paired(
    one: ComparedRun, arm: str, other: ComparedRun, baseline: str
) -> Iterator[Difference]:
    own, others = one.results[arm], other.results.get(baseline, {})
    seeds = sorted(own.keys() & others.keys())
    if not seeds:
        return
    names = f"{one.name}: {arm}", f"{other.name}: {baseline}"
    values = {
        names[0]: {ACCURACY: [own[seed][ACCURACY] for seed in seeds]},
        names[1]: {ACCURACY: [others[seed][ACCURACY] for seed in seeds]},
    }
    mean = sum(own[s][ACCURACY] - others[s][ACCURACY] for s in seeds) / len(seeds)
    wanted = Comparison((names[0], ACCURACY), "above", (names[1], ACCURACY))
    yield _difference(names, mean, evaluate(wanted, values))


def _difference(names: tuple[str, str], mean: float, tested: ComparisonResult) -> Difference:
    p = tested.p if tested.p is None or mean >= 0 else 1 - tested.p
    alone = "of one seed" if tested.n < 2 else "within chance"
    return Difference(
        what=names[0],
        baseline=names[1],
        seeds=tested.n,
        mean=mean,
        low=tested.low,
        high=tested.high,
        p=p,
        verdict=CALLED.get(tested.verdict, alone),
    )


def _differing(members: Sequence[ComparedRun]) -> dict[str, tuple[str, ...]]:
    plain = [
        to_plain(dataclasses.replace(member.settings, noise=member.settings.noise_or_default))
        for member in members
    ]
    found = {name: tuple(_text(one[name]) for one in plain) for name in plain[0]}
    keys = {"tutelage": "version of tutelage", "torch": "version of torch"}
    keys |= {"data": "digest of the data"}
    named = [{name for name in member.facts if name.startswith("--")} for member in members]
    keys |= {flag: f"digest of {flag}" for flag in sorted(set.intersection(*named))}
    for name, key in keys.items():
        found[key] = tuple(str(member.facts.get(name, ""))[:12] for member in members)
    return {
        name: values
        for name, values in found.items()
        if len(set(values)) > 1 and name not in ASIDE
    }


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
