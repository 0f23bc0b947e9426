"""The charts of a report, each one inline SVG."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tutelage.report import formats, looks
from tutelage.report.content import Curve, Examples
from tutelage.report.looks import Look
from tutelage.report.svg import INK, panel
from tutelage.report.tracks import Track, track

MOST_POINTS = 1500
LEAST_LOSS = 1e-4  # smaller losses are drawn here, so that a logarithm can show the rest
BINS = 30

Kinds = list[tuple[str, Look, Bool[np.ndarray, "N"]]]


def accuracy_curves(curves: Sequence[Curve], names: Sequence[str], *, mark: str) -> str:
    """Test accuracy over epochs: per arm the mean over seeds and their range.

    Args:
        curves: Curves of all arms and seeds.
        names: All arms of the run, in order; the place decides the look.
        mark: Begins every id in the drawing; must be unique on the page.

    Returns:
        An ``<svg>`` element.
    """
    tracks = _by_arm(curves, names, lambda curve: [100 * a for a in curve.test_accuracy])
    return _over_epochs(tracks, "Test accuracy in percent", "test accuracy, %", mark)


def loss_curves(curves: Sequence[Curve], names: Sequence[str], *, mark: str) -> str:
    """Training loss over epochs: per arm the mean over seeds and their range.

    Args:
        curves: Curves of all arms and seeds.
        names: All arms of the run, in order; the place decides the look.
        mark: Begins every id in the drawing; must be unique on the page.

    Returns:
        An ``<svg>`` element.
    """
    tracks = _by_arm(curves, names, lambda curve: curve.train_loss)
    return _over_epochs(tracks, "Training loss", "training loss", mark)


def weight_curves(curves: Sequence[Curve], *, mark: str) -> str:
    """Mean weight of right and of wrong labels over epochs, for one arm.

    Args:
        curves: The seeds of one arm.
        mark: Begins every id in the drawing; must be unique on the page.

    Returns:
        An ``<svg>`` element.
    """
    tracks = [
        ("right labels", looks.RIGHT, track(curves, lambda curve: curve.weight_right)),
        ("wrong labels", looks.WRONG, track(curves, lambda curve: curve.weight_wrong)),
    ]
    return _over_epochs(tracks, "Mean weight", "mean weight", mark)


def weight_histogram(examples: Examples, *, mark: str) -> str:
    """How the weights spread, for right and for wrong labels; shares of each kind add to 100 %.

    Args:
        examples: One seed of a taught arm.
        mark: Begins every id in the drawing; must be unique on the page.

    Returns:
        An ``<svg>`` element.
    """
    finite = np.isfinite(examples.weights)
    shown = examples.weights[finite].astype(np.float64)
    low, high = (shown.min(), shown.max()) if len(shown) else (0.0, 1.0)
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-300) or high == low:
        low, high = low - 0.5e-3, high + 0.5e-3  # too narrow to be cut into bins
    edges = np.histogram_bin_edges(shown, bins=BINS, range=(low, high))
    groups = [(name, look, examples.weights[of & finite]) for name, look, of in kinds(examples)]

    def paint(axes: Axes) -> None:
        for _, look, weights in groups:
            counts, _ = np.histogram(weights, bins=edges)
            looks.fill(axes, 100 * counts / max(len(weights), 1), edges, look)
        axes.set(xlabel="weight", ylabel="share of examples, %")
        axes.set_ylim(bottom=0)

    medians = "; ".join(
        f"median of {name}: {formats.number(float(np.median(weights)))}"
        for name, _, weights in groups
        if len(weights)
    )
    return panel(paint, mark=mark, title=f"Histogram of example weights. {medians}.")


def weight_against_loss(examples: Examples, *, mark: str) -> str:
    """One point per example, its loss across and its weight upwards; at most ``MOST_POINTS``.

    Args:
        examples: One seed of a taught arm.
        mark: Begins every id in the drawing; must be unique on the page.

    Returns:
        An ``<svg>`` element.
    """
    chosen = sample(len(examples.ids))
    losses = np.maximum(examples.losses.astype(np.float64), LEAST_LOSS)

    def paint(axes: Axes) -> None:
        for _, look, of in kinds(examples):
            at = chosen[of[chosen]]
            style = {**looks.line(look), "linestyle": "", "markersize": 3.5, "alpha": 0.5}
            axes.plot(losses[at], examples.weights[at], **style, markeredgewidth=0.8)
        _log_if_wide(axes, "x", losses[chosen])
        axes.set(xlabel="loss", ylabel="weight")

    return panel(paint, mark=mark, title=f"Weight against loss of {len(chosen)} examples.")


def sample(size: int) -> np.ndarray:
    """Which examples to draw: all, or ``MOST_POINTS`` of them, the same ones every time.

    Args:
        size: How many there are.

    Returns:
        Positions in rising order.
    """
    if size <= MOST_POINTS:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).choice(size, MOST_POINTS, replace=False))


def kinds(examples: Examples) -> Kinds:
    """Tell rightly from wrongly labelled examples, where the truth is known.

    Args:
        examples: One seed of a taught arm.

    Returns:
        Name, look and members of each kind; a single kind where the truth is unknown.
    """
    if examples.true is None:
        return [("all examples", looks.UNKNOWN, np.ones(len(examples.ids), dtype=bool))]
    right = examples.given == examples.true
    return [("right labels", looks.RIGHT, right), ("wrong labels", looks.WRONG, ~right)]


def lines(
    across: Sequence[float],
    tracks: Mapping[str, Sequence[float]],
    axes: tuple[str, str],
    *,
    mark: str,
    title: str,
) -> str:
    """Named lines over the same places, in the looks of ``looks.arm_looks``.

    Args:
        across: Where the values stand.
        tracks: Values by name.
        axes: What is across and what upwards.
        mark: Begins every id in the drawing; must be unique on the page.
        title: What the drawing shows, in words.

    Returns:
        An ``<svg>`` element.
    """
    across_label, upward_label = axes

    def paint(drawn: Axes) -> None:
        for name, look in looks.arm_looks(list(tracks)).items():
            every = 1 + len(across) // 13
            drawn.plot(across, tracks[name], **looks.line(look), markevery=every)
        drawn.set(xlabel=across_label, ylabel=upward_label)

    return panel(paint, mark=mark, title=title)


def bars(
    values: Mapping[str, float],
    label: str,
    *,
    mark: str,
    title: str,
    ends: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> str:
    """Named values as bars, the first on top.

    Args:
        values: Values by name, at least 0.
        label: What they are.
        ends: Between what a line is drawn across a bar, by its name.
        mark: Begins every id in the drawing; must be unique on the page.
        title: What the drawing shows, in words.

    Returns:
        An ``<svg>`` element.
    """

    def paint(drawn: Axes) -> None:
        drawn.barh(list(values), list(values.values()), color=looks.BLUE, height=0.6)
        for place, name in enumerate(values):
            if name in ends:
                drawn.plot(ends[name], (place, place), color=INK, linewidth=1.2)
        drawn.invert_yaxis()
        drawn.tick_params(axis="y", labelsize="x-small")
        drawn.set(xlabel=label)

    return panel(paint, mark=mark, title=title)


def _by_arm(
    curves: Sequence[Curve],
    names: Sequence[str],
    values: Callable[[Curve], Sequence[float] | None],
) -> list[tuple[str, Look, Track | None]]:
    return [
        (name, look, track([curve for curve in curves if curve.arm == name], values))
        for name, look in looks.arm_looks(names).items()
    ]


def _over_epochs(
    tracks: Sequence[tuple[str, Look, Track | None]], title: str, label: str, mark: str
) -> str:
    drawn = [(name, look, t) for name, look, t in tracks if t is not None]

    def paint(axes: Axes) -> None:
        for _, look, t in drawn:
            axes.fill_between(
                t.epochs, t.low, t.high, color=look.colour, alpha=looks.TINT, linewidth=0
            )
            axes.plot(t.epochs, t.mean, **looks.line(look), markevery=1 + len(t.epochs) // 13)
        _log_if_wide(axes, "y", np.concatenate([[], *([*t.low, *t.high] for *_, t in drawn)]))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="epoch", ylabel=label)

    last = "; ".join(f"{name}: {formats.number(float(t.mean[-1]))}" for name, _, t in drawn)
    return panel(
        paint, mark=mark, title=f"{title} over epochs. At the end {last or 'nothing'}."
    )


def _log_if_wide(axes: Axes, name: str, values: Float[np.ndarray, "n"]) -> None:
    """Make the axis called ``"x"`` or ``"y"`` logarithmic where values span a factor of 30."""
    values = values[np.isfinite(values)]
    if not len(values) or values.min() <= 0 or values.max() < 30 * values.min():
        return
    axes.set(**{f"{name}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
    steps = (1.0, 3.0) if values.max() < 1000 * values.min() else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
