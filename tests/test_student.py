"""The student is read as it is, run as a pure function, and never changed."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.optim import SGD, Adam

from tests.cases import C, D, Unused, build, stream
from tutelage.errors import UnsupportedStudentError, UsageError
from tutelage.functional.student import StudentView
from tutelage.functional.submodule_outputs import find_submodule, output_width, record_outputs
from tutelage.functional.trees import leaves, named_grad, reached_grad
from tutelage.randomness import seeded


def sgd(module: nn.Module, **settings: Any) -> SGD:
    return SGD(module.parameters(), lr=0.1, **settings)


def view_of(module: nn.Module) -> StudentView:
    return StudentView(module, sgd(module))


def nested() -> nn.Sequential:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(D, 6), nn.Tanh(), nn.Linear(6, 5))
    return nn.Sequential(body, nn.Tanh(), nn.Linear(5, C)).double()


def hooks_of(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) for part in module.modules())


class Reassigning(nn.Module):
    """Replaces its buffer by a new tensor where batch normalisation writes into the old one."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(D, C)
        self.register_buffer("scale", torch.ones(C))

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        self.scale = 0.5 * self.scale + 0.5 * y.detach().abs().mean(0)
        return y / self.scale


class TiedPair(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(weight, freeze=False)
        self.head = nn.Linear(2, 3, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens))


