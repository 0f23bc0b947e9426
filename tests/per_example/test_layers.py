"""Every layer of torch against a gradient per example."""

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.per_example.oracle import (
    F64,
    Case,
    direction_for,
    numbers,
    one_by_one,
    recorded,
    tokens,
)
from tutelage.per_example import Recorder


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bilinear = nn.Bilinear(3, 2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.bilinear(x[..., :3], x[..., 3:])


class Bags(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 3, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.bag(x)


class Attention(nn.Module):
    """Queries from one half of the features, keys and values from the other."""

    def __init__(self, *, masked: bool = False, batch_first: bool = True, **options) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=batch_first, **options)
        self.first, self.masked = batch_first, masked

    def forward(self, x: Tensor):
        q, k, v = x[..., :4], x[..., :3], x[..., 1:]
        if not self.first:
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        mask, hidden = None, None
        if self.masked:
            length = x.shape[1]
            mask = torch.ones(length, length, dtype=torch.bool).triu(1)
            hidden = torch.zeros(len(x), length, dtype=torch.bool)
            hidden[:, -1] = x[:, -1, 0] > 0
        out, weights = self.attention(q, k, v, attn_mask=mask, key_padding_mask=hidden)
        return (out if self.first else out.transpose(0, 1)), weights


class RowsFirst(nn.Module):
    """A recurrent layer whose outputs are handed on with their rows first."""

    def __init__(
        self, kind: Callable[..., nn.RNNBase], *, batch_first: bool = True, **options
    ) -> None:
        super().__init__()
        self.layer = kind(5, 3, batch_first=batch_first, **options)
        self.first = batch_first

    def forward(self, x: Tensor):
        out, state = self.layer(x if self.first else x.transpose(0, 1))
        states = state if isinstance(state, tuple) else (state,)
        out = out if self.first else out.transpose(0, 1)
        return out, *(s.transpose(0, 1) for s in states)


def wide_input() -> Tensor:
    return numbers(4, 4, 5)


LAYERS: dict[str, Case] = {
    "linear": (lambda: nn.Linear(5, 3), lambda: numbers(4, 5)),
    "linear without bias": (lambda: nn.Linear(5, 3, bias=False), lambda: numbers(4, 5)),
    "linear on a sequence as long as the batch": (lambda: nn.Linear(5, 4), wide_input),
    "linear on long sequences": (lambda: nn.Linear(5, 2), lambda: numbers(3, 50, 5)),
    "linear in five dimensions": (lambda: nn.Linear(2, 3), lambda: numbers(3, 3, 2, 4, 2)),
    "bilinear": (TwoInputs, lambda: numbers(4, 6, 5)),
    "prelu": (lambda: nn.PReLU(4), lambda: numbers(4, 4, 3)),
    "prelu with one slope": (nn.PReLU, lambda: numbers(4, 3)),
    "embedding": (lambda: nn.Embedding(6, 3), lambda: tokens(4, 4)),
    "padded embedding": (lambda: nn.Embedding(6, 3, padding_idx=2), lambda: tokens(4, 5)),
    "sparse embedding": (lambda: nn.Embedding(6, 3, sparse=True), lambda: tokens(4, 5)),
    "embedding of limited norm": (
        lambda: nn.Embedding(6, 3, max_norm=0.8),
        lambda: tokens(4, 5),
    ),
    "bag of mean": (lambda: Bags(mode="mean"), lambda: tokens(4, 4)),
    "bag of sum": (lambda: Bags(mode="sum", padding_idx=1), lambda: tokens(4, 5)),
    "bag of max": (lambda: Bags(mode="max"), lambda: tokens(4, 5)),
    "sparse bag": (lambda: Bags(mode="sum", sparse=True), lambda: tokens(4, 5)),
    "bag of limited norm": (lambda: Bags(mode="sum", max_norm=0.8), lambda: tokens(4, 5)),
    "layer norm": (lambda: nn.LayerNorm(5), wide_input),
    "layer norm over two dimensions": (lambda: nn.LayerNorm([4, 5]), wide_input),
    "layer norm without bias": (lambda: nn.LayerNorm(5, bias=False), lambda: numbers(4, 5)),
    "rms norm": (lambda: nn.RMSNorm(5), wide_input),
    "rms norm over two dimensions": (lambda: nn.RMSNorm([4, 5], eps=0.1), wide_input),
    "group norm": (lambda: nn.GroupNorm(2, 4), lambda: numbers(4, 4, 4, 3)),
    "group norm on vectors": (lambda: nn.GroupNorm(2, 4), lambda: numbers(4, 4)),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), lambda: numbers(4, 4, 3, 3)),
    "instance norm with statistics": (
        lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True).eval(),
        lambda: numbers(4, 4, 3),
    ),
    "batch norm on vectors": (lambda: nn.BatchNorm1d(4).eval(), lambda: numbers(4, 4)),
    "batch norm": (lambda: nn.BatchNorm2d(4).eval(), lambda: numbers(4, 4, 4, 4)),
    "attention": (lambda: Attention(kdim=3, vdim=4), wide_input),
    "attention, rows second": (
        lambda: Attention(kdim=3, vdim=4, batch_first=False),
        wide_input,
    ),
    "masked attention": (lambda: Attention(kdim=3, vdim=4, masked=True), wide_input),
    "attention with bias rows": (
        lambda: Attention(kdim=3, vdim=4, add_bias_kv=True, add_zero_attn=True).eval(),
        wide_input,
    ),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(6, 2, 5, dropout=0.0, batch_first=True),
        lambda: numbers(4, 4, 6),
    ),
    "transformer layer at rest": (
        lambda: nn.TransformerEncoderLayer(6, 2, 5, batch_first=True, norm_first=True).eval(),
        lambda: numbers(4, 4, 6),
    ),
    "gru": (lambda: RowsFirst(nn.GRU), wide_input),
    "gru, rows second": (lambda: RowsFirst(nn.GRU, batch_first=False), wide_input),
    "lstm": (lambda: RowsFirst(nn.LSTM, num_layers=2, bidirectional=True), wide_input),
    "lstm with projections": (
        lambda: RowsFirst(nn.LSTM, batch_first=False, proj_size=2),
        wide_input,
    ),
    "rnn": (lambda: RowsFirst(nn.RNN, num_layers=4, batch_first=False), wide_input),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_equals_a_gradient_per_example(name: str) -> None:
    torch.manual_seed(0)
    build, feed = LAYERS[name]
    layer, x = build().to(F64), feed()
    g = direction_for(layer)
    expected = one_by_one(layer, x, g)
    recorder = Recorder(layer)
    for _ in range(2):  # the second time, where rows lie is known
        found = recorded(layer, x, g, recorder=recorder)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    single = recorded(layer, x[:1], g)
    torch.testing.assert_close(single, expected[:1], rtol=1e-9, atol=1e-11)


