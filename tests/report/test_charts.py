"""Charts: every one is small, named, steady, and leaves matplotlib as it was."""

import dataclasses
import re
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from tutelage.report import Curve, Examples, charts, distrust, looks, svg
from tutelage.report.tracks import track

NAMES = ("untaught", "learned weights", "small loss")
CHARTS = {
    "accuracy": lambda run: charts.accuracy_curves(run.curves, NAMES, mark="m"),
    "loss": lambda run: charts.loss_curves(run.curves, NAMES, mark="m"),
    "weights": lambda run: charts.weight_curves(run.curves[3:6], mark="m"),
    "histogram": lambda run: charts.weight_histogram(run.examples[0], mark="m"),
    "points": lambda run: charts.weight_against_loss(run.examples[0], mark="m"),
    "legend": lambda _: looks.legend([("right", looks.RIGHT), ("x", looks.WRONG)], mark="m"),
}


def curve(epochs: tuple[int, ...], losses: tuple[float, ...]) -> Curve:
    return Curve("untaught", 0, epochs, losses, losses)


def examples(weights: np.ndarray, losses: np.ndarray, wrong: np.ndarray | None) -> Examples:
    n = np.arange(len(weights))
    given = n % 3
    true = None if wrong is None else np.where(wrong, (given + 1) % 3, given)
    return Examples("a", n, given, true, given, losses, weights)


@pytest.fixture(scope="module")
def drawn(run) -> dict[str, str]:
    return {name: draw(run()) for name, draw in CHARTS.items()}


@pytest.mark.parametrize("name", CHARTS)
def test_drawing_twice_gives_the_same_bytes(name, run, drawn):
    assert CHARTS[name](run()) == drawn[name]


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_small_and_well_formed(name, drawn):
    assert len(drawn[name].encode()) < 200_000
    ElementTree.fromstring(drawn[name])


@pytest.mark.parametrize("name", CHARTS)
def test_ids_begin_with_the_mark_and_every_reference_has_its_id(name, drawn):
    ids = re.findall(r'\bid="([^"]+)"', drawn[name])
    assert len(set(ids)) == len(ids)
    assert all(i.startswith("m-") for i in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawn[name])) <= set(ids)


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "legend"])
def test_a_chart_has_a_name(name, drawn):
    assert 'role="img" aria-labelledby="m-title"' in drawn[name]
    assert re.search(r'<title id="m-title">.{20,}</title>', drawn[name])


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_disturbs_nothing_around_it(name, drawn):
    assert "<style" not in drawn[name]
    assert "<?xml" not in drawn[name]
    assert svg.INK not in drawn[name]
    assert "#ffffff" not in drawn[name]


def test_matplotlib_settings_are_put_back():
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 33}):
        inside = svg.panel(lambda axes: axes.plot([0, 1]), mark="m", title="t")
        assert matplotlib.rcParams["font.size"] == 33
    assert dict(matplotlib.rcParams) == before
    assert svg.panel(lambda axes: axes.plot([0, 1]), mark="m", title="t") == inside


def test_track_is_mean_and_range_over_the_seeds_that_reached_an_epoch():
    seeds = [curve((1, 2), (1.0, 3.0)), curve((1, 2, 3), (2.0, float("nan"), 5.0))]
    t = track(seeds, lambda c: c.train_loss)
    assert t is not None
    np.testing.assert_array_equal(t.epochs, [1, 2, 3])
    np.testing.assert_array_equal(t.mean, [1.5, 3, 5])
    np.testing.assert_array_equal(t.low, [1, 3, 5])
    np.testing.assert_array_equal(t.high, [2, 3, 5])


def test_there_is_no_track_without_values():
    assert track([curve((1,), (float("inf"),))], lambda c: c.train_loss) is None
    assert track([curve((1,), (1.0,))], lambda c: c.weight_right) is None


def test_line_ends_where_the_mean_ends():
    title = charts.loss_curves(
        [curve((1, 2), (1.0, 0.5)), curve((1, 2), (1.0, 0.25))], ["untaught"], mark="m"
    )
    assert "untaught: 0.375" in title


