"""The site builds without a warning, its links lead somewhere, nothing comes from outside."""

import os
import sys
import warnings
from pathlib import Path

import pytest

from tests.cli.train.killing import child, ended
from tests.docs.links import faults_of_markdown, faults_of_site, pages_of_site
from tests.trained import unchecked

sphinx = pytest.importorskip("sphinx.cmd.build")

ROOT = Path(__file__).parents[2]
BUILD = ("-q", "-W", "--keep-going", "-b", "html", "docs")
SHOWN_ON_GITHUB = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")


def test_the_site_builds_without_a_warning_and_holds_together_offline(tmp_path) -> None:
    site, said = tmp_path / "site", tmp_path / "said"

    def built() -> int:
        os.chdir(ROOT)
        warnings.simplefilter("default")  # Sphinx's own are errors by -W
        with said.open("w", encoding="utf-8") as sys.stderr, unchecked():
            return sphinx.main([*BUILD, str(site)])

    # a fork has imported what the pages document, and Sphinx may import it again
    code = ended(child(built), within=None)
    assert code == 0, said.read_text(encoding="utf-8")
    pages = pages_of_site(site)
    assert len(pages) > 25
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert faults_of_site(site, pages) == []


@pytest.mark.parametrize("name", SHOWN_ON_GITHUB)
def test_links_of_what_is_read_outside_of_the_site_lead_somewhere(name) -> None:
    assert faults_of_markdown(ROOT / name) == []


def test_dead_links_and_fetches_are_found(tmp_path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><p id="here">'
        '<a href="#here">1</a><a href="#gone">2</a><a href="b.html#part">3</a>'
        '<a href="b.html#gone">4</a><a href="c.html">5</a><a href="../d.html">6</a>'
        '<a href="https://example.org">7</a><img src="gone.svg">'
    )
    (tmp_path / "b.html").write_text('<h2 id="part">')
    (tmp_path / "s.css").write_text("@import '//fonts.example/f.css'; a { b: url(c.png) }")
    assert faults_of_site(tmp_path, pages_of_site(tmp_path)) == [
        "a.html fetches https://cdn.example/x.js",
        "a.html: #gone",
        "a.html: ../d.html",
        "a.html: b.html#gone",
        "a.html: c.html",
        "a.html: gone.svg",
        "s.css fetches //fonts.example/f.css",
    ]
    page = tmp_path / "p.md"
    page.write_text(
        "# A b: `c`\n[1](#a-b-c) [2](#gone) [3](gone.md) [4](https://e.org) [5](a.html)"
    )
    assert faults_of_markdown(page) == ["p.md: #gone", "p.md: gone.md"]
