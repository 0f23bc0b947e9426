"""The examples of the page about augmentation run, one after the other."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "augmentation.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    known = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert known["changed"].shape == known["images"].shape
    assert known["changed_one"].shape == known["images"][0].shape
    loaded = known["tl"].load_commentary("policy", known["student"])
    assert torch.equal(loaded.keep, known["teacher"].keep)
    assert loaded.keep.abs().min() > 0
    many = [known["augment_one"](known["images"][n % 64]) for n in range(200)]
    assert len({image.numpy().tobytes() for image in many}) > 100
