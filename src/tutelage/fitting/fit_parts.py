"""The examples of a run of ``fit``: what each part is for."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.data.order import BatchRequest
from tutelage.errors import UsageError, first_few, first_line
from tutelage.fitting.copies import copies
from tutelage.fitting.examples import Examples
from tutelage.fitting.settings import FitSettings
from tutelage.functional.module_state import modes_kept, on_state, state_of
from tutelage.per_example.units import uses_batch_statistics
from tutelage.randomness import mixed_seed, seeded
from tutelage.storage.checkpoint import digest
from tutelage.teacher import uses_alignments
from tutelage.teachers.steps_taken import FEWEST_TEACHER_STEPS
from tutelage.types import Batch
from tutelage.validation.shapes import described, kind

VALIDATION_SHARE = 0.25
"""of the checked examples of each class: those that choose the epoch"""
_SPLIT = 5
"""first part of the split's seed"""
REFUSED = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""what a student raises that cannot take its inputs"""
_READ = 6
"""first part of the seed by which checked examples are read"""


def split_checked(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Split checked examples by class: a quarter chooses, at least one of a class of two.

    Returns the indices of those that the teacher learns by, and of those that choose.
    """
    generator = torch.Generator().manual_seed(mixed_seed(_SPLIT, seed))
    order = torch.randperm(len(labels), generator=generator)
    chooses = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        rows = order[labels[order] == label]
        most = len(rows) - 1  # a single one is the teacher's
        chooses[rows[: min(most, max(1, round(VALIDATION_SHARE * len(rows))))]] = True
    return (~chooses).nonzero()[:, 0], chooses.nonzero()[:, 0]


@dataclass(frozen=True)
class FitParts:
    """The examples of a run."""

    train: Examples
    held_out: Examples | None
    """by which the teacher learns"""
    validation: Examples | None
    """which choose the epoch"""
    test: Examples | None
    checked_labels: Tensor | None
    """[H] labels of the checked examples"""
    checked_examples: Examples | None
    """the checked examples where the student is trained on them"""
    classes: int
    device: torch.device

    @classmethod
    def of(
        cls,
        student: nn.Module,
        training: Any,
        checked: Any,
        validation: Any,
        test: Any,
        teacher: nn.Module | str | None,
        settings: FitSettings,
    ) -> "FitParts":
        """Check what a user gives, and split the checked examples."""
        numbers = [p for p in student.parameters() if p.is_floating_point()]
        if not any(p.requires_grad for p in numbers):
            raise UsageError("The student has no parameter that is trained.")
        like = numbers[0]
        sources = {"training": training, "checked": checked, "validation": validation}
        sources = {k: v for k, v in {**sources, "test": test}.items() if v is not None}
        found, classes = _examples_of(student, sources, like)
        learns = _learns(teacher, checked)
        held_out, chooses, labels, included = None, found.get("validation"), None, None
        if checked is not None:
            seed = settings.seed
            inputs, labels, *_ = _read(found["checked"], len(found["checked"]), seed)
            whole = replace(found["checked"], source=(inputs, labels))
            teaches, rest = torch.arange(0), torch.arange(len(labels))
            if teacher is None:
                included, rest = whole, rest[:0]
            elif learns or (isinstance(teacher, nn.Module) and uses_alignments(teacher)):
                teaches, rest = (rest, teaches) if chooses else split_checked(labels, seed)
                held_out = whole.of_rows(teaches)
            if chooses is None and len(rest):
                chooses = whole.of_rows(rest)
        used = found["training"], held_out, chooses, found.get("test"), labels, included
        parts = cls(*used, classes, like.device)
        if parts.fewest_in_a_batch(settings) == 1 and not _trains_on_one(student, parts.train):
            raise UsageError(
                "The student has batch normalisation, which needs two examples and more in a "
                "batch, and there are batches of one to train on or to teach by: give more "
                "examples or a larger batch_size, or another normalisation."
            )
        if labels is not None and len(labels.unique()) == 1:
            warnings.warn(f"tutelage.fit: {parts.missing_classes()}", stacklevel=3)
        return parts

    def fewest_in_a_batch(self, settings: FitSettings) -> int:
        """The size of the smallest batch that is trained on or taught by."""
        count, folds = len(self.train), settings.folds
        fewest = [count, settings.batch_size]
        if self.held_out is not None:
            fewest.append(len(self.held_out))
        if self.checked_examples is not None and 2 <= folds <= count:  # others are refused
            fewest.append(count - math.ceil(count / folds))
        return min(fewest)

    def measured(self) -> dict[str, Examples]:
        """The parts whose accuracies are reported, by name."""
        named = {"test": self.test, "validation": self.validation, "held out": self.held_out}
        return {name: part for name, part in named.items() if part is not None}

    def marks(self) -> dict[str, Any]:
        """What identifies a run on these examples: lengths, and checksums of tensors."""
        named = {
            "training": self.train,
            "validation": self.validation,
            "checked": self.held_out or self.checked_examples,
        }
        return {
            f"data of {name}": f"{len(part)} {digest(part.source) if part.in_memory else ''}"
            for name, part in named.items()
            if part is not None
        }

    def missing_classes(self) -> str:
        """A note on classes that no checked example has; empty if there are none."""
        there = set() if self.checked_labels is None else set(self.checked_labels.tolist())
        missing = [label for label in range(self.classes) if label not in there]
        if not there or not missing:
            return ""
        result = "the teacher may take weight from all examples that have"
        if self.checked_examples is not None:
            result = "their labels are taken to be wrong as often as those of other classes"
        return (
            f"no checked example is of class {first_few(missing, 10)} (classes are "
            f"0..{self.classes - 1}): {result}"
        )

    def notes(self, steps: int, *, learns: bool, short: str) -> tuple[str, ...]:
        """Cautions about a run."""
        found = [self.missing_classes(), *self._copies()]
        if learns and steps < FEWEST_TEACHER_STEPS:
            found.append(
                f"{steps} teacher steps are few, below {FEWEST_TEACHER_STEPS}: train for more "
                "epochs, or with smaller batches"
            )
        if self.validation is None and self.checked_examples is None:
            found.append("no example chose the best epoch: it is the last one")
        return tuple(filter(None, [*found, short]))

    def _copies(self) -> list[str]:
        # notes on examples that students are measured, or taught, by and trained on
        parts = self.measured()
        if self.checked_examples is not None:
            parts["checked"] = self.checked_examples
        found = {name: copies(part, self.train) for name, part in parts.items()}
        return [
            f"{count} of the {len(parts[name])} {name} examples have the inputs of training "
            "examples: if they are the same ones, their accuracy counts what was memorised; "
            "leave them out of training"
            for name, count in found.items()
            if count
        ]


