"""What the first page says that its example prints is what it prints."""

import re

import pytest
import torch

from tests.docs.blocks import DOCS
from tests.trained import unchecked

pytest.importorskip("sklearn")

NUMBER = re.compile(r"\d+(?:\.\d+)?%?")
ACCURACIES = 3.0
"""points by which another machine's rounding may move an accuracy after some thousand steps"""


def test_the_example_of_fit_prints_its_report(capsys) -> None:
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## Your own module\n")
    data, lines = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[:2]
    (printed,) = re.findall(r"^```text\n(.*?)^```$", section.partition("\n## ")[0], re.S | re.M)
    assert len(lines.splitlines()) == 3
    with torch.random.fork_rng(), unchecked():
        exec(compile(data + lines, "start.md", "exec"), {})
    out = capsys.readouterr().out
    assert NUMBER.sub("0", out) == NUMBER.sub("0", printed)
    for name in ("test", "checked"):
        found, said = (float(re.findall(rf"{name}: ([\d.]+)%", t)[0]) for t in (out, printed))
        assert found == pytest.approx(said, abs=ACCURACIES)
