"""What holds the level of weights that sum to one, and what happens where nothing does."""

import pytest
import torch
from torch import nn

from tests.cases import C, D, stream
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy, weighted_loss
from tutelage.teachers import InternalState
from tutelage.types import Observation, Progress, as_prepared


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(D, C).double()


def teacher(level: str) -> InternalState:
    made = InternalState(
        student(), classes=C, surface=("progress", "loss", "margin"), level=level
    ).double()
    torch.manual_seed(1)
    for p in made.parameters():
        nn.init.normal_(p)
    return made


def shown() -> tuple:
    batch = next(stream())
    logits = student()(batch.inputs).detach()
    return as_prepared(batch), Observation(
        cross_entropy(logits, batch.targets), logits, {}, Progress()
    )


def test_centred_weights_are_those_of_logits_less_their_mean() -> None:
    prepared, seen = shown()
    free, centred = teacher("free"), teacher("centred")
    centred.load_state_dict(free.state_dict(), strict=False)
    free, centred = free.weigh(prepared, seen).logit(), centred.weigh(prepared, seen)
    torch.testing.assert_close(centred, (free - free.mean()).sigmoid())


@pytest.mark.parametrize("by", [3.0, -20.0])
def test_a_shift_of_all_logits_leaves_centred_weights_where_they_were(by) -> None:
    prepared, seen = shown()
    later = seen._replace(progress=Progress(fraction=by))  # linear: it shifts all alike
    centred, free = teacher("centred"), teacher("free")
    torch.testing.assert_close(centred.weigh(prepared, later), centred.weigh(prepared, seen))
    assert (free.weigh(prepared, later) - free.weigh(prepared, seen)).abs().max() > 0.1


def test_the_gradient_of_a_teacher_that_drifted_vanishes_only_where_it_is_free() -> None:
    prepared, seen = shown()
    sizes = {}
    for level in ("centred", "free"):
        made = teacher(level)
        weight = made.net.get_parameter("0.weight")
        with torch.no_grad():
            weight[:, made.columns()["progress"]] = 1.0
        drifted = seen._replace(progress=Progress(fraction=20.0))
        weights = made.weigh(prepared, drifted)
        weighted_loss(seen.losses, weights, prepared.group, "mean").backward()
        assert weight.grad is not None
        sizes[level] = float(weight.grad[:, made.columns()["loss"]].norm())
    assert sizes["free"] < 1e-6 < 1e-3 < sizes["centred"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'center'. .*centred, free"):
        InternalState(student(), classes=C, level="center")


def test_a_fact_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice: loss, loss"):
        InternalState(student(), classes=C, surface=("loss", "loss"))