def _learns(teacher: nn.Module | str | None, checked: Any) -> bool:
    """Whether a teacher learns; without checked examples it cannot."""
    learns = isinstance(teacher, str) or (
        teacher is not None and any(p.requires_grad for p in teacher.parameters())
    )
    if learns and checked is None:
        name = teacher if isinstance(teacher, str) else type(teacher).__name__
        raise UsageError(
            f"{name} learns by checked examples, and there are none: give checked, or "
            "teacher=tutelage.teachers.Plain()."
        )
    return learns


def _examples_of(
    student: nn.Module, sources: dict[str, Any], like: Tensor
) -> tuple[dict[str, Examples], int]:
    """Examples by name, of inputs of one shape and type that the student takes; its classes."""
    found = {k: Examples.of(k, v, like.dtype) for k, v in sources.items()}
    first = {k: _read(part, 1, 0).inputs for k, part in found.items()}
    classes, wanted = _classes_of(student, first["training"].to(like.device)), first["training"]
    for name, inputs in first.items():
        if inputs.shape != wanted.shape or inputs.dtype != wanted.dtype:
            raise UsageError(
                f"{name} has inputs that are {described(inputs[0])}, but those of training are "
                f"{described(wanted[0])}; allowed: the same for both."
            )
    found = {k: replace(part, classes=classes) for k, part in found.items()}
    for name, part in found.items():
        if part.in_memory:
            part.read(torch.arange(len(part)))  # refuses what is wrong in them
            found[name] = replace(part, sound=True)
    return found, classes


def _read(examples: Examples, count: int, seed: int) -> Batch:
    """The first examples; random transforms draw by the seed."""
    request = BatchRequest(torch.arange(count), mixed_seed(_READ, seed), 0)
    (batch,) = examples.batches([request], torch.device("cpu"))
    return batch


def _trains_on_one(student: nn.Module, examples: Examples) -> bool:
    """Whether a pass in training mode takes a single example, as of large pictures."""
    if not any(map(uses_batch_statistics, student.modules())):
        return True
    device = next(student.parameters()).device
    inputs = _read(examples, 1, 0).inputs.to(device)
    kept = on_state(student, state_of(student)), modes_kept(student), seeded(0, device)
    with kept[0], kept[1], kept[2], torch.no_grad():
        student.train()
        try:
            student(inputs)
        except ValueError:
            return False
    return True


def _classes_of(student: nn.Module, inputs: Tensor) -> int:
    """The number of the student's logits, by a pass on a training example."""
    with modes_kept(student), seeded(0, inputs.device), torch.no_grad():
        student.eval()
        try:
            logits = student(inputs)
        except REFUSED as error:
            raise UsageError(
                f"The student cannot take inputs that are {described(inputs)}: "
                f"{first_line(error)}"
            ) from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        found = described(logits) if isinstance(logits, Tensor) else kind(logits)
        raise UsageError(
            f"The student gives {found} for one example; allowed: logits of shape (1, C), one "
            "for each of two classes or more."
        )
    return logits.shape[1]
