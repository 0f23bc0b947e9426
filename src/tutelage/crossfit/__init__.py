"""Cross-fitting: a prediction for every example by a student that was not trained on it.

For data with wrong labels of which a few are checked: from the predictions, and the class
transitions estimated by the checked labels, follow the labels that are probably wrong and the
targets to train on in place of all labels. Its functions take tensors, and functions of the
caller that train students; they use no teacher, data set or training loop. Start with
``stratified_folds`` and ``out_of_fold``, or with ``cross_fit`` for the whole procedure.
"""

from tutelage.crossfit.folds import stratified_folds
from tutelage.crossfit.label_errors import (
    LabelErrors,
    error_count_interval,
    label_errors,
    match_error_counts,
)
from tutelage.crossfit.out_of_fold import Fit, out_of_fold
from tutelage.crossfit.posterior import (
    label_issues,
    label_posterior,
    refined_transitions,
    sharpened,
)
from tutelage.crossfit.procedure import cross_fit
from tutelage.crossfit.stages import (
    CrossFitted,
    FoldPredictions,
    FoldTraining,
    StagePredictions,
)
from tutelage.crossfit.transitions import ForwardCorrected, estimate_transitions

__all__ = [
    "CrossFitted",
    "Fit",
    "FoldPredictions",
    "FoldTraining",
    "ForwardCorrected",
    "LabelErrors",
    "StagePredictions",
    "cross_fit",
    "error_count_interval",
    "estimate_transitions",
    "label_errors",
    "label_issues",
    "label_posterior",
    "match_error_counts",
    "out_of_fold",
    "refined_transitions",
    "sharpened",
    "stratified_folds",
]

with_totals, wrong_between = match_error_counts, error_count_interval  # former names
