"""Charts: every one is small, named and steady, and shows the numbers it was given."""

import dataclasses
import html
import json
import os
import re
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import altair as alt
import numpy as np
import pytest

from tutelage_cli.report import (
    ClassWeights,
    Curve,
    Examples,
    charts,
    distrust,
    plots,
)
from tutelage_cli.report import (
    styles as styles,
)
from tutelage_cli.report.augmentation import bar_chart
from tutelage_cli.report.grid import Grid, grid
from tutelage_cli.report.interactive import drawing
from tutelage_cli.report.plots import track

NAMES = ("untaught", "learned weights", "small loss")
CLASSES = ("cat", "deer", "dog", "frog", "plane", "ship")
NASTY = '</script><b>&"\u2028 $x$ \udcff'
CELLS = Grid(
    ("a", NASTY), ("b", "c", "d"), np.array([[0, 1, 2], [3, 4, np.nan]]), ("r", "c", "v")
)
CHARTS = {
    "accuracy": lambda run: charts.accuracy_curves(run.curves, NAMES, mark="m"),
    "loss": lambda run: charts.loss_curves(run.curves, NAMES, mark="m"),
    "weights": lambda run: charts.weight_curves(run.curves[3:6], mark="m"),
    "classes": lambda run: charts.class_weights(run.by_class[0], CLASSES, mark="m"),
    "histogram": lambda run: charts.weight_histogram(run.examples[0], mark="m"),
    "points": lambda run: charts.weight_against_loss(run.examples[0], mark="m"),
    "bars": lambda _: bar_chart(
        {"a": 1.0, NASTY: 2.0}, "size", mark="m", title="Bars of a and b."
    ),
    "grid": lambda _: grid(CELLS, mark="m", title="A grid of two rows."),
}


def curve(epochs: tuple[int, ...], losses: tuple[float, ...]) -> Curve:
    return Curve("untaught", 0, epochs, losses, losses)


def examples(weights: np.ndarray, losses: np.ndarray, wrong: np.ndarray | None) -> Examples:
    n = np.arange(len(weights))
    given = n % 3
    true = None if wrong is None else np.where(wrong, (given + 1) % 3, given)
    return Examples("a", n, given, true, given, losses, weights)


def picture(text: str) -> str:
    found = re.search(r'<div class="still">(<svg.*?</svg>)</div>', text, re.DOTALL)
    assert found is not None
    return found[1]


def spec(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def drawn(run) -> dict[str, str]:
    return {name: draw(run()) for name, draw in CHARTS.items()}


@pytest.mark.parametrize("name", CHARTS)
def test_drawing_twice_gives_the_same_text(name, run, drawn):
    assert CHARTS[name](run()) == drawn[name]


@pytest.mark.parametrize("name", CHARTS)
def test_a_picture_is_small_well_formed_and_named(name, drawn):
    assert len(drawn[name].encode(errors="replace")) < 500_000
    assert len(picture(drawn[name]).encode(errors="replace")) < 200_000
    ElementTree.fromstring(picture(drawn[name]))
    assert 'role="img" aria-labelledby="m-title"' in drawn[name]
    assert re.search(r'<title id="m-title">.{12,}</title>', drawn[name])


@pytest.mark.parametrize("name", CHARTS)
def test_ids_begin_with_the_mark_and_every_reference_has_its_id(name, drawn):
    ids = re.findall(r'\bid="([^"]+)"', drawn[name])
    assert len(set(ids)) == len(ids)
    assert all(i == "m" or i.startswith("m-") for i in ids)
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawn[name]))
    assert references <= {*ids, styles.HATCHED}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_takes_the_colour_of_the_text_and_has_no_page_of_its_own(name, drawn):
    assert "<style" not in drawn[name]
    assert styles.INK not in drawn[name]
    assert "currentColor" in picture(drawn[name])
    known = {styles.BLUE, styles.VERMILION, styles.GREEN, styles.PURPLE}
    named = set(re.findall(r'(?:fill|stroke)="([^"]*)"', picture(drawn[name])))
    assert named <= {"none", "currentColor", f"url(#{styles.HATCHED})", *known}


