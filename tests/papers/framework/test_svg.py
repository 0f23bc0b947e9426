"""A matplotlib drawing as SVG: well formed, named, steady, and matplotlib left as it was."""

import re
from xml.etree import ElementTree

import matplotlib

from papers.framework.painting import panel, stroke
from tutelage_cli.report.styles import ARMS, INK


def drawn() -> str:
    return panel(
        lambda axes: axes.plot([0, 1, 2], [2, 1, 3], **stroke(ARMS[1])), mark="m", title="t"
    )


def test_a_panel_is_well_formed_named_and_the_same_every_time():
    text = drawn()
    ElementTree.fromstring(text)
    assert 'role="img" aria-labelledby="m-title"' in text
    assert text == drawn()


def test_ids_begin_with_the_mark_and_every_reference_has_its_id():
    ids = re.findall(r'\bid="([^"]+)"', drawn())
    assert len(set(ids)) == len(ids)
    assert all(i.startswith("m-") for i in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawn())) <= set(ids)


def test_a_panel_disturbs_nothing_around_it():
    for foreign in ("<style", "<?xml", INK, "#ffffff"):
        assert foreign not in drawn()


def test_matplotlib_settings_are_put_back():
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 33}):
        inside = drawn()
        assert matplotlib.rcParams["font.size"] == 33
    assert dict(matplotlib.rcParams) == before
    assert drawn() == inside