CONVOLUTIONS = {
    (1, False): nn.Conv1d,
    (2, False): nn.Conv2d,
    (3, False): nn.Conv3d,
    (1, True): nn.ConvTranspose1d,
    (2, True): nn.ConvTranspose2d,
    (3, True): nn.ConvTranspose3d,
}
SHORT = settings(deadline=None, max_examples=40, derandomize=True)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@SHORT
@given(
    dims=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.sampled_from([0, 1, 2, "same", "valid"]),
    dilation=st.integers(1, 2),
    groups=st.integers(1, 2),
    mode=st.sampled_from(["zeros", "reflect", "replicate", "circular"]),
    size=st.sampled_from([5, 6, 9]),
    rows=st.integers(1, 4),
    bias=st.booleans(),
)
def test_any_convolution_equals_a_gradient_per_example(
    dims, kernel, stride, padding, dilation, groups, mode, size, rows, bias
) -> None:
    torch.manual_seed(0)
    stride = 1 if padding == "same" else stride
    options = {"dilation": dilation, "groups": groups, "bias": bias, "stride": stride}
    layer = CONVOLUTIONS[dims, False](
        2, 4, kernel, padding=padding, padding_mode=mode, **options
    ).to(F64)
    x = numbers(rows, 2, *[size] * dims)
    g = direction_for(layer)
    expected = one_by_one(layer, x, g)
    torch.testing.assert_close(recorded(layer, x, g), expected, rtol=1e-9, atol=1e-11)


@SHORT
@given(
    dims=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.integers(0, 1),
    dilation=st.integers(1, 2),
    groups=st.integers(1, 2),
    rows=st.integers(1, 4),
)
def test_any_transposed_convolution_equals_a_gradient_per_example(
    dims, kernel, stride, padding, dilation, groups, rows
) -> None:
    torch.manual_seed(0)
    extra = max(stride, dilation) - 1
    layer = CONVOLUTIONS[dims, True](
        2,
        4,
        kernel,
        stride=stride,
        padding=padding,
        output_padding=extra,
        groups=groups,
        dilation=dilation,
    ).to(F64)
    x = numbers(rows, 2, *[4] * dims)
    g = direction_for(layer)
    expected = one_by_one(layer, x, g)
    torch.testing.assert_close(recorded(layer, x, g), expected, rtol=1e-9, atol=1e-11)


@SHORT
@given(
    rows=st.integers(1, 4),
    between=st.lists(st.integers(1, 5), max_size=3),
    given_size=st.integers(1, 4),
    out=st.integers(1, 4),
    norm=st.sampled_from(["none", "layer", "rms"]),
)
def test_linear_and_norms_of_any_shape(rows, between, given_size, out, norm) -> None:
    # normed, a single feature is constant, and so are two but for their signs where their mean
    # is taken off: no gradient tells rows from positions
    assume(out > {"none": 0, "rms": 1, "layer": 2}[norm])
    torch.manual_seed(0)
    kinds = {"none": nn.Identity, "layer": nn.LayerNorm, "rms": nn.RMSNorm}
    last = kinds[norm]() if norm == "none" else kinds[norm](out)
    student = nn.Sequential(nn.Linear(given_size, out), nn.Tanh(), last).to(F64)
    x = numbers(rows, *between, given_size)
    g = direction_for(student)
    expected = one_by_one(student, x, g)
    torch.testing.assert_close(recorded(student, x, g), expected, rtol=1e-8, atol=1e-10)


def test_lemma_3_holds_for_every_shape_of_a_convolution() -> None:
    shapes = itertools.product(
        (1, 2, 3, 5), (1, 2), (0, 1, 2), (1, 2), (1, 2), ("zeros", "reflect", "circular")
    )
    count, worst = 0, 0.0
    for k, stride, pad, dilation, groups, mode in shapes:
        if (mode != "zeros" and pad == 0) or dilation * (k - 1) + 1 > 11 + 2 * pad:
            continue
        layer = nn.Conv2d(4, 6, k, stride, pad, dilation, groups, padding_mode=mode).to(F64)
        x, g = numbers(3, 4, 11, 11), direction_for(layer)
        gap = (recorded(layer, x, g) - one_by_one(layer, x, g)).abs().max()
        count, worst = count + 1, max(worst, float(gap))
    assert count == 224
    assert worst < 1e-10  # sums of up to a thousand products of size ten
