"""``fit``: a student of the user's own, trained by cross-fitting or under a teacher."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from tutelage.crossfit.fold_settings import VERSION
from tutelage.data.order import batch_count, in_order, random_rows, shuffled
from tutelage.errors import UsageError, first_line
from tutelage.fitting.cross_fitting import (
    EVAL_SIZE,
    CrossFitting,
    evaluated,
    scale_weight_decay,
)
from tutelage.fitting.examples import Examples, JoinedExamples, native
from tutelage.fitting.fit_parts import FitParts
from tutelage.fitting.fit_state import Checkpoint, FitState
from tutelage.fitting.result import FitResult, still_falling, too_short
from tutelage.fitting.settings import FitSettings, not_below_zero
from tutelage.functional.differentiable import original
from tutelage.functional.portable_state import load_state, state_of
from tutelage.losses.objectives import Objective, cross_entropy, logits_of
from tutelage.losses.reduction import nonzero
from tutelage.losses.targets import correct_predictions
from tutelage.randomness import seeded
from tutelage.signals import Reversible, Signal, Unrolled
from tutelage.storage.checkpoint import digest
from tutelage.teachers import GivenWeights, MarginLoss, Plain
from tutelage.training.forward import prediction_batch
from tutelage.training.not_finite import PATIENCE
from tutelage.training.tutor import Tutor
from tutelage.validation.shapes import kind

MARGIN_LOSS = "margin-loss"
"""the teacher that is made where this is given"""
LEAST_MOMENTUM = 0.5
"""with less, reversing two steps loses too much of their precision"""
OPTIMIZER = (
    "a function from a list of parameters to a torch.optim optimiser, such as "
    "lambda p: torch.optim.SGD(p, 0.1, 0.9)"
)
"""what the argument of this name is allowed to be"""


def fit(
    student: nn.Module,
    training: Any,
    checked: Any,
    *,
    test: Any = None,
    validation: Any = None,
    epochs: int = 12,
    batch_size: int = 100,
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
    decay_at: Sequence[float] = (2 / 3, 5 / 6),
    folds: int = 5,
    teacher: nn.Module | Literal["margin-loss"] | None = None,
    teacher_lr: float = 0.02,
    teacher_every: int = 5,
    signal: Signal | None = None,
    choose_weight_decay: bool = False,
    weights: Tensor | None = None,
    seed: int = 0,
    workers: int = 0,
    folder: str | Path | None = None,
    progress: bool = False,
) -> FitResult:
    """Train a classifier on labels that may be wrong, with the help of a few that are checked.

    Examples are a pair (inputs [N, ...], class ids [N]) of tensors or arrays, or a data set
    with a length that gives (input, class id). The student is trained where it is, on its own
    device, in the numbers of its parameters. Checked, validation and test examples must not be
    among the training ones; of tensors and arrays the report names such copies.

    **Without a teacher by cross-fitting**, much as the arm ``cross-fitted`` of ``tutelage
    train``. Copies of the student are trained on all folds but one, allow for the class
    transitions that the checked examples show, and predict the fold left out; the
    posteriors of the right classes train fresh copies, which predict likewise. The student is
    then trained on the checked examples and, in place of the given labels, on the posterior
    over the right class of each. Where the given labels show that more weight decay predicts
    them better, the copies and the student have it. Where the checked examples show plain
    copies to be better than corrected ones, the student is trained on the given labels, beside
    the checked ones, with a caution. With five folds it costs some five times the plain
    training from 600 steps on, in shorter runs up to 20 times, and was more accurate than
    ``margin-loss`` in most cases that were measured. Without ``validation`` the last epoch
    counts.

    **With a teacher the best epoch is chosen by examples that the teacher does not learn by**:
    without ``validation`` a quarter of the checked examples of each class, drawn by the seed,
    at least one of a class that has two. The teacher learns by the others. With a teacher that
    learns nothing all checked examples choose. It is the epoch of the highest accuracy, and
    among equals that of the lowest loss.

    Numbers are those of ``tutelage train``. Its taught students differ in two settings, which
    arguments give: they have the multiple of the weight decay by which given labels are
    predicted best (``choose_weight_decay``), and on feature vectors the teacher learns through
    the last layer (``signal=Lookahead(layers="last"), teacher_every=2``).

    Args:
        student: Gives logits [B, C]; trained in place.
        training: N examples, whose labels may be wrong; example i has the id i.
        checked: H examples with right labels; read once. None: plain training.
        test: Examples with right labels for the report; read at the end alone.
        validation: Examples with right labels that choose the best epoch.
        epochs: Passes over the training set.
        batch_size: Examples in a student step; held-out batches are as large.
        optimizer: From a list of trainable parameters, in the order of
            ``student.parameters()``, to their optimiser; None: ``SGD(lr=0.1, momentum=0.9,
            weight_decay=5e-4)``. Cross-fitting calls it for the student and for each copy,
            and tries 30 and 60 times its weight decay, so that one above 0 is of use.
        decay_at: Shares of the run after which the learning rate is divided by ten.
        folds: Of cross-fitting, 2..N.
        teacher: None: cross-fitting. ``"margin-loss"``: ``MarginLoss(student, classes,
            level="centred")`` of ``tutelage.teachers``. ``Plain()`` is plain training.
        teacher_lr: Learning rate of the teacher's Adam.
        teacher_every: Student steps between two teacher steps.
        signal: Estimates the teacher's gradient; None: ``Reversible(2)`` for SGD with a
            momentum of 0.5 and more in float32 or float64, else ``Unrolled(2)``.
        choose_weight_decay: With a teacher: multiply the weight decay of ``optimizer`` by 1,
            30, 60 or 100, whichever makes copies of the student predict given labels best that
            they were not trained on. Costs some 1.2 plain trainings, in runs of fewer than 480
            steps up to four. Cross-fitting does the like in any case.
        weights: Factors [N] of the training examples' losses, 0 and above; not with a teacher.
            Checked examples have their mean.
        seed: Of folds and the split, of orders, of random transforms, of dropout and of the
            teacher's start. The student's own first weights are the caller's.
        workers: Processes that read a data set; the result does not depend on it.
        folder: Where a checkpoint is kept after each fold and epoch; a run that it holds
            continues, if settings, optimiser, signal and tensors are the same. Of a data set
            the length alone is compared, of a teacher its class, of the student its class and
            the shapes of its parameters.
        progress: Write a line to stderr after each fold and epoch.

    Returns:
        The student of the best epoch, the weight of every example, the history and a report.

    Note: raises ``UsageError`` where examples have unlike shapes, no rows, NaN, or labels that
    are none of the student's classes, where the student diverges or cannot be copied for the
    folds, where the folder holds another run or cannot be written to, and where torch's default
    device is not the CPU. Where the disk is full it is an ``OSError`` that names the file.
    """
    _require_kinds(teacher, signal, optimizer, weights, choose_weight_decay)
    _require_numbers_on_cpu()
    workers = not_below_zero("workers", workers)
    shares = tuple(decay_at) if isinstance(decay_at, Iterable) else decay_at
    numbers = shares, teacher_lr, teacher_every, seed, folds
    settings = FitSettings(epochs, batch_size, *numbers)
    parts = FitParts.of(
        student,
        training,
        checked,
        validation,
        test,
        Plain() if teacher is None and checked is None else teacher,
        settings,
    )
    optimizer = optimizer or _default_optimizer
    tutor = _tutor(student, parts, settings, optimizer, teacher, signal, weights)
    rates = [group["lr"] for group in tutor.optimizer.param_groups]
    checkpoint = _checkpoint(folder, settings, parts, tutor, chosen=choose_weight_decay)
    on_folds = CrossFitting(
        student, optimizer, tutor.teacher, parts, settings, checkpoint, workers, progress
    )
    cross_fitted, decay_factor = None, 1.0
    if choose_weight_decay:
        decay_factor = on_folds.chosen_decay_factor()
        scale_weight_decay(tutor.optimizer, decay_factor)
    if parts.checked_examples is not None:
        cross_fitted = on_folds.labels()
        targets, objective = on_folds.targets_and_objective(cross_fitted)
        tutor = _tutor(student, parts, settings, optimizer, teacher, signal, weights, objective)
        joined = JoinedExamples.join(parts.train, parts.checked_examples, targets)
        parts = replace(parts, train=joined)
        scale_weight_decay(tutor.optimizer, cross_fitted.decay_factor)
    state = checkpoint.resume(tutor)
    for epoch in range(len(state.history), settings.epochs):
        start = time.monotonic()
        for group, rate in zip(tutor.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * settings.lr_factor(epoch)
        _finish_epoch(
            tutor, parts, state, *_train_epoch(tutor, parts, settings, epoch, workers)
        )
        checkpoint.save(tutor, state)
        if progress:
            sys.stderr.write(_line(state.history[-1], epochs, time.monotonic() - start))
    load_state(student, state.best, "student")
    student.eval()
    measured = parts.measured().items()
    accuracies = {name: (_measure(tutor, part)[0], len(part)) for name, part in measured}
    steps = _teacher_steps(tutor)
    at_chance = "" if cross_fitted is None else cross_fitted.at_chance
    short = too_short(_still_falling(state.history, settings), at_chance)
    notes = parts.notes(steps, learns=tutor.teacher_updater is not None, short=short)
    found = FitResult(
        student,
        tutor.teacher,
        state.weights,
        state.history,
        state.best_epoch,
        accuracies,
        steps,
        notes,
        decay_factor=decay_factor,
    )
    return found if cross_fitted is None else found.cross_fitted_by(cross_fitted)


def _default_optimizer(parameters: list[nn.Parameter]) -> Optimizer:
    return SGD(parameters, 0.1, 0.9, weight_decay=5e-4)


def _require_kinds(
    teacher: object, signal: object, optimizer: object, weights: object, choose: bool
) -> None:
    found = {"teacher": (teacher, nn.Module), "signal": (signal, Signal)}
    for name, (value, allowed) in found.items():
        if value is None or (name == "teacher" and value == MARGIN_LOSS):
            continue
        if isinstance(value, type) or not isinstance(value, allowed):
            others = f'"{MARGIN_LOSS}", None' if name == "teacher" else "None"
            raise UsageError(f"{name} is {value!r}; allowed: an instance, or {others}.")
    if teacher is None and signal is not None:
        raise UsageError(
            "signal estimates a teacher's gradient, and cross-fitting has no teacher; give "
            f'one, such as teacher="{MARGIN_LOSS}", or no signal.'
        )
    if teacher is None and choose:
        raise UsageError(
            "choose_weight_decay is about students with a teacher, and none is given: leave it "
            "out, as cross-fitting chooses by itself, or give a teacher, such as Plain()."
        )
    if teacher is not None and weights is not None:
        raise UsageError(
            "weights and teacher are both given; allowed: one of them. "
            "tutelage.teachers.GivenWeights is a teacher of given weights."
        )
    if optimizer is not None and (isinstance(optimizer, Optimizer) or not callable(optimizer)):
        raise UsageError(f"optimizer is {kind(optimizer)}; allowed: {OPTIMIZER}.")


def _require_numbers_on_cpu() -> None:
    device = torch.get_default_device()
    if device.type != "cpu":
        raise UsageError(
            f"torch's default device is {device}; allowed: the CPU, where orders are drawn. "
            'Call tl.fit inside "with torch.device("cpu"):"; the student stays where it is.'
        )


def _tutor(
    student: nn.Module,
    parts: FitParts,
    settings: FitSettings,
    optimizer: Callable[[list[nn.Parameter]], Optimizer],
    teacher: nn.Module | str | None,
    signal: Signal | None,
    weights: Tensor | None,
    objective: Objective = cross_entropy,
) -> Tutor:
    moving = [p for p in student.parameters() if p.requires_grad]
    made = optimizer(moving)
    if not isinstance(made, Optimizer):
        raise UsageError(f"optimizer gives {kind(made)}; allowed: {OPTIMIZER}.")
    steps = signature(made.step).parameters.values()
    if any(part.name == "closure" and part.default is Parameter.empty for part in steps):
        raise UsageError(
            f"optimizer gives {kind(made)}, whose steps call a closure; allowed: {OPTIMIZER}."
        )
    if isinstance(teacher, str):
        with seeded(settings.seed):
            teacher = MarginLoss(student, parts.classes, level="centred")
    count = len(parts.train)
    more = 0 if parts.checked_examples is None else len(parts.checked_examples)
    if teacher is None:
        teacher = Plain() if weights is None else _given_weights(weights, count, more)
    teacher.to(parts.device)
    learned = [p for p in teacher.parameters() if p.requires_grad]
    reversible = isinstance(made, SGD) and all(
        g["momentum"] >= LEAST_MOMENTUM and not g["nesterov"] and not g["dampening"]
        for g in made.param_groups
    )
    reversible &= all(p.dtype in (torch.float32, torch.float64) for p in moving)
    default = Reversible(2) if reversible else Unrolled(2)
    tutor = Tutor(
        student,
        made,
        teacher,
        Adam(learned, settings.teacher_lr) if learned else None,
        objective=objective,
        signal=(signal or default) if learned else None,
        teacher_every=settings.teacher_every,
        total_steps=settings.epochs * batch_count(count + more, settings.batch_size),
        seed=settings.seed,
    )
    tutor.cautions = None  # ``FitParts.notes`` has them
    if tutor.teacher_updater is not None:
        tutor.teacher_updater.patience = PATIENCE
    return tutor


def _given_weights(weights: Any, count: int, more: int) -> GivenWeights:
    try:
        found = weights if isinstance(weights, Tensor) else torch.as_tensor(native(weights))
        found = found.detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"weights are {kind(weights)}: {first_line(error)}; allowed: {count} numbers."
        ) from error
    if found.shape != (count,):
        raise UsageError(
            f"weights have shape {tuple(found.shape)} for {count} training examples; allowed: "
            f"({count},)."
        )
    if found.is_complex() or not bool((found != 0).any()):
        wrong = "complex" if found.is_complex() else "all 0"
        raise UsageError(f"weights are {wrong}; allowed: numbers of 0 and above, one above 0.")
    found = found.double()
    if bool((found >= 0).all()):  # only ratios count, also of numbers that float32 lacks
        _, exponent = math.frexp(found.max())
        found = found / 2.0 ** (exponent - 1)
    found = torch.cat([found, found.mean().expand(more)])
    return GivenWeights(torch.arange(count + more), found)


def _require_folder(folder: str | Path) -> None:
    """Make the folder; refuse what files cannot be written to."""
    if not isinstance(folder, str | os.PathLike):
        raise UsageError(f"folder is {folder!r}; allowed: a path.")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(f"folder {folder} is a file; allowed: a folder, or a new name.")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "it is read-only"
    except OSError as error:
        reason = error.strerror or first_line(error)
    if reason:
        raise UsageError(f"folder {folder} cannot be written to ({reason}); give another one.")


def _checkpoint(
    folder: str | Path | None,
    settings: FitSettings,
    parts: FitParts,
    tutor: Tutor,
    *,
    chosen: bool,
) -> Checkpoint:
    if folder is None:
        return Checkpoint(None, {})
    _require_folder(folder)
    updater, teacher, student = tutor.teacher_updater, tutor.teacher, original(tutor.student)
    shapes = {name: list(p.shape) for name, p in student.named_parameters()}
    given = f" {digest(teacher.weights)}" if isinstance(teacher, GivenWeights) else ""
    names = {
        "student": f"{type(student).__name__} with parameters {digest(shapes)}",
        "teacher": type(teacher).__name__ + given,
        "optimizer": type(tutor.optimizer).__name__,
        "optimizer settings": str([
            {k: v for k, v in sorted(group.items()) if k not in ("params", "initial_lr")}
            for group in tutor.optimizer.param_groups
        ])
        + " with a chosen multiple of the weight decay" * chosen,
        "signal": "none" if updater is None else repr(updater.signal),
        "cross-fitting": "none" if parts.checked_examples is None else f"of version {VERSION}",
    }
    return Checkpoint(Path(folder), asdict(settings) | parts.marks() | names)


def _train_epoch(
    tutor: Tutor, parts: FitParts, settings: FitSettings, epoch: int, workers: int
) -> tuple[float, Tensor]:
    tutor.student.train()
    sums = torch.zeros(2, len(parts.train), dtype=torch.float32, device=parts.device)
    loss = torch.zeros((), dtype=torch.float32, device=parts.device)
    size = settings.batch_size
    requests = list(shuffled(torch.arange(len(parts.train)), size, settings.seed, epoch))
    for batch in parts.train.batches(requests, parts.device, workers):
        held_out = None
        if tutor.wants_held_out and parts.held_out is not None:
            drawn = random_rows(len(parts.held_out), size, settings.seed, tutor.steps)
            (held_out,) = parts.held_out.batches([drawn], parts.device)
        record = tutor.step(batch, held_out)
        share = record.weights / nonzero(record.weights.mean())
        counted = torch.stack([share, torch.ones_like(share)]).float()
        sums.index_add_(1, record.ids, counted)
        loss += record.loss / len(requests)
    if not math.isfinite(loss):
        raise UsageError(
            f"The student diverged in epoch {epoch + 1}: its loss is {float(loss)}. Lower the "
            "learning rate by optimizer=, and scale inputs to about -1..1."
        )
    return float(loss), (sums[0] / sums[1].clamp(min=1)).cpu()


def _finish_epoch(
    tutor: Tutor, parts: FitParts, state: FitState, loss: float, weights: Tensor
) -> None:
    entry: dict[str, float | int] = {"epoch": len(state.history) + 1, "train_loss": loss}
    entry["teacher_steps"] = _teacher_steps(tutor)
    better = True
    if parts.validation is not None:
        found = _measure(tutor, parts.validation)
        tutor.best_accuracy = max(tutor.best_accuracy, found[0])
        entry |= {"validation_accuracy": found[0], "validation_loss": found[1]}
        better = all(_rank(entry) > _rank(before) for before in state.history)
    state.history.append(entry)
    if better:
        state.best_epoch, state.weights = len(state.history), weights
        state.best = deepcopy(dict(state_of(tutor.student)))


def _rank(entry: dict[str, float | int]) -> tuple[float, float]:
    """By accuracy, and among equals by loss: larger is better."""
    return entry["validation_accuracy"], -entry["validation_loss"]


@torch.no_grad()
def _measure(tutor: Tutor, examples: Examples) -> tuple[float, float]:
    """Share of correct predictions, and mean loss, the student in evaluation mode."""
    student, right, loss = tutor.student, 0, 0.0
    requests = list(in_order(len(examples), EVAL_SIZE, tutor.seed))
    with evaluated(student, tutor.seed, tutor.problem.student.device):
        for batch in examples.batches(requests, tutor.problem.student.device):
            logits = logits_of(student(prediction_batch(tutor.problem, batch).inputs))
            right += int(correct_predictions(logits, batch.targets).sum())
            loss += float(cross_entropy(logits, batch.targets).sum())
    return right / len(examples), loss / len(examples)


def _still_falling(history: Sequence[dict[str, float | int]], settings: FitSettings) -> str:
    losses = [entry["train_loss"] for entry in history]
    chosen = [entry["validation_loss"] for entry in history if "validation_loss" in entry]
    full = sum(settings.lr_factor(epoch) == 1 for epoch in range(settings.epochs))
    falling = still_falling(losses, full, chosen or None)
    return falling and f"the training loss still {falling}"


def _teacher_steps(tutor: Tutor) -> int:
    updater = tutor.teacher_updater
    if updater is None:
        return 0
    return tutor.steps // updater.every - updater.skipped - tutor.awaits_next_step


def _line(entry: dict[str, float | int], epochs: int, seconds: float) -> str:
    chosen = ""
    if "validation_accuracy" in entry:
        chosen = f", validation accuracy {entry['validation_accuracy']:.1%}"
    loss = f"loss {entry['train_loss']:.3f}{chosen}, {seconds:.1f} s"
    return f"epoch {entry['epoch']:.0f}/{epochs}: {loss}\n"