@pytest.mark.parametrize("name", CHARTS)
def test_a_picture_holds_nothing_that_is_only_there_to_be_hovered(name, drawn):
    assert 'opacity="0"' not in picture(drawn[name])
    assert "aria-label=" not in picture(drawn[name])


@pytest.mark.parametrize("name", CHARTS)
def test_text_cannot_end_the_script_that_it_stands_in(name, drawn):
    assert drawn[name].lower().count("</script") == 1
    assert "<b>" not in drawn[name]


def test_a_name_of_any_characters_comes_out_as_it_went_in(drawn):
    said = [row["tooltip"] for row in spec(drawn["bars"])["datasets"]["rows"]]
    assert said == ["a: 1.000", f"{NASTY.replace(chr(0xDCFF), '?')}: 2.000"]
    assert html.escape("</script><b>&", quote=False) in picture(drawn["bars"])


def test_hovering_tells_mean_and_range_of_every_line(run, drawn):
    tooltips = [
        row["tooltip"].split("\n") for row in spec(drawn["accuracy"])["datasets"]["hover"]
    ]
    assert [lines[0] for lines in tooltips] == [f"epoch: {epoch}" for epoch in range(1, 13)]
    last = [100 * c.test_accuracy[-1] for c in run().curves[:3]]
    said = f"{np.mean(last):.2f} ({min(last):.2f} to {max(last):.2f})"
    assert tooltips[-1][1] == f"untaught: {said}"


def test_the_table_under_a_chart_says_what_hovering_does(drawn):
    for row in spec(drawn["loss"])["datasets"]["hover"]:
        for line in row["tooltip"].split("\n")[1:]:
            assert f"<td>{line.split(': ')[1]}</td>" in drawn["loss"]


def test_what_is_no_number_is_left_out():
    [row] = spec(
        drawing(
            alt.Chart(alt.NamedData("rows")).mark_point().encode(x="a:Q"),
            mark="m",
            title="t",
            data={"rows": [{"a": float("nan"), "b": [float("inf"), 1.0]}]},
        )
    )["datasets"]["rows"]
    assert row == {"a": None, "b": [None, 1.0]}


def test_a_process_forked_from_one_that_drew_says_that_it_cannot(drawn):
    assert drawn
    pid = os.fork()
    if pid == 0:  # without the check it would hang
        try:
            bar_chart({"a": 1.0}, "size", mark="m", title="t")
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_wide_drawing_scrolls_and_can_be_reached_by_keyboard():
    names = [f"class {n}" for n in range(20)]
    wide = grid(Grid(names, names, np.eye(20), ("a", "b", "c")), mark="m", title="Twenty.")
    assert '<div class="wide" role="region" tabindex="0" aria-label="Twenty.">' in wide


def test_a_grid_says_between_what_its_colours_run_and_names_some_of_many_columns():
    epochs = [str(n) for n in range(1, 31)]
    values = np.arange(60.0).reshape(2, 30)
    of = Grid(("a", "b"), epochs, values, ("r", "c", "weight"))
    text = grid(of, mark="m", title="t")
    assert "the higher its weight: 0.000 to 59.000." in text
    columns = spec(text)["layer"][0]["encoding"]["x"]
    assert columns["axis"]["values"] == epochs[::2]
    assert columns["scale"]["domain"] == epochs


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


def test_classes_stand_by_their_last_mean_weight():
    of = ClassWeights("x", (1, 2), np.array([[1, 1, 1], [0.5, 2.0, np.nan]]))
    text = charts.class_weights(of, ("a", "b", "c"), mark="m")
    assert "At the end most b, least c." in text
    rows = spec(text)["datasets"]["rows"]
    assert {row["row"]: row["value"] for row in rows if row["column"] == "2"} == {
        "a": 0.5,
        "b": 2.0,
    }


