"""A translator is a student like any other: padding is not seen, hypergradients are exact."""

import pytest
import torch
from torch import nn

from papers.data.text import PairBatches, Pairs
from papers.models.translator import STATE, Translator, marian
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.losses.objectives import TokenCrossEntropy
from tutelage.signals import Reversible, Unrolled
from tutelage.teachers import InternalState
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.data.text.vocabulary import END, IGNORED, PAD, START

WORDS = 24


def translator(dropout=0.0):
    torch.manual_seed(0)
    sizes = {"width": 8, "hidden": 12, "layers": 1, "heads": 2}
    special = PAD, START, END
    return marian(WORDS, special, **sizes, dropout=dropout, longest=40).double()


def batches(size=3):
    sources = [[5 + n, *[6, 7, END][n % 2 :]] for n in range(8)]
    targets = [[9, 10 + n, END][: 1 + n % 3] for n in range(8)]
    pairs = Pairs(sources, targets, torch.arange(8), "made up")
    return PairBatches(pairs, size, 0, torch.device("cpu"))


def padded(batch, length):
    inputs = nn.functional.pad(batch.inputs, (0, length - batch.inputs.shape[2]), value=PAD)
    targets = nn.functional.pad(
        batch.targets, (0, length - batch.targets.shape[1]), value=IGNORED
    )
    return Batch(inputs, targets, batch.ids)


def test_padding_changes_no_loss_state_or_gradient():
    student, batch = translator(), next(batches().epoch(0))
    found = []
    for length in (8, 32):
        more = padded(batch, length)
        with record_outputs(student, [STATE]) as features:
            losses = TokenCrossEntropy()(student(more.inputs), more.targets)
        grads = torch.autograd.grad(
            losses.sum(), [p for p in student.parameters() if p.requires_grad]
        )
        found.append([losses, features[STATE], *grads])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_the_state_is_the_mean_over_target_positions():
    student, batch = translator(), next(batches().epoch(0))
    kept = []
    student.state.register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    with record_outputs(student, [STATE]) as features:
        student(batch.inputs)
    counted = batch.targets != IGNORED
    for row in range(len(batch.ids)):
        wanted = kept[0][row][counted[row]].mean(0)
        torch.testing.assert_close(features[STATE][row], wanted)


def test_beam_search_learns_to_say_what_was_taught():
    student = translator()
    batch = next(iter(batches(8).whole(8)))
    rule = torch.optim.Adam(student.parameters(), 0.02)
    for _ in range(150):
        rule.zero_grad()
        TokenCrossEntropy()(student(batch.inputs), batch.targets).mean().backward()
        rule.step()
    said = student.translate(batch.inputs[:, 0], beams=3, longest=6)
    for row, tokens in enumerate(said):
        target = batch.targets[row][batch.targets[row] != IGNORED].tolist()
        assert tokens[: len(target)] == target
    assert student.training


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_reversed_steps_give_the_unrolled_hypergradient(dropout):
    found = []
    for signal in (Unrolled(2), Reversible(2)):
        student = translator(dropout)
        teacher = InternalState(
            student, classes=WORDS, tap=STATE, tap_width=8, label=False
        ).double()
        with torch.no_grad():
            next(teacher.parameters()).copy_(torch.linspace(-1, 1, 8))
        before = [p.detach().clone() for p in teacher.parameters()]
        tutor = Tutor(
            student,
            torch.optim.SGD(student.parameters(), 0.3, momentum=0.9),
            teacher,
            torch.optim.SGD(teacher.parameters(), 1.0),
            signal=signal,
            teacher_every=2,
            objective=TokenCrossEntropy(),
        )
        held_out = batches(8).draw(0)
        for batch in list(batches().epoch(0))[:2]:
            tutor.step(batch, held_out if tutor.wants_held_out else None)
        found.append([
            p.detach().clone() - first
            for p, first in zip(teacher.parameters(), before, strict=True)
        ])
    assert found[0][0].abs().max() > 1e-5
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-10)


def test_what_does_not_translate_is_refused():
    with pytest.raises(UnsupportedStudentError, match="Linear is no encoder-decoder"):
        Translator(nn.Linear(2, 2))
