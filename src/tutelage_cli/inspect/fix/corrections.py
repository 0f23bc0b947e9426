"""The examples of a run with their flagged labels dropped or replaced."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError, first_few, one_line
from tutelage_cli.data.by_name import fingerprints
from tutelage_cli.inspect.combined import Labels
from tutelage_cli.inspect.findings import Inspection
from tutelage_cli.train.material import read_source
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import Data, raw_examples

FixBy = Literal["drop", "replace"]


class Counts(NamedTuple):
    """What became of the labels."""

    flagged: int
    dropped: int
    """examples that are left out"""
    replaced: int
    """labels that are now those that were predicted"""
    kept: int
    """flagged labels that the students predict all the same, left as they are"""
    left: int
    """training examples, held-out ones among them, that are left"""
    judged: int
    """training examples that a student was trained on, of all there were"""
    right: int | None
    """of the flagged ones that are left, those that have the right label; None: not known"""


@dataclass(frozen=True, eq=False)
class CorrectedData:
    """The data of a run as they are written anew."""

    train: Data
    """with the new labels; images, texts or vectors as they were read"""
    test: Data
    own: Data
    """the whole training part, with the labels that its source has"""
    counts: Counts


def corrected(labels: Labels, settings: TrainSettings, by: FixBy) -> CorrectedData:
    """Read the data again and take out, or replace, the labels that are flagged."""
    assert labels.flagged is not None
    splits = read_source(replace(settings, freeze=TrainSettings.freeze)).splits
    train, test = raw_examples(splits.train), raw_examples(splits.test)
    places = _places(labels, train, settings.data)
    _refuse_several(labels)
    codes = {name: code for code, name in enumerate(train.classes)}
    if settings.labels_from is None:
        _refuse_other_labels(labels, train.labels[places], codes)
    new, left = train.labels.clone(), torch.ones(len(train), dtype=torch.bool)
    new[places] = torch.tensor([_code(codes, name) for name in labels.given])
    replaced = kept = 0
    flagged = labels.flagged.nonzero()[0].tolist()
    for row in flagged:
        if by == "drop":
            left[places[row]] = False
        elif labels.predicted[row] == labels.given[row]:
            kept += 1
        else:
            new[places[row]] = _code(codes, labels.predicted[row])
            replaced += 1
    _refuse_empty_classes(train, new, left, by)
    rows = left.nonzero()[:, 0]
    fixed = train.with_labels(new).rows(rows)
    dropped = len(flagged) if by == "drop" else 0
    right = _right(labels, flagged, by)
    counts = Counts(len(flagged), dropped, replaced, kept, len(fixed), len(places), right)
    return CorrectedData(fixed, test, train, counts)


def require_flagged(inspection: Inspection) -> None:
    """Refuse an inspection that flags nothing because it has no threshold."""
    if inspection.labels.flagged is None:
        why = next((n for n in inspection.notes if n.startswith("No list")), "")
        raise UsageError(f"Nothing to fix: no label can be called likely wrong. {why}".strip())


def _places(labels: Labels, train: Data, source: str) -> Tensor:
    # of each ranked label in the training part, which must be what it was
    there = {number: place for place, number in enumerate(train.ids.tolist())}
    contents = fingerprints(train)
    known = labels.contents or [""] * len(labels)
    places = [there.get(number, -1) for number in labels.ids]
    changed = [
        name
        for name, place, content in zip(labels.names, places, known, strict=True)
        if place < 0 or contents[place] != content
    ]
    if changed:
        raise UsageError(
            f"{source} has changed since the run: {len(changed)} of its {len(labels)} examples "
            f"are no longer there, or others ({first_few(changed)}). Name a copy as it was "
            "with --data, or train anew."
        )
    return torch.tensor(places)


def _refuse_other_labels(labels: Labels, there: Tensor, codes: dict[str, int]) -> None:
    # those of the source, which are right where the run added noise
    were = labels.given if labels.true is None else labels.true
    now = zip(labels.names, were, there.tolist(), strict=True)
    changed = [name for name, label, code in now if _code(codes, label) != code]
    if changed:
        raise UsageError(
            f"The labels of {len(changed)} examples have changed since the run "
            f"({first_few(changed)}): train anew, or name a copy as it was with --data."
        )


def _refuse_several(labels: Labels) -> None:
    given: dict[int, str] = {}
    several = [
        number
        for number, label in zip(labels.ids, labels.given, strict=True)
        if given.setdefault(number, label) != label
    ]
    if several:
        raise UsageError(
            f"{len(several)} examples have another label for each seed, as noise is drawn anew"
            ": name the seed whose labels are to be fixed, such as --seed 0."
        )


def _code(codes: dict[str, int], name: str) -> int:
    return codes[name] if name in codes else int(name)  # a class without a name in the tables


def _refuse_empty_classes(train: Data, new: Tensor, left: Tensor, by: FixBy) -> None:
    count = len(train.classes)
    before = torch.bincount(train.labels, minlength=count)
    after = torch.bincount(new[left], minlength=count)
    lost = ((before > 0) & (after == 0)).nonzero()[:, 0].tolist()
    if lost:
        names = first_few([one_line(train.classes[code]) for code in lost])
        other = "replace" if by == "drop" else "drop"
        raise UsageError(
            f"No example of class {names} would be left: try --fix-by {other}, or a smaller "
            "--max-fpr where labels are ranked by weight or loss."
        )


def _right(labels: Labels, flagged: Sequence[int], by: FixBy) -> int | None:
    if labels.true is None or by == "drop":
        return None
    return sum(labels.predicted[row] == labels.true[row] for row in flagged)
