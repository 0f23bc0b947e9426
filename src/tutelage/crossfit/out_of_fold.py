"""Predictions of every example by a student that was trained on the other folds."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tutelage.crossfit.checks import require_probabilities
from tutelage.crossfit.folds import fold_count
from tutelage.errors import UsageError, require_module
from tutelage.storage.atomic_files import write_atomically
from tutelage.validation.shapes import described, kind

Fit = Callable[[Tensor, Tensor, int], Tensor]
"""from the rows to train a fresh student on [M], the rows to predict [K] and the fold to
probabilities [K, C]; any training loop over any data"""
SCHEMA = 1


def out_of_fold(
    fit: Fit,
    folds: Int64[Tensor, "N"],
    *,
    labels: Tensor | None = None,
    jobs: int = 1,
    cache: str | Path | None = None,
    key: str = "",
) -> Float[Tensor, "N C"]:
    """Train a student for each fold on the others, and let it predict that fold.

    Source: cross-fitting, as in Chernozhukov et al. 2018, Double/debiased Machine Learning for
    Treatment and Structural Parameters, definition 3.1; for labels Northcutt et al. 2021.

    Args:
        fit: It makes a fresh student, trains it and predicts. It has to seed itself, by
            the fold: otherwise what it gives depends on the folds before.
        folds: The fold of each example, 0..F-1, as ``stratified_folds`` gives them.
        labels: What is trained on [N] or [N, C]; they enter the cache's key alone.
        jobs: How many folds are trained at once, in processes of joblib; ``fit`` must be
            picklable by cloudpickle.
        cache: A folder with a file for each fold that is done, so that a run that was ended
            goes on where it was. It is made where it is missing.
        key: Whatever else the predictions depend on, such as data set, student and settings in
            words; needed with a cache. A file of another key, other folds or other labels is
            never read.

    Returns:
        The probabilities of every example, on the CPU, in the type that ``fit`` gives.

    Raises:
        UsageError: If folds are not valid, predictions are no distributions of a fold's rows,
            folds differ in their number of classes or type, there are fewer than one job, or a
            cache has no key or cannot be written.

    Note: raises ``MissingExtraError`` where there are several jobs and no joblib.
    """
    count = fold_count(folds)
    if jobs < 1:
        raise UsageError(f"jobs is {jobs}; allowed: 1 and above.")
    if cache is not None and not key:
        raise UsageError(
            "a cache needs a key: give one that names all that the predictions depend on, such "
            "as key='cifar10, resnet18, 30 epochs, seed 3'."
        )
    files = _files(cache, key, folds, labels, count)
    calls = [(fit, folds.cpu(), fold, file) for fold, file in enumerate(files)]
    if jobs == 1:
        parts = [_of_fold(*call) for call in calls]
    else:
        require_module("joblib", "train")
        from joblib import Parallel, delayed

        started: Any = Parallel(n_jobs=jobs)(delayed(_of_fold)(*call) for call in calls)
        parts = list(started)
    return _concatenated(parts, folds.cpu())


def _files(
    cache: str | Path | None, key: str, folds: Tensor, labels: Tensor | None, count: int
) -> list[Path | None]:
    # where each fold is kept: the name is a digest of all that it depends on
    if cache is None:
        return [None] * count
    digest = hashlib.sha256(f"{SCHEMA}\n{torch.__version__}\n{key}\n".encode())
    for tensor in (folds, labels):
        if tensor is not None:
            contiguous = tensor.detach().cpu().contiguous()
            digest.update(described(contiguous).encode())
            digest.update(contiguous.flatten().view(torch.uint8).numpy().tobytes())
    try:
        Path(cache).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the cache {cache} cannot be made: {error}") from error
    return [Path(cache) / f"{digest.hexdigest()}-{k}.safetensors" for k in range(count)]


def _of_fold(fit: Fit, folds: Tensor, fold: int, file: Path | None) -> Tensor:
    # the predictions of one fold, from its file where that is there and whole
    rows = torch.arange(len(folds))
    train, predict = rows[folds != fold], rows[folds == fold]
    if file is not None and (kept := _read(file, len(predict))) is not None:
        return kept
    output = fit(train, predict, fold)
    if not isinstance(output, Tensor):
        raise UsageError(f"fit gives {kind(output)} for fold {fold}; allowed: probabilities.")
    output = output.detach().cpu().contiguous()
    if output.ndim != 2 or len(output) != len(predict):
        raise UsageError(
            f"fit gives {described(output)} for fold {fold}; allowed: [{len(predict)}, C], a "
            "row for each example to predict."
        )
    require_probabilities(f"the probabilities of fold {fold}", output)
    if file is not None:
        content = save({"probabilities": output}, {"metadata": json.dumps({"fold": fold})})
        try:
            write_atomically(file, content)
        except OSError as error:
            raise UsageError(f"fold {fold} cannot be kept in the cache: {error}") from error
    return output


def _read(file: Path, rows: int) -> Tensor | None:
    # None where the file is missing or damaged: the fold is trained again then
    try:
        with safe_open(file, "pt") as stored:
            found = stored.get_tensor("probabilities")
        require_probabilities(str(file), found)
    except (OSError, SafetensorError, UsageError):
        return None
    return found if len(found) == rows else None


def _concatenated(parts: list[Tensor], folds: Tensor) -> Tensor:
    kinds = {(part.shape[1], part.dtype) for part in parts}
    if len(kinds) > 1:
        found = ", ".join(sorted(f"{dtype} with {width} classes" for width, dtype in kinds))
        raise UsageError(f"the folds differ: {found}; allowed: one number of classes and type.")
    combined = parts[0].new_empty(len(folds), parts[0].shape[1])
    for fold, part in enumerate(parts):
        combined[folds == fold] = part
    return combined
