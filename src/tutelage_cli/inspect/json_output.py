"""What an inspection found as plain values, for JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage_cli.inspect.combined import Labels
from tutelage_cli.inspect.findings import Inspection


def as_json(
    inspection: Inspection, top: int, files: Mapping[str, Path], notes: Sequence[str]
) -> dict[str, Any]:
    """What is printed as JSON; docs/inspection.md lists the keys."""
    labels, known = inspection.labels, inspection.quality
    return {
        "run": None if inspection.run is None else str(inspection.run.folder),
        "arm": inspection.arm or None,
        "students": list(inspection.students),
        "by": labels.by,
        "max_fpr": inspection.max_fpr,
        "held_out": list(inspection.clean),
        "limits": list(inspection.limits),
        "labels": len(labels),
        "likely_wrong": None if labels.flagged is None else inspection.flagged,
        "likely_wrong_between": _between(labels, labels.flagged),
        "flagged_right_between": _right_between(labels),
        "all_wrong_between": _between(labels, None),
        "quality": None if known is None else known._asdict(),
        "auroc": inspection.auroc,
        "epochs": list(labels.epochs),
        "examples": [_example(labels, row) for row in range(min(top, len(labels)))],
        "files": {name: str(path) for name, path in files.items()},
        "notes": [*inspection.notes, *notes],
    }


def _between(labels: Labels, rows: np.ndarray | None) -> list[int] | None:
    return None if labels.wrong is None else list(labels.error_count_interval(rows))


def _right_between(labels: Labels) -> list[int] | None:
    found = _between(labels, labels.flagged)
    if found is None or labels.flagged is None:
        return None
    low, high = found
    return [int(labels.flagged.sum()) - high, int(labels.flagged.sum()) - low]


def _example(labels: Labels, row: int) -> dict[str, Any]:
    def past(values: np.ndarray | None) -> list[float] | None:
        return None if values is None else values[row].tolist()

    return {
        "rank": row + 1,
        "name": labels.names[row],
        "text": None if labels.texts is None else labels.texts[row],
        "given": labels.given[row],
        "predicted": labels.predicted[row],
        "true": None if labels.true is None else labels.true[row],
        "weight": float(labels.weights[row]),
        "loss": float(labels.losses[row]),
        "probability_wrong": None if labels.wrong is None else float(labels.wrong[row].mean()),
        "students": int(labels.students[row]),
        "distrusted_by": int(labels.distrusted[row]),
        "likely_wrong": None if labels.flagged is None else bool(labels.flagged[row]),
        "past_losses": past(labels.past_losses),
        "past_weights": past(labels.past_weights),
    }
