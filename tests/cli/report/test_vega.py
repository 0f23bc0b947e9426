"""The library of charts is bundled once, and a damaged copy of it is not used."""

import pytest
import vl_convert

from tutelage_cli.report.vega import vega_script


@pytest.fixture
def bundled(monkeypatch, tmp_path):
    """The snippets that were bundled; the user's cache folder is an empty one."""
    calls = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        vl_convert, "javascript_bundle", lambda snippet: calls.append(snippet) or f"é{snippet}"
    )
    vega_script.cache_clear()
    yield calls
    vega_script.cache_clear()


def again() -> str:
    vega_script.cache_clear()  # as in another process
    return vega_script()


def test_a_bundle_is_made_once_and_read_back(bundled, tmp_path) -> None:
    first = vega_script()
    assert again() == first
    assert len(bundled) == 1
    assert len(list((tmp_path / "tutelage").iterdir())) == 1


def test_another_release_is_bundled_anew(bundled, monkeypatch) -> None:
    vega_script()
    monkeypatch.setattr("tutelage_cli.report.vega.version", lambda _: "0.0.0")
    again()
    assert len(bundled) == 2


@pytest.mark.parametrize("damage", [b"", b"alert(1)", b"// 0\nalert(1)", b"\xff\n\xff"])
def test_a_damaged_copy_is_bundled_anew(bundled, tmp_path, damage) -> None:
    first = vega_script()
    (entry,) = (tmp_path / "tutelage").iterdir()
    entry.write_bytes(damage)
    assert again() == first
    assert again() == first
    assert len(bundled) == 2


def test_a_folder_that_cannot_be_made_is_no_fault(bundled, tmp_path) -> None:
    (tmp_path / "tutelage").write_text("a file")
    assert vega_script() == again()
    assert len(bundled) == 2
