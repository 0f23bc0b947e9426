"""Examples of ``fit`` that are in training and in another part are named in the report."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import tutelage as tl
from tutelage.fitting.copies import copies
from tutelage.fitting.examples import Examples


def pair(count=40, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, 3)).astype("float32"), generator.integers(0, 2, count)


@pytest.mark.parametrize("teacher", [None, "margin-loss"])
def test_a_report_names_examples_that_are_also_in_training(teacher):
    inputs, labels = pair()
    inputs[20, 0] = 0.0
    torch.manual_seed(0)
    parts = (inputs, labels), (inputs[:10], labels[:10])
    test = np.concatenate([inputs[20:24], pair(4, 1)[0]]), labels[:8]
    test[0][0, 0] = -0.0  # equal to 0
    result = tl.fit(
        nn.Linear(3, 2), *parts, test=test, epochs=1, batch_size=20, teacher=teacher
    )
    report = result.report()
    assert "4 of the 8 test examples have the inputs of training" in report
    where = "checked" if teacher is None else "held out"
    assert f"{where} examples have the inputs of training" in report


def test_a_report_of_separate_parts_says_nothing_of_copies():
    result = tl.fit(nn.Linear(3, 2), pair(), pair(10, 1), epochs=1, batch_size=20)
    assert "inputs of training" not in result.report()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8, torch.bool])
def test_copies_are_counted_in_the_numbers_of_the_student(dtype):
    inputs = torch.arange(12).reshape(6, 2) % 5 > 1 if dtype == torch.bool else None
    inputs = torch.arange(12).reshape(6, 2).to(dtype) if inputs is None else inputs
    training = Examples.of("training", (inputs, torch.zeros(6).long()), torch.float32)
    some = TensorDataset(inputs[[1, 1, 4]], torch.ones(3).long())
    part = Examples.of("test", some, torch.float32)
    assert copies(part, training) == 3
    assert (
        copies(
            Examples.of("test", list(zip(inputs, range(6), strict=True)), torch.float32),
            training,
        )
        == 0
    )
