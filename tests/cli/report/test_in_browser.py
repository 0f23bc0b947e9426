"""The page in a real browser: it renders, says no error, asks for nothing, sorts and hovers."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, ViewportSize, sync_playwright

from tutelage_cli.report import render, rows

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Open = Callable[..., Page]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(run, tmp_path_factory) -> Path:
    """As large a run as is realistic: three arms, five seeds, 60 epochs, 50,000 examples."""
    content = run(seeds=5, epochs=60, examples=50_000, pictures=24, colour=True, policy=True)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(content), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def small(run, tmp_path_factory) -> Path:
    content = run(seeds=2, epochs=3, examples=40, pictures=4, policy=True)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(content), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Open]:
    """Opens the page; at the end nothing may have gone wrong and nothing been asked for."""
    wrong: list[str] = []
    asked: list[str] = []
    contexts = []

    def open_page(width: int = 1200, path: Path = file, **options) -> Page:
        seen = ViewportSize(width=width, height=900)
        contexts.append(browser.new_context(viewport=seen, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
    assert all(address.startswith(("file:", "data:")) for address in asked)
    assert sum(address.startswith("file:") for address in asked) == len(contexts)


def enlivened(page: Page) -> Page:
    """Waits until every chart of the page can be hovered."""
    for drawing in page.locator(".drawing").all():
        drawing.scroll_into_view_if_needed()
        drawing.locator(".live svg").wait_for()
    return page


def test_the_page_is_small(file):
    assert file.stat().st_size < 3_000_000


def test_every_chart_comes_alive_in_the_size_of_its_picture(opened, small):
    page = opened(path=small)
    first = page.locator(".drawing").first
    still = page.locator(".still svg").first.get_attribute("viewBox")
    assert still is not None
    enlivened(page)
    assert first.locator(".still").is_hidden()
    box = first.locator(".live svg").bounding_box()
    assert box is not None
    width, height = map(float, still.split()[2:])
    assert box["width"] / box["height"] == pytest.approx(width / height, rel=0.02)
    assert page.locator(".live .vega-actions, .live summary").count() == 0


def test_hovering_a_line_chart_tells_the_values_there(opened, run):
    page = opened()
    chart = page.locator("#accuracy")
    chart.scroll_into_view_if_needed()
    chart.locator(".live svg").wait_for()
    chart.locator(".hover_marks line").nth(59).hover(force=True)
    tooltip = page.locator("#tooltip.visible")
    tooltip.wait_for()
    lines = tooltip.inner_text().split("\n")
    last = [100 * curve.test_accuracy[59] for curve in _curves(run)[:5]]
    assert lines[0] == "epoch: 60"
    mean, low, high = sum(last) / 5, min(last), max(last)
    assert lines[1] == f"untaught: {mean:.2f} ({low:.2f} to {high:.2f})"


def _curves(run):
    return run(seeds=5, epochs=60, examples=50_000).curves


@pytest.mark.parametrize(
    ("chart", "mark", "said"),
    [
        ("arm-1-histogram", ".hover_marks path", r"weight: .* to .*\nright labels: .* %"),
        ("arm-1-points", ".mark-symbol path", r"Example: \d+\nGiven: \w+\n.*"),
        ("arm-1-classes", ".mark-rect path", r"class: \w+\nepoch: \d+\nmean weight: \d"),
        ("arm-2-probability", ".mark-rect path", r"\w+: 0\.\d+ \(0\.\d+ to 0\.\d+\)"),
    ],
)
def test_hovering_tells_of_bins_examples_cells_and_bars(opened, chart, mark, said):
    page = opened()
    drawing = page.locator(f"#{chart}")
    drawing.scroll_into_view_if_needed()
    drawing.locator(".live svg").wait_for()
    drawing.locator(f".live {mark}").first.hover(force=True)
    page.locator("#tooltip.visible").wait_for()
    assert re.match(said, page.locator("#tooltip").inner_text(), re.DOTALL)


def _column(table: Locator, number: int) -> list[str]:
    return table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()


def test_a_table_sorts_by_mouse_and_by_keyboard(opened):
    table = opened().locator("table.arms")
    accuracy = table.locator("thead th").nth(1)
    written = _column(table, 2)
    accuracy.locator("button").click()
    assert accuracy.get_attribute("aria-sort") == "ascending"
    assert _column(table, 2) == sorted(written, key=lambda text: float(text.split()[0]))
    accuracy.locator("button").press("Enter")
    assert accuracy.get_attribute("aria-sort") == "descending"
    assert _column(table, 2)[::-1] == sorted(written, key=lambda text: float(text.split()[0]))
    table.locator("thead th button").first.focus()
    table.page.keyboard.press("Space")
    assert accuracy.get_attribute("aria-sort") is None
    assert _column(table, 1) == sorted(_column(table, 1))


def test_what_is_no_number_comes_last_however_it_is_sorted(opened):
    table = opened().locator("table.arms")
    auroc = table.locator("thead th").last
    for _ in range(2):
        auroc.locator("button").click()
        assert _column(table, 1)[-1] == "untaught"


def test_without_scripts_pictures_and_tables_say_the_same(opened, run):
    page = opened(java_script_enabled=False)
    assert all(still.is_visible() for still in page.locator(".still").all())
    assert page.locator("button").count() == 0
    assert _column(page.locator("table.arms"), 2) == [row[1] for row in rows(run(seeds=5).arms)]


def test_in_print_pictures_stand_for_charts(opened, small):
    page = enlivened(opened(path=small))
    page.emulate_media(media="print")
    assert all(still.is_visible() for still in page.locator(".still").all())
    assert not any(live.is_visible() for live in page.locator(".live").all())


def test_a_phone_does_not_scroll_sideways(opened, small):
    page = enlivened(opened(360, small))
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) == 360
    for folded in page.locator("summary").all():
        folded.click()
    assert page.evaluate(wide) == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, small, scheme):
    page = enlivened(opened(path=small, color_scheme=scheme))
    for folded in page.locator("summary").all():
        folded.click()
    dark = (
        page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    )
    assert dark == (scheme == "dark")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_ink_is_light_in_the_dark(opened, small):
    page = opened(path=small, color_scheme="dark")
    page.locator("#accuracy .live svg").wait_for()
    for kind in ("still", "live"):
        line = page.locator(f"#accuracy .{kind} text").first
        red = line.evaluate("node => getComputedStyle(node).fill.match(/\\d+/)[0]")
        assert int(red) > 200
