"""The figure is one SVG document, the same for the same result."""

import math
import xml.etree.ElementTree as ET

from papers.framework.figure import figure


def content(series):
    plots = [
        {"title": "A & B", "label": "points", "lines": {"one": ["a", "s"]}, "across": "epoch"},
        {"title": "C", "label": "nats", "lines": {"two": ["b", "s"]}, "across": "epoch"},
        {"title": "D", "label": "nats", "lines": {"none": ["c", "s"]}, "across": "epoch"},
    ]
    return {"plots": plots, "series": series}


def test_every_plot_is_drawn_with_its_legend_and_its_last_value():
    text = figure(content({"a": {"s": [[1.0, 2.0], [3.0, 4.0]]}, "b": {"s": [[5.0, 6.0]]}}))
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    words = " ".join(text for text in root.itertext())
    for part in ("A & B", "one: 3.000", "two: 6.000", "At the end nothing", "points"):
        assert part in words
    assert text == figure(
        content({"a": {"s": [[1.0, 2.0], [3.0, 4.0]]}, "b": {"s": [[5.0, 6.0]]}})
    )


def test_seeds_that_diverged_failed_or_stopped_early_leave_a_picture():
    seeds = [[1.0, None, None], None, [2.0, 3.0], [None, None, 4.0]]
    text = figure(content({"a": {"s": seeds}, "b": {"s": [[None, None]]}}))
    assert "one: 4.000" in text
    ET.fromstring(text)
    assert "inf" not in text.lower()
    assert math.isfinite(len(text))
