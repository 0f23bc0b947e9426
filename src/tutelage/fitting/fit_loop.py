"""``fit``: a student of the user's own, trained under a teacher from start to end."""

import math
import operator
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from tutelage.data.order import batch_count, in_order, random_rows, shuffled
from tutelage.errors import UsageError
from tutelage.fitting.examples import Examples
from tutelage.fitting.fit_parts import FitParts
from tutelage.fitting.fit_state import Checkpoint, FitState
from tutelage.fitting.result import FitResult
from tutelage.functional.module_state import modes_kept
from tutelage.functional.portable_state import load_state, state_of
from tutelage.losses.objectives import cross_entropy, logits_of
from tutelage.losses.reduction import nonzero
from tutelage.losses.targets import correct_predictions
from tutelage.signals import Reversible, Signal, Unrolled
from tutelage.teachers import MarginLoss, Plain
from tutelage.training.forward import prediction_lesson
from tutelage.training.tutor import Tutor
from tutelage.validation.ranges import at_least_one, not_negative, shares
from tutelage.validation.shapes import kind

LEAST_MOMENTUM = 0.5
"""with less, reversing two steps loses too much of their precision"""
OPTIMIZER = (
    "a function from a list of parameters to a torch.optim optimiser, such as "
    "lambda p: torch.optim.SGD(p, 0.1, 0.9)"
)
"""what the argument of this name is allowed to be"""
EVAL_SIZE = 500
"""examples in a batch without gradients"""


@dataclass(frozen=True)
class _Settings:
    """The numbers that determine a run."""

    epochs: int
    batch_size: int
    decay_at: tuple[float, ...]
    teacher_lr: float
    teacher_every: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "teacher_every", "seed"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        at_least_one(self, "epochs", "batch_size", "teacher_every")
        not_negative(self, "teacher_lr")
        shares(self, "decay_at")

    def decay(self, epoch: int) -> float:
        """The factor of the learning rate; the first epoch has the whole rate."""
        passed = sum(epoch >= max(1, int(share * self.epochs)) for share in self.decay_at)
        return 0.1**passed


