"""The charts of a run's report, each in HTML."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Bool

from tutelage_cli.report import distrust, elements, formats, plots, styles
from tutelage_cli.report.channels import Kind, tooltip
from tutelage_cli.report.content import ClassWeights, Curve, Examples
from tutelage_cli.report.grid import Grid, grid
from tutelage_cli.report.plots import Line, Track, track
from tutelage_cli.report.styles import LineStyle

MOST_POINTS, ALL_POINTS = 1500, 4000  # in one chart, and in those of all arms of a page
LEAST_LOSS = 1e-4  # smaller losses are drawn at this value, for the logarithmic axis
BINS = 30
BANDS = "Line: mean over seeds. Band: lowest to highest seed."
MOST_CLASSES, MOST_EPOCHS = 24, 30
"""drawn by class and epoch; of more classes the highest and lowest, of more epochs a subset"""

Kinds = list[tuple[str, LineStyle, Bool[np.ndarray, "N"]]]
Values = Callable[[Curve], Sequence[float] | None]


def learning_curves(
    curves: Sequence[Curve], names: Sequence[str], *, mark: str = "", title: str = ""
) -> str:
    """Test accuracy and training loss of all arms over epochs, under one legend."""
    accuracy = accuracy_curves(curves, names, mark=f"{mark}accuracy")
    loss = loss_curves(curves, names, mark=f"{mark}loss")
    return (
        f'{styles.arm_legend(names)}<div class="charts">'
        f"{elements.chart(title or 'Test accuracy', accuracy)}"
        f"{elements.chart('Training loss', loss)}</div>"
    )


def accuracy_curves(curves: Sequence[Curve], names: Sequence[str], *, mark: str) -> str:
    """Test accuracy over epochs: per arm the mean over seeds and their range."""
    lines = _by_arm(curves, names, lambda curve: [100 * a for a in curve.test_accuracy])
    axes = "Test accuracy in percent", "test accuracy, %"
    return _over_epochs(lines, axes, mark, lambda value: formats.percent(value / 100))


def loss_curves(curves: Sequence[Curve], names: Sequence[str], *, mark: str) -> str:
    """Training loss over epochs: per arm the mean over seeds and their range."""
    lines = _by_arm(curves, names, lambda curve: curve.train_loss)
    return _over_epochs(lines, ("Training loss", "training loss"), mark)


def weight_curves(curves: Sequence[Curve], *, mark: str) -> str:
    """Mean weight of right and of wrong labels over epochs, for one arm."""
    found = [
        ("right labels", styles.RIGHT, track(curves, lambda curve: curve.weight_right)),
        ("wrong labels", styles.WRONG, track(curves, lambda curve: curve.weight_wrong)),
    ]
    return _over_epochs(_there(found), ("Mean weight", "mean weight"), mark)


def class_weights(by_class: ClassWeights, classes: Sequence[str], *, mark: str) -> str:
    """Mean weight of each class over epochs of one arm, the highest final weight first."""
    order = np.argsort(-np.nan_to_num(by_class.weights[-1], nan=-np.inf), kind="stable")
    half = MOST_CLASSES // 2
    if len(order) > MOST_CLASSES:
        order = np.concatenate([order[:half], order[-half:]])
    last = len(by_class.epochs) - 1
    shown = np.unique(np.linspace(0, last, min(last + 1, MOST_EPOCHS)).round().astype(int))
    names = [distrust.named(int(c), classes) for c in order]
    cells = Grid(
        names,
        [str(by_class.epochs[t]) for t in shown],
        by_class.weights[np.ix_(shown, order)].T,
        ("class", "epoch", "mean weight"),
    )
    ends = f"At the end most {names[0]}, least {names[-1]}"
    return grid(cells, mark=mark, title=f"Mean weight by class and epoch. {ends}.")


def weight_histogram(examples: Examples, *, mark: str) -> str:
    """Histograms of the weights of right and of wrong labels; each adds to 100 %."""
    finite = np.isfinite(examples.weights)
    shown = examples.weights[finite].astype(np.float64)
    low, high = (shown.min(), shown.max()) if len(shown) else (0.0, 1.0)
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-300) or high == low:
        low, high = low - 0.5e-3, high + 0.5e-3  # too narrow to be cut into bins
    edges = np.histogram_bin_edges(shown, bins=BINS, range=(low, high))
    groups = [
        (name, style, examples.weights[members & finite])
        for name, style, members in kinds(examples)
    ]
    shares = [
        (Kind(name, style), 100 * np.histogram(members, bins=edges)[0] / max(len(members), 1))
        for name, style, members in groups
    ]
    medians = "; ".join(
        f"median of {name}: {formats.number(float(np.median(weights)))}"
        for name, _, weights in groups
        if len(weights)
    )
    title = f"Histogram of example weights. {medians}."
    return plots.histogram(
        shares, edges, ("weight", "share of examples, %"), mark=mark, title=title
    )


def weight_against_loss(
    examples: Examples, *, mark: str, classes: Sequence[str] = (), arms: int = 1
) -> str:
    """One point per example, loss on x and weight on y; a sample of many examples."""
    chosen = sample(len(examples.ids), arms)
    losses = np.maximum(examples.losses.astype(np.float64), LEAST_LOSS)
    found = kinds(examples)
    rows = [
        {
            "x": float(f"{losses[i]:.4g}"),
            "y": float(f"{examples.weights[i]:.4g}"),
            "of": str(n),
            "tooltip": tooltip(distrust.HEADER, distrust.row(examples, i, classes)),
        }
        for n, (_, _, members) in enumerate(found)
        for i in chosen[members[chosen]].tolist()
    ]
    return plots.scatter(
        rows,
        [Kind(name, style) for name, style, _ in found],
        ("loss", "weight"),
        mark=mark,
        title=f"Weight against loss of {len(chosen)} examples.",
    )


def sample(size: int, arms: int = 1) -> np.ndarray:
    """Which examples to draw: all, or a fixed sample of the largest size allowed."""
    most = min(MOST_POINTS, ALL_POINTS // arms)
    if size <= most:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).choice(size, most, replace=False))


def kinds(examples: Examples) -> Kinds:
    """Split examples into rightly and wrongly labelled ones, where true labels are known."""
    if examples.true is None:
        return [("all examples", styles.UNKNOWN, np.ones(len(examples.ids), dtype=bool))]
    right = examples.given == examples.true
    return [("right labels", styles.RIGHT, right), ("wrong labels", styles.WRONG, ~right)]


def _by_arm(curves: Sequence[Curve], names: Sequence[str], values: Values) -> list[Line]:
    return _there(
        (name, style, track([curve for curve in curves if curve.arm == name], values))
        for name, style in styles.arm_styles(names).items()
    )


def _there(found: Iterable[tuple[str, LineStyle, Track | None]]) -> list[Line]:
    return [Line(name, style, along) for name, style, along in found if along is not None]


def _over_epochs(
    lines: Sequence[Line],
    axes: tuple[str, str],
    mark: str,
    write: Callable[[float], str] = formats.number,
) -> str:
    title, label = axes
    last = "; ".join(f"{name}: {write(float(along.mean[-1]))}" for name, _, along in lines)
    title = f"{title} over epochs. At the end {last or 'nothing'}."
    return plots.line_chart(lines, ("epoch", label), mark=mark, title=title, write=write)
