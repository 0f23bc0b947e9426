"""The summary of a finished study: numbers by arm and seed, sentences, and its print."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.console import Console

from tutelage.crossfit.chance import Predicted, folds_note
from tutelage.fitting.result import still_falling
from tutelage_cli.report import HEADER, Arm, Curve, caption, rows
from tutelage_cli.report.table import MEMORY
from tutelage_cli.terminal import say, say_table
from tutelage_cli.train.controls.folds import held_back
from tutelage_cli.train.controls.rates import chosen_rate
from tutelage_cli.train.job import Job, jobs_of, learning_rate
from tutelage_cli.train.job_files import read_example_table, read_history, read_result
from tutelage_cli.train.material import Material
from tutelage_cli.train.names import CONTROLS, TAUGHT_BY
from tutelage_cli.train.policies import describe_policy, learned_policies
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.student_training import HELD_OUT_KEY
from tutelage_cli.train.students import kind
from tutelage_cli.train.verdict import verdict


def summarise(run: Path, settings: TrainSettings, material: Material) -> dict[str, Any]:
    """The content of ``summary.json``."""
    arms = {
        arm: [{"seed": job.seed, **read_result(job)} for job in jobs_of(run, arm, settings)]
        for arm in settings.arms
    }
    untaught = arms["untaught"]
    for results in arms.values():
        for result, base in zip(results, untaught, strict=True):
            result["ratio"] = result["seconds"] / base["seconds"]
    lines = verdict(arms)
    lines[1:1] = filter(None, [_too_short(run, settings, len(material.train.classes))])
    for arm, results in arms.items():
        lines += describe_weights(arm, results)
        jobs = jobs_of(run, arm, settings)
        lines += [describe_policy(policy) for policy in learned_policies(jobs)]
    facts = describe_data(material, settings)
    if settings.choose_lr:
        jobs = jobs_of(run, "untaught", settings)
        facts["lr"] = [chosen_rate(job) for job in jobs]
    return {"data": facts, "arms": arms, "verdict": lines}


def _too_short(run: Path, settings: TrainSettings, classes: int) -> str:
    """A line on a run that was too short; empty where nothing shows that."""
    jobs = jobs_of(run, "untaught", settings)
    each_epoch = list(zip(*map(read_history, jobs), strict=True))
    losses = [fmean(entry["train_loss"] for entry in epoch) for epoch in each_epoch]
    known = all(HELD_OUT_KEY in entry for epoch in each_epoch for entry in epoch)
    held_out = [-fmean(entry[HELD_OUT_KEY] for entry in epoch) for epoch in each_epoch * known]
    full = sum(learning_rate(settings, n) == settings.lr for n in range(settings.epochs))
    falling = still_falling(losses, full, held_out or None)
    folds = _pooled([found for job in jobs if (found := held_back(job)) is not None])
    tables = [read_example_table(job, None, classes) for job in jobs]
    own = [Predicted.of(*map(torch.tensor, (t["predicted"], t["given"]))) for t in tables]
    signs = (
        _pooled(own).note("untaught students"),
        falling and f"the training loss of untaught students still {falling}",
        folds_note(folds) if folds.rows else "",
    )
    found = "; and ".join(filter(None, signs))
    advice = "Give more --epochs, or another --lr."
    return f"Perhaps too short: {found}. {advice}" if found else ""


def _pooled(each: Sequence[Predicted]) -> Predicted:
    return Predicted(*(sum(one[place] for one in each) for place in range(3)))


def describe_data(material: Material, settings: TrainSettings) -> dict[str, Any]:
    """Names and numbers of the data."""
    train = material.train
    facts: dict[str, Any] = {
        "name": train.name,
        "of": kind(train),
        "train": len(train),
        "held_out": len(material.held_out),
        "test": len(material.test),
        "classes": list(train.classes),
        "noise": settings.noise_or_default,
    }
    if settings.labels_from is not None:
        column = settings.label_column
        column_of = "" if column is None else f"{column} of "
        facts["labels"] = f"{column_of}{settings.labels_from}"
    if material.wrong is not None:
        facts["wrong_labels"] = float(material.wrong.double().mean())
    return facts


def data_line(facts: dict[str, Any]) -> str:
    """The data in one line."""
    line = (
        f"{facts['name']}: {facts['train']:,} training, {facts['held_out']:,} held-out and "
        f"{facts['test']:,} test {facts.get('of', 'images')} in {len(facts['classes'])} classes"
    )
    if "labels" in facts:
        line += f"; labels: {facts['labels']}"
    if facts["noise"] != "none":
        line += f"; label noise {facts['noise']}"
    if "wrong_labels" in facts:
        line += f"; {100 * facts['wrong_labels']:.1f}% of the training labels are wrong"
    if "lr" in facts:
        rates = ", ".join(f"{lr:g}" for lr in facts["lr"])
        line += f"; learning rate chosen for each seed: {rates}"
    return line


def describe_weights(arm: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ratio of wrong labels' weights to right ones', as a sentence."""
    known = all({"weight_right", "weight_wrong"} <= result.keys() for result in results)
    if arm in CONTROLS or not known or _uniform(results):
        return []
    right = fmean(result["weight_right"] for result in results)
    if right <= 0:
        return []
    share = fmean(result["weight_wrong"] for result in results) / right
    return [f"The teacher {arm} gave wrong labels {share:.2f} times the weight of right ones."]


