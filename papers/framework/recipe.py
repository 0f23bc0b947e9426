"""``Recipe``: a frozen record of arms, metrics, settings, claims and plots."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch

from papers.framework.args import HOURS, SCALES
from papers.framework.drawings import Drawing
from papers.framework.paper_tables import PAPERS, printed
from tutelage_cli.claims import Claim, Comparison, Measure


class Outcome(NamedTuple):
    """The results of one job: one arm with one seed."""

    metrics: Mapping[str, float]
    """one number for every metric of the recipe, in the paper's unit"""
    series: Mapping[str, Sequence[float]] = MappingProxyType({})
    """one number per epoch, for the plots"""
    drawings: Mapping[str, Drawing] = MappingProxyType({})
    """made by the functions of ``papers.framework.drawings``, for the panels"""


class Plot(NamedTuple):
    """Lines of several series in one pair of axes: means over seeds, with the range."""

    title: str
    label: str  # of the vertical axis
    lines: Mapping[str, tuple[str, str]]  # names in the legend, to arm and series
    across: str = "epoch"  # label of the horizontal axis


class Panel(NamedTuple):
    """A drawing of one arm, from the first seed that has it."""

    title: str
    arm: str
    drawing: str  # its name in ``Outcome.drawings``


Run = Callable[[str, int, Any, torch.device], Outcome]
"""from arm, seed, settings and device; all random numbers depend on the seed alone"""


def no_preparation(_settings: Any) -> None:
    """For recipes without data."""


@dataclass(frozen=True)
class Recipe:
    """One table or figure of a paper: how it is run, and the claims that are tested."""

    name: str
    title: str  # one line
    paper: str  # one of ``papers.framework.paper_tables.PAPERS``
    where: str  # the paper's table or figure, as in ``"Table 1, Figure 2"``
    arms: tuple[str, ...]
    metrics: Mapping[str, str]  # description of each metric, with its unit
    settings: Mapping[str, Any]
    """a frozen dataclass by scale; without an entry for hours, that scale has mini's"""
    minutes: Mapping[str, float]
    """expected for three seeds by scale: smoke and mini on two idle CPU cores, gpu and paper on
    one H100-class GPU"""
    run: Run  # a function at the top of a module, or a partial of one, as it is pickled
    claims: tuple[Claim, ...]
    table: str = ""  # the paper's table of the numbers below; empty if it prints none
    printed: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """arm and metric, to the row and column of ``table``"""
    printed_as: Mapping[str, str] = field(default_factory=dict)
    """a metric of the claims, to another one for which the paper prints numbers"""
    plots: tuple[Plot | Panel, ...] = ()  # of the figure
    prepare: Callable[[Any], object] = no_preparation
    """called with the settings before all jobs: reads the data, so that they are cached, or
    raises one error if they are missing"""
    repeatable: bool = True  # whether a job has the same results again; False: it measures time

    def __post_init__(self) -> None:
        self._check_scales()
        self._check_names()
        for row, column in self.printed.values():
            printed(self.paper, self.table, row, column)

    def _check_scales(self) -> None:
        needed = set(SCALES) - {HOURS}
        for scales in (self.settings.keys() - {HOURS}, self.minutes.keys()):
            if scales != needed:
                raise ValueError(f"{self.name}: scales {set(scales)}; needed: {needed}.")

    def _check_names(self) -> None:
        if odd := [arm for arm in self.arms if not re.fullmatch(r"[\w.+-]+", arm)]:
            raise ValueError(f"{self.name}: arms {odd} cannot be names of files.")
        if self.paper not in PAPERS:
            raise ValueError(f"{self.name}: paper '{self.paper}'; allowed: {list(PAPERS)}.")
        if not self.claims:
            raise ValueError(f"{self.name} makes no claim.")
        claimed = [m for claim in self.claims for c in claim.comparisons for m in c.measures]
        for arm, metric in (*claimed, *self.printed):
            if arm not in self.arms or metric not in self.metrics:
                raise ValueError(f"{self.name}: '{metric}' of '{arm}' is not measured.")
        for plot in self.plots:
            if unknown := _arms(plot) - set(self.arms):
                raise ValueError(f"{self.name}: the plot '{plot.title}' names {unknown}.")


def _arms(plot: Plot | Panel) -> set[str]:
    return {plot.arm} if isinstance(plot, Panel) else {arm for arm, _ in plot.lines.values()}


def expectation(text: str, comparisons: tuple[Comparison, ...]) -> Claim:
    """A claim of ours, which the paper does not make."""
    return Claim(text, comparisons, of_paper=False)


Other = str | float | Measure
"""what a metric is compared with: the same metric of another arm, a number, or any measure"""


def above(metric: str, arm: str, *others: Other, margin: float = 0.0) -> tuple[Comparison, ...]:
    """Comparisons for claims that an arm's metric is higher."""
    return _compared("above", (arm, metric), others, margin)


def below(metric: str, arm: str, *others: Other, margin: float = 0.0) -> tuple[Comparison, ...]:
    """Comparisons for claims that an arm's metric is lower."""
    return _compared("below", (arm, metric), others, margin)


def _compared(
    side: Literal["above", "below"], measure: Measure, others: Iterable[Other], margin: float
) -> tuple[Comparison, ...]:
    measures = [(other, measure[1]) if isinstance(other, str) else other for other in others]
    return tuple(Comparison(measure, side, other, margin) for other in measures)


def better(arm: str, *others: str) -> tuple[Comparison, ...]:
    """Comparisons with other arms, for claims of a higher test accuracy and a lower loss."""
    pairs = [above("test_accuracy", arm, o) + below("test_loss", arm, o) for o in others]
    return tuple(comparison for pair in pairs for comparison in pair)


def curves(
    title: str, label: str, arms: Iterable[str], series: str, across: str = "epoch"
) -> Plot:
    """The same series of several arms in one pair of axes."""
    return Plot(title, label, {arm: (arm, series) for arm in arms}, across)
