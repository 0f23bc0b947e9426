"""What a page points at, and whether that is there."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""tags whose target a browser fetches by itself"""
OUTSIDE = re.compile(r"(?:https?:)?//")
CSS_FETCHES = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")
MARKDOWN_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


class Page(HTMLParser):
    """A built page: its anchors, its links, and what it makes a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in FETCHED and FETCHED[tag] in found and found.get("rel") != "canonical":
            self.fetched.append(found[FETCHED[tag]])


def pages_of_site(folder: Path) -> dict[str, Page]:
    """The pages of a built site, by their path there."""
    return {
        file.relative_to(folder).as_posix(): Page(file.read_text(encoding="utf-8"))
        for file in folder.rglob("*.html")
    }


def faults_of_site(folder: Path, pages: dict[str, Page]) -> list[str]:
    """Dead links and anchors of a built site, and whatever it would fetch from elsewhere."""
    faults = []
    for name, page in pages.items():
        for target in {*page.links, *page.fetched}:
            if OUTSIDE.match(target):
                if target in page.fetched:
                    faults.append(f"{name} fetches {target}")
            elif not _is_there(folder, pages, name, target):
                faults.append(f"{name}: {target}")
    for file in folder.rglob("*.css"):
        found = CSS_FETCHES.findall(file.read_text(encoding="utf-8"))
        faults += [f"{file.name} fetches {target}" for target in found]
    return sorted(faults)


def _is_there(folder: Path, pages: dict[str, Page], name: str, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme:  # mailto:, data:
        return True
    if not parts.path:
        return not parts.fragment or unquote(parts.fragment) in pages[name].anchors
    file = ((folder / name).parent / unquote(parts.path)).resolve()
    if not file.is_file() or not file.is_relative_to(folder.resolve()):
        return False
    page = pages.get(file.relative_to(folder.resolve()).as_posix())
    return not parts.fragment or page is None or unquote(parts.fragment) in page.anchors


def faults_of_markdown(file: Path) -> list[str]:
    """Relative links of a file that lead to no file, or to no heading as GitHub names it."""
    text = file.read_text(encoding="utf-8")
    faults = []
    for target in MARKDOWN_LINK.findall(text):
        parts = urlsplit(target)
        if parts.scheme:
            continue
        there = (file.parent / unquote(parts.path)) if parts.path else file
        if not there.exists() or (parts.fragment and parts.fragment not in _headings(there)):
            faults.append(f"{file.name}: {target}")
    return faults


def _headings(file: Path) -> set[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    titles = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}
