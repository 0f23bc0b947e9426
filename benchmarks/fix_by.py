"""What students learn from labels whose flagged ones were dropped, or replaced.

    python -m benchmarks.fix_by [--cells NAME ...] [--seeds 5] [--out FILE]

Cells and students of ``benchmarks.label_errors``. A quarter of the examples is the test part,
with right labels; of the others, labels more probably wrong than right by out-of-fold
predictions (of both kinds of students, as ``tutelage inspect`` takes them) are flagged. Then a
student is trained on the given labels, on those that are not flagged, and on all with the
predicted label in place of a flagged one: what ``tutelage inspect --fix`` writes. Not in it:
labels that are known, with which one might do more.
"""

import argparse
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.label_errors import (
    CELLS,
    CHECKED,
    Examples,
    predicted,
    read_cell,
    train_student,
)
from tutelage.crossfit import (
    ForwardCorrected,
    estimate_transitions,
    label_errors,
    refined_transitions,
)
from tutelage.losses.objectives import cross_entropy
from tutelage.models.heads import mlp
from tutelage.randomness import mixed_seed, seeded
from tutelage.storage.json_files import environment, write_json
from tutelage_cli.data.splits import balanced_rows


def measure(of: Examples, seed: int, epochs: int = 8) -> dict[str, Any]:
    """Test accuracy of each way on one seed, in percent, and what was flagged."""
    order = torch.randperm(len(of.right), generator=torch.Generator().manual_seed(seed))
    test, rest = order.split([len(order) // 4, len(order) - len(order) // 4])
    given_all = of.given(seed)
    part = of._replace(features=of.features[rest], right=of.right[rest])
    given = given_all[rest]
    chosen, _ = balanced_rows(part.right, CHECKED, of.classes, seed=seed)
    known = torch.zeros(len(given), dtype=torch.bool)
    known[chosen] = True
    labels, right = given[~known], part.right[known]
    first = predicted(part, given, known, seed, cross_entropy, epochs)
    rough = estimate_transitions(first.checked, right)
    loss = ForwardCorrected(refined_transitions(first.train, rough, labels))
    second = predicted(part, given, known, seed, loss, epochs)
    each = [label_errors(said.train, labels, said.checked, right) for said in (first, second)]
    flagged = torch.stack([found.probabilities for found in each]).mean(0) > 0.5
    guess = (first.train + second.train).argmax(1)
    truth, inputs = part.right[~known], part.features[~known]
    kept = torch.ones_like(flagged)
    told = {
        way: _accuracy(of, inputs[rows], targets[rows], test, seed, epochs)
        for way, rows, targets in (
            ("given", kept, labels),
            ("drop", ~flagged, labels),
            ("replace", kept, torch.where(flagged, guess, labels)),
        )
    }
    right_now = (guess == truth)[flagged].double().mean()
    wrong = (labels != truth)[flagged].double().mean()
    flags = {"flagged": int(flagged.sum()), "of": len(labels)}
    return {
        "seed": seed,
        **told,
        **flags,
        "wrong": 100 * float(wrong),
        "right after replacing": 100 * float(right_now),
    }


def _accuracy(
    of: Examples, inputs: Tensor, labels: Tensor, test: Tensor, seed: int, epochs: int
) -> float:
    mean, std = inputs.mean(0), inputs.std(0) + 1e-6
    wide = inputs.shape[1]
    with seeded(mixed_seed(seed, 7), torch.device("cpu")):
        student = (
            nn.Linear(wide, of.classes)
            if of.width is None
            else mlp(wide, of.classes, width=of.width)
        )
        train_student(student, (inputs - mean) / std, labels, cross_entropy, epochs)
    with torch.no_grad():
        said = student.eval()((of.features[test] - mean) / std).argmax(1)
    return 100 * float((said == of.right[test]).double().mean())


def main() -> None:
    """Measure cells, print a line for each and write all as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", nargs="+", default=[n for n in CELLS if "sst2" not in n])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for cell in asked.cells:
        of = read_cell(cell, asked.rows, asked.encoder)
        rows = [measure(of, seed) for seed in range(asked.seeds)]
        results += [{"cell": cell, **row} for row in rows]
        print(cell, *(f"{name} {_spread(rows, name)}" for name in rows[0] if name != "seed"))
        if asked.out is not None:
            write_json(asked.out, {"environment": environment(), "results": results})


def _spread(rows: list[dict[str, Any]], name: str) -> str:
    values = [float(row[name]) for row in rows]
    return f"{fmean(values):.1f} ± {stdev(values) if len(values) > 1 else 0:.1f};"


if __name__ == "__main__":
    main()