def _whole(name: str, value: Any) -> int:
    try:
        found = operator.index(value)
    except TypeError as error:
        raise UsageError(f"{name} is {value!r}; allowed: a whole number.") from error
    if not -(2**63) <= found < 2**63:
        raise UsageError(f"{name} is {value}; allowed: numbers of 64 bits.")
    return found


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
    teacher: nn.Module | None = None,
    teacher_lr: float = 0.02,
    teacher_every: int = 5,
    signal: Signal | None = None,
    seed: int = 0,
    workers: int = 0,
    folder: str | Path | None = None,
    progress: bool = False,
) -> FitResult:
    """Train a classifier on labels that may be wrong, taught by a few that are checked.

    Examples are a pair (inputs [N, ...], class ids [N]) of tensors or arrays, or a data set
    with a length that gives (input, class id). The student is trained where it is, on its own
    device, in the numbers of its parameters.

    **The best epoch is chosen by examples that the teacher does not learn by**: without
    ``validation`` a quarter of the checked examples of each class, drawn by the seed, at least
    one of a class that has two. The teacher learns by the others. With a teacher that learns
    nothing all checked examples choose. It is the epoch of the highest accuracy, and among
    equals that of the lowest loss.

    Defaults are those of ``tutelage train``, but for the level of the teacher's weights, which
    is ``"centred"``: over a short run a free level often drifts to where all weights are alike.

    Args:
        student: Gives logits [B, C]; trained in place.
        training: N examples, whose labels may be wrong; example i has the id i.
        checked: Examples with right labels that are not trained on; read once. None: plain
            training, without a teacher.
        test: Examples with right labels for the report; read at the end alone.
        validation: Examples with right labels that choose the best epoch.
        epochs: Passes over the training set.
        batch_size: Examples in a student step; held-out batches are as large.
        optimizer: From the student's trainable parameters to its optimiser; None:
            ``SGD(lr=0.1, momentum=0.9, weight_decay=5e-4)``.
        decay_at: Shares of the run after which the learning rate is divided by ten.
        teacher: None: ``MarginLoss(student, classes, level="centred")`` of
            ``tutelage.teachers``. ``Plain()`` is the same training untaught.
        teacher_lr: Learning rate of the teacher's Adam.
        teacher_every: Student steps between two teacher steps.
        signal: Estimates the teacher's gradient; None: ``Reversible(2)`` for SGD with a
            momentum of 0.5 and more in float32 or float64, else ``Unrolled(2)``.
        seed: Of the split, of orders, of random transforms, of dropout and of the teacher's
            start. The student's own first weights are the caller's.
        workers: Processes that read a data set; the result does not depend on it.
        folder: Where a checkpoint is kept after each epoch; a run that it holds continues, if
            settings, optimiser, signal and tensors are the same. Of a data set the length
            alone is compared, of a teacher its class.
        progress: Write a line to stderr after each epoch.

    Returns:
        The student of the best epoch, the weight of every example, the history and a report.

    Note: raises ``UsageError`` where examples have unlike shapes, no rows, NaN, or labels that
    are none of the student's classes, where the student diverges, and where the folder holds
    another run.
    """
    _require_kinds(teacher, signal, optimizer)
    settings = _Settings(epochs, batch_size, tuple(decay_at), teacher_lr, teacher_every, seed)
    parts = FitParts.of(student, training, checked, validation, test, teacher, settings.seed)
    tutor = _tutor(student, parts, settings, optimizer, teacher, signal)
    rates = [group["lr"] for group in tutor.optimizer.param_groups]
    checkpoint = _checkpoint(folder, settings, parts, tutor)
    state = checkpoint.resume(tutor)
    for epoch in range(len(state.history), settings.epochs):
        start = time.monotonic()
        for group, rate in zip(tutor.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * settings.decay(epoch)
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
    return FitResult(
        student,
        tutor.teacher,
        state.weights,
        state.history,
        state.best_epoch,
        accuracies,
        steps,
        parts.notes(steps, learns=tutor.teacher_updater is not None),
    )


def _require_kinds(teacher: object, signal: object, optimizer: object) -> None:
    found = {"teacher": (teacher, nn.Module), "signal": (signal, Signal)}
    for name, (given, allowed) in found.items():
        if given is not None and (isinstance(given, type) or not isinstance(given, allowed)):
            raise UsageError(f"{name} is {given!r}; allowed: an instance, or None.")
    if optimizer is not None and (isinstance(optimizer, Optimizer) or not callable(optimizer)):
        raise UsageError(f"optimizer is {kind(optimizer)}; allowed: {OPTIMIZER}.")


def _tutor(
    student: nn.Module,
    parts: FitParts,
    settings: _Settings,
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None,
    teacher: nn.Module | None,
    signal: Signal | None,
) -> Tutor:
    moving = [p for p in student.parameters() if p.requires_grad]
    made = SGD(moving, 0.1, 0.9, weight_decay=5e-4) if optimizer is None else optimizer(moving)
    if not isinstance(made, Optimizer):
        raise UsageError(f"optimizer gives {kind(made)}; allowed: {OPTIMIZER}.")
    if teacher is None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(settings.seed)
            teacher = Plain()
            if parts.held_out is not None:
                teacher = MarginLoss(student, parts.classes, level="centred")
    teacher.to(parts.device)
    learnt = [p for p in teacher.parameters() if p.requires_grad]
    reversible = isinstance(made, SGD) and all(
        g["momentum"] >= LEAST_MOMENTUM and not g["nesterov"] and not g["dampening"]
        for g in made.param_groups
    )
    reversible &= all(p.dtype in (torch.float32, torch.float64) for p in moving)
    default = Reversible(2) if reversible else Unrolled(2)
    return Tutor(
        student,
        made,
        teacher,
        Adam(learnt, settings.teacher_lr) if learnt else None,
        signal=(signal or default) if learnt else None,
        teacher_every=settings.teacher_every,
        total_steps=settings.epochs * batch_count(len(parts.train), settings.batch_size),
        seed=settings.seed,
    )


def _checkpoint(
    folder: str | Path | None, settings: _Settings, parts: FitParts, tutor: Tutor
) -> Checkpoint:
    if folder is None:
        return Checkpoint(None, {})
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(f"folder {folder} is a file; allowed: a folder, or a new name.")
    updater = tutor.teacher_updater
    names = {
        "teacher": type(tutor.teacher).__name__,
        "optimizer": type(tutor.optimizer).__name__,
        "optimizer settings": str([
            {k: v for k, v in sorted(group.items()) if k not in ("params", "initial_lr")}
            for group in tutor.optimizer.param_groups
        ]),
        "signal": "none" if updater is None else repr(updater.signal),
    }
    return Checkpoint(Path(folder), asdict(settings) | parts.marks() | names)


def _train_epoch(
    tutor: Tutor, parts: FitParts, settings: _Settings, epoch: int, workers: int
) -> tuple[float, Tensor]:
    tutor.student.train()
    sums = torch.zeros(2, len(parts.train), dtype=torch.float32, device=parts.device)
    loss, size = torch.zeros((), device=parts.device), settings.batch_size
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
        state.best = {k: v.detach().clone() for k, v in state_of(tutor.student).items()}


def _rank(entry: dict[str, float | int]) -> tuple[float, float]:
    """By accuracy, and among equals by loss: larger is better."""
    return entry["validation_accuracy"], -entry["validation_loss"]


@torch.no_grad()
def _measure(tutor: Tutor, examples: Examples) -> tuple[float, float]:
    """Share of correct predictions, and mean loss, the student in evaluation mode."""
    student, right, loss = tutor.student, 0, 0.0
    requests = list(in_order(len(examples), EVAL_SIZE, tutor.seed))
    with modes_kept(student):
        student.eval()
        for batch in examples.batches(requests, tutor.problem.student.device):
            logits = logits_of(student(prediction_lesson(tutor.problem, batch).inputs))
            right += int(correct_predictions(logits, batch.targets).sum())
            loss += float(cross_entropy(logits, batch.targets).sum())
    return right / len(examples), loss / len(examples)


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