class Renewed(nn.Module):
    """Counts its calls in a buffer that it replaces."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(D, D)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return self.linear(x).tanh()


def test_a_part_under_two_names_stays_as_it_is() -> None:
    part = Renewed()
    module = nn.Sequential(part, nn.Tanh(), part).double()
    before = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    theta = {k: (2 * p).detach().requires_grad_() for k, p in module.named_parameters()}
    x = next(stream()).inputs
    out, _, buffers = view_of(module).evaluate(theta, dict(module.named_buffers()), x, ())
    after = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert all(after[k] is before[k] for k in before)
    assert list(theta) == ["0.linear.weight", "0.linear.bias"]
    assert float(buffers["0.count"]) == 2
    weight, bias = theta.values()
    once = (x @ weight.T + bias).tanh().tanh()
    torch.testing.assert_close(out, (once @ weight.T + bias).tanh())


def test_a_tied_weight_is_one_parameter_with_the_gradient_of_both_its_uses() -> None:
    weight = torch.tensor([[1.0, 0], [0, 1], [1, 1]], dtype=torch.float64)
    view = view_of(TiedPair(weight))
    assert list(view.params) == ["embed.weight"]
    measured = {
        (0, 1): [[1.2670, -0.4223], [-0.8446, 0], [0.4223, 0]],
        (2, 0): [[-0.7881, -0.7881], [0.2119, 0.2119], [0.3642, 1.3642]],
    }
    for (token, label), want in measured.items():
        theta = leaves(view.state().params)
        logits, _, _ = view.evaluate(theta, {}, torch.tensor([token]), ())
        loss = nn.functional.cross_entropy(logits, torch.tensor([label]))
        got = named_grad(loss, theta)["embed.weight"]
        torch.testing.assert_close(got, torch.tensor(want).double(), rtol=0, atol=5e-5)


def test_running_on_a_moved_tied_weight_moves_both_its_uses() -> None:
    module = TiedPair(torch.eye(3, 2, dtype=torch.float64))
    logits, _, _ = view_of(module).evaluate(
        {"embed.weight": torch.ones(3, 2, dtype=torch.float64)}, {}, torch.tensor([1]), ()
    )
    assert logits.tolist() == [[2.0, 2.0, 2.0]]


def test_frozen_parameters_stay_the_modules_own_and_unused_ones_are_not_reached() -> None:
    module = Unused().double()
    view = StudentView(module, SGD([p for p in module.parameters() if p.requires_grad], lr=1))
    assert set(view.params) == {"never.weight", "never.bias", "head.weight", "head.bias"}
    theta = leaves(view.state().params)
    batch = next(stream())
    logits, _, _ = view.evaluate(theta, {}, batch.inputs, ())
    torch.testing.assert_close(logits, module(batch.inputs))
    assert set(reached_grad(logits.sum(), theta)) == {"head.weight", "head.bias"}


@pytest.mark.parametrize("module", [Unused, lambda: nn.Flatten()])
def test_an_optimiser_of_nothing_trainable_is_refused_with_the_names_there_are(module) -> None:
    student, other = module(), nn.Linear(1, 1)
    names = ", ".join(name for name, _ in student.named_parameters()) or "none"
    with pytest.raises(UnsupportedStudentError, match=f"The student has: {names}"):
        StudentView(student, sgd(other))


def test_a_parameter_that_is_not_the_students_is_refused_before_any_step() -> None:
    module, other = build("linear"), nn.Parameter(torch.zeros(7, dtype=torch.float64))
    optimizer = SGD([*module.parameters(), other], lr=0.1, momentum=0.9)
    other.grad = torch.ones_like(other)
    optimizer.step()
    with pytest.raises(UnsupportedStudentError, match=r"shape \(7,\)"):
        StudentView(module, optimizer).snapshot()


def test_a_parameter_that_thaws_later_is_looked_at_from_then_on() -> None:
    module = nested()
    body = module.get_submodule("0").requires_grad_(requires_grad=False)
    view = view_of(module)
    body.requires_grad_()
    assert set(view.state().params) == {name for name, _ in module.named_parameters()}


def test_a_parameter_group_added_later_is_looked_at_from_then_on() -> None:
    module = nested()
    optimizer = SGD(module.get_submodule("2").parameters(), lr=0.1)
    view = StudentView(module, optimizer)
    optimizer.add_param_group({"params": list(module.get_submodule("0").parameters())})
    assert set(view.state().params) == {name for name, _ in module.named_parameters()}


@pytest.mark.parametrize("name", ["batch norm", "dropout", "tied", "recurrent", "linear"])
def test_evaluating_gives_the_students_own_output_and_leaves_it_alone(name) -> None:
    module = build(name)
    view = view_of(module)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    state, inputs = view.state(), next(stream()).inputs
    with seeded(3, inputs.device):
        logits, _, buffers = view.evaluate(leaves(state.params), state.buffers, inputs, ())
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert module.training
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    with seeded(3, inputs.device):
        assert torch.equal(module(inputs), logits)
    after = dict(module.named_buffers())
    assert buffers.keys() == after.keys()
    assert all(torch.equal(buffers[k], after[k]) for k in after)


def test_a_buffer_that_the_student_replaces_comes_back_replaced() -> None:
    module = Reassigning().double()
    view, inputs = view_of(module), next(stream()).inputs
    state = view.state()
    _, _, buffers = view.evaluate(state.params, state.buffers, inputs, ())
    assert torch.equal(module.scale, torch.ones(C, dtype=torch.float64))
    module(inputs)
    torch.testing.assert_close(buffers["scale"], module.scale)


def test_buffers_given_to_evaluate_are_not_changed() -> None:
    module = build("batch norm")
    view = view_of(module)
    state = view.snapshot()
    before = {k: v.clone() for k, v in state.buffers.items()}
    view.evaluate(state.params, state.buffers, next(stream()).inputs, ())
    assert all(torch.equal(v, before[k]) for k, v in state.buffers.items())


def test_a_student_in_evaluation_mode_uses_the_running_statistics_given() -> None:
    module = build("batch norm").eval()
    view, inputs = view_of(module), next(stream()).inputs
    state = view.state()
    shifted = {k: v + 1 if "mean" in k else v for k, v in state.buffers.items()}
    logits, _, after = view.evaluate(state.params, shifted, inputs, ())
    assert not torch.allclose(logits, module(inputs))
    assert all(torch.equal(after[k], shifted[k]) for k in shifted)
    assert not module.training


def test_taps_give_the_outputs_of_nested_modules() -> None:
    module = nested()
    view, inputs = view_of(module), next(stream()).inputs
    state = view.state()
    logits, features, _ = view.evaluate(state.params, {}, inputs, ("0.1", "0", "2"))
    assert set(features) == {"0.1", "0", "2"}
    body = module.get_submodule("0")
    torch.testing.assert_close(features["0"], body(inputs))
    torch.testing.assert_close(body.get_submodule("2")(features["0.1"]), features["0"])
    assert torch.equal(features["2"], logits)
    assert hooks_of(module) == 0


@pytest.mark.parametrize(
    ("tap", "message"),
    [
        ("0.I", r"no module '0\.I' to tap. Did you mean '0\.\d'\? Allowed: 0, 0\.0, 0\.1"),
        ("pooling", r"no module 'pooling' to tap. Allowed: 0, 0\.0, 0\.1, 0\.2, 1, 2\."),
        ("", "no module '' to tap"),
    ],
)
def test_an_unknown_tap_lists_the_names_there_are_and_the_nearest(tap, message) -> None:
    with pytest.raises(UsageError, match=message):
        find_submodule(nested(), tap)


def test_taps_leave_no_hook_when_the_student_raises() -> None:
    module = nested()
    view = view_of(module)
    bad = torch.zeros(2, D + 1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="shapes"):
        view.evaluate(view.state().params, {}, bad, ("0", "0.1"))
    assert hooks_of(module) == 0


def test_taps_leave_no_hook_when_one_of_them_is_unknown() -> None:
    module = nested()
    with (
        pytest.raises(UsageError, match="no module 'nope'"),
        record_outputs(module, ("0", "nope")),
    ):
        pass
    assert hooks_of(module) == 0


def test_the_users_own_hooks_stay_and_run() -> None:
    module, calls = nested(), []
    module.get_submodule("0").register_forward_hook(lambda *call: calls.append(len(call)))
    view = view_of(module)
    view.evaluate(view.state().params, {}, next(stream()).inputs, ("0",))
    assert hooks_of(module) == 1
    assert calls == [3]


@pytest.mark.parametrize(
    ("tap", "width"), [("0.0", 6), ("0.2", 5), ("2", C), ("1", 5)], ids=lambda v: f"{v}"
)
def test_the_width_of_a_linear_layer_or_of_what_feeds_the_last_one_is_known(tap, width) -> None:
    assert output_width(nested(), tap) == width


def test_a_block_in_front_of_the_last_linear_layer_has_its_width() -> None:
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert output_width(nn.Sequential(body, nn.Linear(4, C)), "0") == 4


@pytest.mark.parametrize("tap", ["0.1", "0.0.0"])
def test_a_width_that_cannot_be_known_asks_for_it(tap) -> None:
    block = nn.Sequential(nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU()), nn.ReLU(), nn.Flatten())
    with pytest.raises(UsageError, match=rf"'{tap}'.*tap_width="):
        output_width(nn.Sequential(block, nn.Linear(4, C)), tap)


def test_a_student_without_a_linear_layer_asks_for_the_width() -> None:
    with pytest.raises(UsageError, match="tap_width="):
        output_width(nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU()), "1")


def test_a_width_of_an_unknown_tap_names_the_taps() -> None:
    with pytest.raises(UsageError, match=r"no module 'fc'.*Allowed: "):
        output_width(nested(), "fc")


@pytest.mark.parametrize(
    "optimizer", [lambda m: sgd(m, momentum=0.9), lambda m: Adam(m.parameters())]
)
def test_a_snapshot_is_left_alone_by_later_steps_and_a_state_is_not(optimizer) -> None:
    module = build("batch norm")
    optimizer = optimizer(module)
    view, batches = StudentView(module, optimizer), stream()

    def take_step() -> None:
        batch = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(batch.inputs), batch.targets).backward()
        optimizer.step()

    take_step()
    shared, kept = view.state(), view.snapshot()
    flat = [kept.params, kept.buffers, *kept.slots.values()]
    before = [{k: v.clone() for k, v in tree.items()} for tree in flat]
    assert kept.slots
    take_step()
    for tree, old in zip(flat, before, strict=True):
        assert all(torch.equal(tree[k], old[k]) for k in old)
        assert not any(v.requires_grad for v in tree.values())
    assert all(torch.equal(shared.params[k], p) for k, p in view.params.items())
    assert any(not torch.equal(kept.params[k], p) for k, p in view.params.items())


CUDNN_FLAGS = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


@pytest.mark.parametrize(
    ("name", "inside"), [("recurrent", False), ("batch norm", True), ("attention", True)]
)
def test_cudnn_is_left_aside_for_recurrent_students_only_and_comes_back_as_it_was(
    name, inside, monkeypatch
) -> None:
    # its recurrent layers have no second derivative; which library runs is decided by this flag
    cudnn = torch.backends.cudnn
    for flag, value in {"benchmark": True, "deterministic": True, "allow_tf32": False}.items():
        monkeypatch.setattr(cudnn, flag, value)
    before = {flag: getattr(cudnn, flag) for flag in CUDNN_FLAGS}
    module, seen = build(name), []
    module.register_forward_hook(
        lambda *_: seen.append({flag: getattr(cudnn, flag) for flag in CUDNN_FLAGS})
    )
    view, inputs = view_of(module), next(stream()).inputs
    state = view.state()
    view.evaluate(state.params, state.buffers, inputs, ())
    assert seen == [before | {"enabled": inside}]
    assert {flag: getattr(cudnn, flag) for flag in CUDNN_FLAGS} == before


@pytest.mark.parametrize("name", ["recurrent", "attention"])
def test_what_is_set_for_second_derivatives_is_set_back_when_the_student_raises(name) -> None:
    module, flash = build(name), torch.backends.cuda.flash_sdp_enabled()
    view = view_of(module)
    with pytest.raises(RuntimeError):
        view.evaluate(view.state().params, {}, torch.zeros(2, 7, dtype=torch.float64), ())
    assert torch.backends.cudnn.enabled
    assert torch.backends.cuda.flash_sdp_enabled() is flash


@pytest.mark.filterwarnings("ignore:.*jit.script:FutureWarning")  # torch's own, once
def test_fused_attention_gets_a_second_derivative_and_a_forward_mode() -> None:
    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.randn(1, 1, 3, 4))

        def forward(self, scale: Tensor) -> Tensor:
            q = self.value * scale
            return nn.functional.scaled_dot_product_attention(q, q, q)

    module, one = Fused(), torch.ones(())
    view = view_of(module)
    theta = leaves(view.state().params)
    logits, _, _ = view.evaluate(theta, {}, one, ())
    (grad,) = torch.autograd.grad((logits**2).sum(), theta["value"], create_graph=True)
    assert named_grad((grad**2).sum(), theta)["value"].isfinite().all()
    with forward_ad.dual_level():
        dual = {"value": forward_ad.make_dual(module.value.detach(), torch.ones(1, 1, 3, 4))}
        tangent = forward_ad.unpack_dual(view.evaluate(dual, {}, one, ())[0]).tangent
    assert tangent is not None
    assert tangent.isfinite().all()
    assert torch.backends.cuda.flash_sdp_enabled()
