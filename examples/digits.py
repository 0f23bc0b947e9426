"""Real handwritten digits, 8x8 pixels; of the training labels, four in ten are drawn anew."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

_found: Any = load_digits()
_generator = torch.Generator().manual_seed(0)
_order = torch.randperm(len(_found.target), generator=_generator)
_images = torch.tensor(_found.images, dtype=torch.float32)[_order, None] / 16
_labels = torch.tensor(_found.target)[_order]
_wrong = torch.rand(1000, generator=_generator) < 0.4
_drawn = torch.randint(10, (1000,), generator=_generator)

train = TensorDataset(_images[:1000], torch.where(_wrong, _drawn, _labels[:1000]))
clean = TensorDataset(_images[1000:1100], _labels[1000:1100])
"""a hundred digits with right labels, which no student is trained on"""
sources = tuple(
    TensorDataset(
        _images[:1000][start::3], torch.where(wrong, _drawn, _labels[:1000])[start::3]
    )
    for start, wrong in enumerate((torch.zeros_like(_wrong), _wrong, torch.ones_like(_wrong)))
)
"""the training digits in three: with right labels, four in ten drawn anew, all drawn anew"""
test = TensorDataset(_images[1100:], _labels[1100:])


@torch.no_grad()
def accuracy(student: nn.Module) -> float:
    """The share of unseen digits that a student tells right."""
    images, labels = test.tensors
    device = next(student.parameters()).device
    predicted = student.eval()(images.to(device)).argmax(1)
    return float((predicted.cpu() == labels).float().mean())
