"""What a recipe is: a frozen record that names its arms, settings, claims and figures."""

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
    """What one job, an arm with a seed, measured."""

    metrics: Mapping[str, float]
    """one number for every metric of the recipe, in the paper's unit"""
    series: Mapping[str, Sequence[float]] = MappingProxyType({})
    """one number per epoch, for the plots"""
    drawings: Mapping[str, Drawing] = MappingProxyType({})
    """made by the functions of ``papers.framework.drawings``, for the panels"""


class Plot(NamedTuple):
    """Series of some arms in one pair of axes, each the mean over seeds with their range."""

    title: str
    label: str  # of the upright axis
    lines: Mapping[str, tuple[str, str]]  # what the legend says, to arm and series
    across: str = "epoch"  # what the series are over


class Panel(NamedTuple):
    """A drawing of one arm, as the first seed that has it made it."""

    title: str
    arm: str
    drawing: str  # its name in the arm's outcome


Run = Callable[[str, int, Any, torch.device], Outcome]
"""from arm, seed, settings and device; takes its randomness from the seed alone"""


def nothing(_settings: Any) -> None:
    """Prepare nothing: for recipes without data."""


@dataclass(frozen=True)
class Recipe:
    """One table or figure of a paper, as something that can be run and can fail."""

    name: str
    title: str  # one line
    paper: str  # one of ``papers.framework.paper_tables.PAPERS``
    where: str  # the paper's table or figure, as in ``"Table 1, Figure 2"``
    arms: tuple[str, ...]
    metrics: Mapping[str, str]  # what each metric is, with its unit
    settings: Mapping[str, Any]
    """a frozen dataclass by scale; at the scale hours mini's, where it has none of its own"""
    minutes: Mapping[str, float]
    """expected for three seeds by scale: smoke and mini on two CPU cores with nothing else to
    do, gpu and paper on one H100-class card"""
    run: Run  # a function of a module, which another process can import, or a partial of one
    claims: tuple[Claim, ...]
    table: str = ""  # the table of the paper's numbers below; nothing where it prints none
    printed: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """arm and metric, to the row and column of ``table``"""
    printed_as: Mapping[str, str] = field(default_factory=dict)
    """a metric of the claims, to the one for which the paper prints numbers instead"""
    plots: tuple[Plot | Panel, ...] = ()  # what the figure shows, two beside one another
    prepare: Callable[[Any], object] = nothing
    """called with the settings before any job: reads the data once, so that it is cached, or
    told in one line where it is missing"""
    notes: tuple[str, ...] = ()
    """what is to be said of this machine, besides the recipe's entry in ``notes.yaml``"""
    repeatable: bool = True  # whether a job gives the same numbers again; times do not

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
    """A claim that is ours, not the paper's."""
    return Claim(text, comparisons, of_paper=False)


Other = str | float | Measure
"""what a metric is compared with: the same of another arm, a bound, or any other measure"""


def above(metric: str, arm: str, *others: Other, margin: float = 0.0) -> tuple[Comparison, ...]:
    """Comparisons for claims that an arm's metric is higher."""
    return _compared("above", (arm, metric), others, margin)


def below(metric: str, arm: str, *others: Other, margin: float = 0.0) -> tuple[Comparison, ...]:
    """Comparisons for claims that an arm's metric is lower."""
    return _compared("below", (arm, metric), others, margin)


def _compared(
    side: Literal["above", "below"], what: Measure, others: Iterable[Other], margin: float
) -> tuple[Comparison, ...]:
    measures = [(other, what[1]) if isinstance(other, str) else other for other in others]
    return tuple(Comparison(what, side, other, margin) for other in measures)


def better(arm: str, *others: str) -> tuple[Comparison, ...]:
    """Comparisons with other arms, for claims of a higher test accuracy and a lower loss."""
    pairs = [above("test_accuracy", arm, o) + below("test_loss", arm, o) for o in others]
    return tuple(comparison for pair in pairs for comparison in pair)


def curves(
    title: str, label: str, arms: Iterable[str], series: str, across: str = "epoch"
) -> Plot:
    """The same series of several arms in one pair of axes."""
    return Plot(title, label, {arm: (arm, series) for arm in arms}, across)
