"""What the first pages say that their examples print is what they print."""

import re
import runpy
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.docs.blocks import DOCS
from tests.docs.blocks import blocks as page_blocks
from tests.trained import unchecked

pytest.importorskip("sklearn")

ROOT = DOCS.parent
NUMBER = re.compile(r"\d+(?:\.\d+)?%?")
ACCURACIES = 3.0
"""points by which another machine's rounding may move an accuracy after some thousand steps"""
EXAMPLE = re.compile(r"^python examples/(\w+)\.py +# .*: ([\d.]+)%, seed 0$", re.M)
EXAMPLES = dict(EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8")))


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of one language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def example_of_fit() -> tuple[str, str, str]:
    """The example's data, its three lines and what the page says that they print."""
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## Your own module\n")
    (printed,) = blocks(section.partition("\n## ")[0], "text")
    data, lines = blocks(section, "python")[:2]
    assert len(lines.splitlines()) == 3
    return data, lines, printed


def test_the_example_of_fit_prints_its_report_and_those_after_it_run(capsys) -> None:
    data, lines, printed = example_of_fit()
    languages, codes = zip(*page_blocks(DOCS / "start.md"), strict=True)
    assert set(languages) == {"python"}
    known: dict[str, Any] = {}
    with torch.random.fork_rng(), unchecked():
        exec(compile(data + lines, "start.md", "exec"), known)
        out = capsys.readouterr().out
        for code in codes[2:]:
            exec(compile(code, "start.md", "exec"), known)
    assert NUMBER.sub("0", out) == NUMBER.sub("0", printed)
    for name in ("test", "checked"):
        found, said = (float(re.findall(rf"{name}: ([\d.]+)%", t)[0]) for t in (out, printed))
        assert found == pytest.approx(said, abs=ACCURACIES)


def test_the_first_page_shows_the_same_example_and_output() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    _, lines, printed = example_of_fit()
    assert blocks(text, "python") == [lines]
    assert blocks(text, "text") == [printed]


def test_the_readme_shows_accuracies_of_examples() -> None:
    assert {"plain", "taught", "cross_fitted"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_readme_prints_its_accuracy(name, monkeypatch, capsys) -> None:
    folder = ROOT / "examples"
    digits = SimpleNamespace(**runpy.run_path(str(folder / "digits.py")))
    monkeypatch.setitem(sys.modules, "digits", digits)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    with torch.random.fork_rng(), unchecked():
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    (found,) = re.findall(r"^accuracy: ([\d.]+)%$", capsys.readouterr().out, re.M)
    assert float(found) == pytest.approx(float(EXAMPLES[name]), abs=ACCURACIES)
