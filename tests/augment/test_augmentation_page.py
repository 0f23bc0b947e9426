"""The examples of the page about augmentation run, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "augmentation.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    known = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert known["changed"].shape == known["images"].shape
