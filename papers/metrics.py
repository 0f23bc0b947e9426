"""BLEU of translations, and the scores of GLUE's tasks in percent."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, matthews_corrcoef
from torch import Tensor

from tutelage.errors import MissingExtraError, UsageError


def bleu(outputs: Sequence[str], references: Sequence[str], *, lower_case: bool) -> float:
    """Corpus BLEU of up to four words in a row, one reference a sentence, as sacreBLEU has it.

    Without smoothing beyond sacreBLEU's own (exponential): where all outputs together have no
    four words in a row it is 0, even if every word is right.

    Source: Papineni et al. 2002; Post 2018, A Call for Clarity in Reporting BLEU Scores.
    """
    if len(outputs) != len(references):
        raise UsageError(
            f"{len(outputs)} outputs but {len(references)} references; give one for each."
        )
    if not outputs:
        raise UsageError("no sentence to score; give one and more.")
    try:
        from sacrebleu import corpus_bleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "papers") from error
    found = corpus_bleu(list(outputs), [list(references)], lowercase=lower_case)
    return float(found.score)


Score = Callable[[Tensor, Tensor], float]
"""from predictions [N] and labels [N] to a number"""


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The share of right predictions."""
    return 100 * float(accuracy_score(*_arrays(labels, predicted)))


def matthews(predicted: Tensor, labels: Tensor) -> float:
    """Matthews' correlation."""
    with warnings.catch_warnings():  # a single label
        warnings.simplefilter("ignore", UserWarning)
        return 100 * float(matthews_corrcoef(*_arrays(labels, predicted)))


def spearman(predicted: Tensor, labels: Tensor) -> float:
    """Spearman's rank correlation."""
    a, b = _arrays(predicted, labels)
    if len(set(a.tolist())) < 2 or len(set(b.tolist())) < 2:
        return 0.0
    return 100 * float(cast(Any, spearmanr(a, b))[0])


GLUE: Mapping[str, Score] = {
    "cola": matthews,
    "sst2": accuracy,
    "mrpc": accuracy,
    "stsb": spearman,
    "qqp": accuracy,
    "mnli": accuracy,
    "qnli": accuracy,
    "rte": accuracy,
    "wnli": accuracy,
}
"""The score of each task on its development set, as papers on BERT print it."""


def _arrays(a: Tensor, b: Tensor) -> tuple[np.ndarray, np.ndarray]:
    if a.shape != b.shape or not len(a):
        raise UsageError(
            f"predictions have shape {tuple(a.shape)} and labels {tuple(b.shape)}; give one "
            "for each, and one at least."
        )
    return a.cpu().numpy(), b.cpu().numpy()