@pytest.mark.parametrize("losses", [(np.nan, np.nan), (0.0, 0.0), (1e-6, 1e3), (-1.0, 1e30)])
def test_odd_losses_are_drawn_without_complaint(losses):
    odd = curve((1, 2), tuple(float(x) for x in losses))
    assert charts.loss_curves([odd], ["untaught"], mark="m").startswith("<svg")


@pytest.mark.parametrize("wrong", [None, "some", "none"])
@pytest.mark.parametrize("value", [0.0, 1.0, np.nan, np.inf])
def test_odd_weights_are_drawn_without_complaint(value, wrong):
    n = 40
    given = {"some": np.arange(n) < 7, "none": np.zeros(n, bool)}.get(wrong or "")
    odd = examples(np.full(n, value), np.geomspace(1e-9, 9, n) * value, given)
    assert charts.weight_histogram(odd, mark="m").startswith("<svg")
    assert charts.weight_against_loss(odd, mark="m").startswith("<svg")
    assert isinstance(distrust.summary(odd), str)


def test_at_most_so_many_points_and_always_the_same():
    chosen = charts.sample(4000)
    assert len(set(chosen)) == charts.MOST_POINTS
    np.testing.assert_array_equal(chosen, charts.sample(4000))
    assert len(charts.sample(10)) == 10


def test_histogram_shares_of_each_kind_are_percent(monkeypatch):
    seen = []
    monkeypatch.setattr(looks, "fill", lambda _, heights, *__: seen.append(sum(heights)))
    rng = np.random.default_rng(0)
    charts.weight_histogram(
        examples(rng.random(99), rng.random(99), rng.random(99) < 0.1), mark="m"
    )
    assert seen == pytest.approx([100, 100])


def test_summary_counts_wrong_labels_among_the_lightest_with_ties():
    weights = np.array([0.0] * 4 + [1.0] * 16)
    wrong = np.arange(20) < 3
    text = distrust.summary(examples(weights, weights + 1, wrong))
    assert text.startswith(
        "Of the 4 examples with the lowest weight, 3 carry a wrong label (75.0 %)"
    )
    assert text.endswith("of all 20 training examples, 3 do (15.0 %).")


def test_distrusted_rows_are_the_lightest_then_the_costliest():
    weights, losses = np.array([0.5, 0.1, 0.1, 0.9]), np.array([1.0, 2.0, 3.0, 4.0])
    lines = distrust.rows(examples(weights, losses, None), ("cat", "dog"))
    assert [line[0] for line in lines] == ["2", "1", "0", "3"]
    assert lines[0] == ("2", "2", "2", "–", "0.100", "3.000")
    assert lines[1][1] == "dog"


def _luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colour", [looks.BLUE, looks.VERMILION, looks.GREEN, looks.PURPLE])
@pytest.mark.parametrize("page", ["#ffffff", "#14171c"])
def test_colours_stand_out_from_the_page(colour, page):
    low, high = sorted([_luminance(colour), _luminance(page)])
    assert (high + 0.05) / (low + 0.05) >= 3


def test_no_two_looks_share_a_dash_and_a_marker():
    for one, other in (("dash", "marker"), ("colour", "dash"), ("colour", "marker")):
        pairs = [(getattr(look, one), getattr(look, other)) for look in looks.ARMS]
        assert len(set(pairs)) == len(pairs)
    assert looks.RIGHT.dash != looks.WRONG.dash
    assert looks.RIGHT.marker != looks.WRONG.marker
    assert looks.RIGHT.hatch != looks.WRONG.hatch


@pytest.mark.parametrize("field", ["given", "true", "predicted", "losses", "weights"])
def test_examples_of_unlike_length_are_refused(field):
    whole = examples(np.ones(4), np.ones(4), np.ones(4, bool))
    values = {f.name: getattr(whole, f.name) for f in dataclasses.fields(whole)}
    values[field] = values[field][:-1]
    # Under test the annotations refuse such arrays first; a user has only this check.
    unchecked = cast("Examples", SimpleNamespace(**values))
    with pytest.raises(ValueError, match=f"{field} holds 3 values, expected 4"):
        Examples.__post_init__(unchecked)
