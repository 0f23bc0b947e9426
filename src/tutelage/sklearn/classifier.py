"""``TaughtClassifier``: ``tutelage.fit`` as an estimator of scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.errors import MissingExtraError, UsageError
from tutelage.fitting import fit
from tutelage.fitting.settings import whole
from tutelage.models.heads import mlp
from tutelage.randomness import seeded

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError("scikit-learn", "sklearn") from error

_ROWS = 1000
"""examples that are predicted at a time"""


class TaughtClassifier(ClassifierMixin, BaseEstimator):
    """A neural network that learns from labels with errors, by a few checked ones.

    ``fit(X, y, X_checked, y_checked)`` trains by ``tutelage.fit``, with its cross-fitting.
    Without checked examples it is plain training, in which all examples count the same or by
    ``sample_weight``. The last epoch counts. Where
    scikit-learn or cleanlab calls ``fit``, checked examples are passed on as parameters of it:
    ``GridSearchCV(...).fit(X, y, X_checked=..., y_checked=...)``,
    ``CleanLearning(...).fit(X, y, clf_kwargs={"X_checked": ..., "y_checked": ...})``.
    scikit-learn splits parameters that have as many rows as X: if there are exactly as many
    checked examples, leave one out.

    Args:
        module: From the numbers of features and classes to an ``nn.Module`` from [B, D] to
            logits [B, C]. None: standardised features and one hidden layer.
        epochs: Passes over the training set.
        batch_size: Examples in a step.
        lr: Learning rate of SGD with momentum 0.9 and weight decay 5e-4.
        folds: Of cross-fitting, 2 and above; as many as examples where there are fewer.
        random_state: Seed, generator or None, as elsewhere in scikit-learn.

    Attributes:
        classes_: Labels [C], sorted: those of y and of y_checked.
        sample_weight_: The probability that each label of y is right [N]; without checked
            examples how much it counted, where 1 is the mean. 0 where ``sample_weight`` is.
        student_: The trained module.
        result_: The ``tutelage.FitResult``, with the history and a report.
        n_features_in_: D.
    """

    def __init__(
        self,
        module: Callable[[int, int], nn.Module] | None = None,
        *,
        epochs: int = 30,
        batch_size: int = 32,
        lr: float = 0.05,
        folds: int = 5,
        random_state: Any = None,
    ) -> None:
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.folds = folds
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        X_checked: Any = None,
        y_checked: Any = None,
        sample_weight: Any = None,
    ) -> "TaughtClassifier":
        """Train on labels that may be wrong.

        Args:
            X: Features [N, D].
            y: Labels [N], numbers or strings.
            X_checked: Features of examples with right labels, which are trained on, too.
            y_checked: Those labels.
            sample_weight: Factors [N] of the examples' weights; those of 0 are left out.

        Returns:
            The estimator.

        Raises:
            UsageError: If only one of X_checked and y_checked is given, or there is one class.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if (X_checked is None) != (y_checked is None):
            raise UsageError("Give both X_checked and y_checked, or neither.")
        given = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        kept, checked, labels = given > 0, None, (y[given > 0],)
        if X_checked is not None:
            X_checked, y_checked = validate_data(
                self, X_checked, y_checked, dtype=np.float64, reset=False
            )
            labels = (*labels, y_checked)
        self.classes_ = unique_labels(*labels)
        if len(self.classes_) < 2:
            raise UsageError("The labels are of one class; a classifier needs two or more.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        weights = torch.as_tensor(given[kept])
        with seeded(seed):
            student = self._module(X[kept])
            if X_checked is not None:
                checked = X_checked, np.searchsorted(self.classes_, y_checked)
        self.result_ = fit(
            student,
            (X[kept], np.searchsorted(self.classes_, y[kept])),
            checked,
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=lambda p: SGD(p, self.lr, 0.9, weight_decay=5e-4),
            folds=min(whole("folds", self.folds), len(weights)),
            weights=weights,
            seed=seed,
        )
        self.student_ = self.result_.student
        self.sample_weight_ = np.zeros(len(X), np.float32)
        self.sample_weight_[kept] = self.result_.weights.numpy()
        return self

    def _module(self, X: np.ndarray) -> nn.Module:
        sizes = X.shape[1], len(self.classes_)
        if self.module is not None:
            return self.module(*sizes)
        return nn.Sequential(_Standardise(torch.as_tensor(X)), mlp(*sizes)).double()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Args:
            X: Features [N, D].

        Returns:
            [N, C], in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        like = next(self.student_.parameters())
        with torch.no_grad():
            parts = torch.as_tensor(X).to(like).split(_ROWS)
            logits = torch.cat([self.student_(part) for part in parts])
        return logits.double().softmax(1).cpu().numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class.

        Args:
            X: Features [N, D].

        Returns:
            Labels [N], some of ``classes_``.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]


class _Standardise(nn.Module):
    """Features less their mean, over their standard deviation."""

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        scale = features.std(0, correction=0)
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", features.mean(0))
        self.register_buffer("scale", scale.where(scale > 0, 1))

    def forward(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale
