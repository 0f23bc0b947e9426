"""Students called in unusual ways are probed and recorded all the same."""

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from tests.per_example.oracle import F64, direction_for, losses_of, numbers
from tutelage.per_example import Recorder


class Asked(nn.Module):
    """Takes its words by keyword, as many of them as the batch has rows, and gives a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, first: Tensor, *, words: Tensor | None = None, **parts: Any) -> Any:
        assert words is not None
        hidden = self.norm(self.a(words).tanh()) * parts["given"]["factor"]
        return OrderedDict(logits=self.b(hidden + first.unsqueeze(1)) * self.scale)


def test_keywords_nests_and_dicts() -> None:
    torch.manual_seed(0)
    student = Asked().to(F64)
    first, words, factor = numbers(4, 4), numbers(4, 4, 4, seed=1), numbers(4, 1, 1, seed=2)
    g = direction_for(student)

    def run(rows: slice) -> Tensor:
        given = {"factor": factor[rows]}
        out = student(first[rows], words=words[rows], given=given)
        return losses_of(out["logits"])

    expected = []
    for row in range(4):
        loss = run(slice(row, row + 1)).sum()
        grads = torch.autograd.grad(loss, list(student.parameters()))
        pairs = zip(grads, g.values(), strict=True)
        expected.append(torch.stack([(d * v).sum() for d, v in pairs]).sum())
    recorder = Recorder(student)
    for _ in range(2):
        with recorder.record(4) as recording:
            run(slice(None)).sum().backward()
        found = recording.dots(g, recording.ones())
        torch.testing.assert_close(found, torch.stack(expected))


def test_rows_that_are_not_first_in_the_students_inputs() -> None:
    torch.manual_seed(0)
    layer: Any = nn.RNN(4, 4).to(F64)

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = layer, nn.Linear(4, 4).to(F64)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x)[0])[-1]

    student, x = Sequences(), numbers(5, 4, 4)
    g = direction_for(student)
    expected = []
    for row in range(4):
        grads = torch.autograd.grad(
            losses_of(student(x[:, row : row + 1])).sum(), list(student.parameters())
        )
        pairs = zip(grads, g.values(), strict=True)
        expected.append(torch.stack([(d * v).sum() for d, v in pairs]).sum())
    with Recorder(student).record(4) as recording:
        losses_of(student(x)).sum().backward()
    found = recording.dots(g, recording.ones())
    torch.testing.assert_close(found, torch.stack(expected))