def test_of_many_classes_and_epochs_some_are_shown():
    weights = np.tile(np.arange(50) / 50, (100, 1))
    names = [f"c{n}" for n in range(50)]
    text = charts.class_weights(
        ClassWeights("x", tuple(range(1, 101)), weights), names, mark="m"
    )
    rows = spec(text)["datasets"]["rows"]
    shown = list(dict.fromkeys(row["row"] for row in rows))
    assert len(shown) == charts.MOST_CLASSES
    assert (shown[0], shown[-1]) == ("c49", "c0")
    columns = list(dict.fromkeys(row["column"] for row in rows))
    assert len(columns) == charts.MOST_EPOCHS
    assert (columns[0], columns[-1]) == ("1", "100")


@pytest.mark.parametrize("losses", [(np.nan, np.nan), (0.0, 0.0), (1e-6, 1e3), (-1.0, 1e30)])
def test_odd_losses_are_drawn_without_complaint(losses):
    odd = curve((1, 2), tuple(float(x) for x in losses))
    assert picture(charts.loss_curves([odd], ["untaught"], mark="m"))


@pytest.mark.parametrize("wrong", [None, "some", "none"])
@pytest.mark.parametrize("value", [0.0, 1.0, np.nan, np.inf])
def test_odd_weights_are_drawn_without_complaint(value, wrong):
    n = 40
    given = {"some": np.arange(n) < 7, "none": np.zeros(n, bool)}.get(wrong or "")
    odd = examples(np.full(n, value), np.geomspace(1e-9, 9, n) * value, given)
    assert picture(charts.weight_histogram(odd, mark="m"))
    assert picture(charts.weight_against_loss(odd, mark="m"))
    assert isinstance(distrust.summary(odd), str)


def test_at_most_so_many_points_and_always_the_same():
    chosen = charts.sample(4000)
    assert len(set(chosen)) == charts.MOST_POINTS
    np.testing.assert_array_equal(chosen, charts.sample(4000))
    assert len(charts.sample(10)) == 10
    assert len(charts.sample(4000, 8)) == charts.ALL_POINTS // 8


def test_histogram_shares_of_each_kind_are_percent(monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "histogram", lambda shares, *_, **__: seen.extend(shares) or "")
    rng = np.random.default_rng(0)
    charts.weight_histogram(
        examples(rng.random(99), rng.random(99), rng.random(99) < 0.1), mark="m"
    )
    assert [kind.name for kind, _ in seen] == ["right labels", "wrong labels"]
    assert [heights.sum() for _, heights in seen] == pytest.approx([100, 100])


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


@pytest.mark.parametrize("colour", [styles.BLUE, styles.VERMILION, styles.GREEN, styles.PURPLE])
@pytest.mark.parametrize("page", ["#ffffff", "#14171c"])
def test_colours_stand_out_from_the_page(colour, page):
    low, high = sorted([_luminance(colour), _luminance(page)])
    assert (high + 0.05) / (low + 0.05) >= 3


def test_no_two_looks_share_a_dash_and_a_marker():
    for one, other in (("dash", "marker"), ("colour", "dash"), ("colour", "marker")):
        pairs = [(getattr(style, one), getattr(style, other)) for style in styles.ARMS]
        assert len(set(pairs)) == len(pairs)
    assert styles.RIGHT.dash != styles.WRONG.dash
    assert styles.RIGHT.marker != styles.WRONG.marker
    assert styles.RIGHT.hatch != styles.WRONG.hatch
    assert {style.marker for style in styles.ARMS} <= set(styles.SHAPES)


@pytest.mark.parametrize("field", ["given", "true", "predicted", "losses", "weights"])
def test_examples_of_unlike_length_are_refused(field):
    whole = examples(np.ones(4), np.ones(4), np.ones(4, bool))
    values = {f.name: getattr(whole, f.name) for f in dataclasses.fields(whole)}
    values[field] = values[field][:-1]
    # Under test the annotations refuse such arrays first; a user has only this check.
    unchecked = cast("Examples", SimpleNamespace(**values))
    with pytest.raises(ValueError, match=f"{field} holds 3 values, expected 4"):
        Examples.__post_init__(unchecked)