def _uniform(entries: Sequence[Mapping[str, Any]]) -> bool:
    # whether all weights are 1
    return all(e.get(key) == 1 for e in entries for key in ("weight_right", "weight_wrong"))


def report_arms(summary: dict[str, Any]) -> tuple[Arm, ...]:
    """The arms as records of the report."""
    return tuple(arm_of(name, results) for name, results in summary["arms"].items())


def arm_of(name: str, results: Sequence[Mapping[str, Any]]) -> Arm:
    """One arm as a record of the report."""
    weighs = name != "untaught" and not _uniform(results)

    def known(key: str) -> tuple[float, ...] | None:
        return _column(results, key) if all(key in result for result in results) else None

    untrained = {
        "untaught": "none: every example counts the same",
        "weights": "weights of a file, as they are",
    }
    described = untrained | CONTROLS | TAUGHT_BY
    return Arm(
        name=name,
        teacher=described.get(name, "a stored commentary, as it is"),
        seeds=tuple(result["seed"] for result in results),
        test_accuracy=_column(results, "test_accuracy"),
        seconds=_column(results, "seconds"),
        ratio=_column(results, "ratio"),
        memory=known("memory"),
        weight_right=known("weight_right") if weighs else None,
        weight_wrong=known("weight_wrong") if weighs else None,
        auroc=known("auroc") if weighs else None,
    )


def curve_of(job: Job) -> Curve:
    """The learning curve of a student as a record of the report."""
    history = read_history(job)
    weighs = job.arm != "untaught" and "weight_wrong" in history[0] and not _uniform(history)
    return Curve(
        arm=job.arm,
        seed=job.seed,
        epochs=tuple(int(entry["epoch"]) for entry in history),
        test_accuracy=_column(history, "test_accuracy"),
        train_loss=_column(history, "train_loss"),
        weight_right=_column(history, "weight_right") if weighs else None,
        weight_wrong=_column(history, "weight_wrong") if weighs else None,
    )


def _column(entries: Sequence[Mapping[str, Any]], key: str) -> tuple[float, ...]:
    return tuple(float(entry[key]) for entry in entries)


def print_summary(console: Console, run: Path, summary: dict[str, Any]) -> None:
    """Print the table of a study, its verdict, and where its files are."""
    arms = report_arms(summary)
    say(console, data_line(summary["data"]))
    say_table(console, HEADER, rows(arms), title=caption(arms), spare=(MEMORY,))
    for sentence in summary["verdict"]:
        console.print(sentence, markup=False, highlight=False)
    say(console, f"\nRun:        {run}")
    say(console, f"Report:     {run / 'report.html'}")
    if (run / "commentary").exists():
        say(console, f"Commentary: {run / 'commentary'}")
    if any(run.glob("students/*/tensorboard")):
        say(console, f"Curves:     {shlex.join(['tensorboard', '--logdir', str(run)])}")
