"""Docstrings of Python's own library and the packages they are from; a third are told wrong."""

import ast
import re
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

PACKAGES = ("asyncio", "email", "logging", "unittest")
WORDS, LENGTH = 1000, 24
PADDING, UNKNOWN = 0, 1
CONFIG: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": LENGTH,
}
"""of a BERT whose weights are drawn, not downloaded"""


def _docstrings(package: str) -> list[list[str]]:
    found = []
    folder = Path(sysconfig.get_paths()["stdlib"]) / package
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                found += [words] if (words := re.findall("[a-z]+", text.lower())) else []
    return found


def _rows(texts: list[list[str]]) -> torch.Tensor:
    known = Counter(word for text in texts for word in text).most_common(WORDS - 2)
    numbers = {word: number for number, (word, _) in enumerate(known, 2)}
    ids = torch.full((len(texts), LENGTH), PADDING)
    for row, text in enumerate(texts):
        told = [numbers.get(word, UNKNOWN) for word in text[:LENGTH]]
        ids[row, : len(told)] = torch.tensor(told)
    return torch.stack([ids, torch.zeros_like(ids), (ids != PADDING).long()], 1)


_found = [(text, label) for label, p in enumerate(PACKAGES) for text in _docstrings(p)]
_generator = torch.Generator().manual_seed(0)
_order = torch.randperm(len(_found), generator=_generator)
_texts = _rows([text for text, _ in _found])[_order]
_labels = torch.tensor([label for _, label in _found])[_order]
_cut = len(_found) * 2 // 3
_other = (_labels[:_cut] + torch.randint(1, 4, (_cut,), generator=_generator)) % 4
_wrong = torch.rand(_cut, generator=_generator) < 1 / 3

train = TensorDataset(_texts[:_cut], torch.where(_wrong, _other, _labels[:_cut]))
clean = TensorDataset(_texts[_cut : _cut + 100], _labels[_cut : _cut + 100])
"""a hundred with their right package, which no student is trained on"""
test = TensorDataset(_texts[_cut + 100 :], _labels[_cut + 100 :])


@torch.no_grad()
def accuracy(student: nn.Module) -> float:
    """The share of unseen docstrings whose package a student tells right."""
    texts, labels = test.tensors
    return float((student.eval()(texts).argmax(1) == labels).float().mean())


def named(part: TensorDataset) -> Any:
    """The same texts by columns, as transformers has them, each with its place."""
    return [
        {"input_ids": text[0], "attention_mask": text[2], "labels": label, "idx": place}
        for place, (text, label) in enumerate(zip(*part.tensors, strict=True))
    ]
