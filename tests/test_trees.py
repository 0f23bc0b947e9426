"""Named tensors keep their names, and a gradient is zero or absent where nothing is reached."""

import pytest
import torch
from torch import Tensor

from tutelage.functional.trees import (
    cloned,
    detached,
    grads_of_both,
    inner,
    is_finite,
    leaves,
    named_grad,
    plus,
    reached_grad,
)


def pair() -> dict[str, Tensor]:
    return {
        "a": torch.tensor([1.0, 2.0], requires_grad=True),
        "b": torch.ones(2, 3, dtype=torch.float64, requires_grad=True),
    }


def test_named_grad_gives_zeros_where_the_scalar_does_not_reach() -> None:
    params = pair()
    grads = named_grad((params["a"] ** 2).sum(), params)
    assert list(grads) == ["a", "b"]
    assert grads["a"].tolist() == [2.0, 4.0]
    assert torch.equal(grads["b"], torch.zeros(2, 3, dtype=torch.float64))


def test_reached_grad_leaves_out_what_the_scalar_does_not_reach() -> None:
    params = pair()
    grads = reached_grad((params["a"] ** 2).sum(), params)
    assert list(grads) == ["a"]


def test_a_gradient_of_zero_is_reached_all_the_same() -> None:
    params = pair()
    grads = reached_grad((params["a"] * 0).sum(), params)
    assert grads["a"].tolist() == [0.0, 0.0]


def test_a_constant_reaches_nothing() -> None:
    params = pair()
    assert reached_grad(torch.tensor(3.0), params) == {}
    assert named_grad(torch.tensor(3.0), params)["a"].tolist() == [0.0, 0.0]
    assert named_grad((params["a"] ** 2).sum(), {}) == {}


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_graph_is_kept_only_when_asked(create_graph) -> None:
    params = pair()
    grads = named_grad((params["a"] ** 3).sum(), params, create_graph=create_graph)
    assert grads["a"].requires_grad is create_graph
    if create_graph:
        (second,) = torch.autograd.grad(grads["a"].sum(), params["a"])
        assert second.tolist() == [6.0, 12.0]


def test_inner_runs_over_the_names_of_the_first() -> None:
    a = {"x": torch.tensor([1.0, 2.0]), "y": torch.tensor(3.0)}
    b = {"x": torch.tensor([4.0, 5.0]), "y": torch.tensor(6.0), "z": torch.tensor(9.0)}
    assert inner(a, b).item() == 4 + 10 + 18


def test_gradients_of_both_keep_parameters_of_the_same_name_apart() -> None:
    student, teacher = pair(), {"a": torch.tensor(3.0, requires_grad=True)}
    loss = (teacher["a"] * student["a"]).sum()
    of_student, of_teacher = grads_of_both(loss, student, teacher)
    assert list(of_student) == ["a", "b"]
    assert of_student["a"].tolist() == [3.0, 3.0]
    assert not of_student["b"].any()
    assert {k: g.item() for k, g in of_teacher.items()} == {"a": 3.0}


def test_an_inner_product_of_half_precision_is_summed_in_full() -> None:
    a = {"x": torch.full((3,), 300.0, dtype=torch.float16)}  # the square is beyond float16
    assert inner(a, a).item() == 270_000
    assert inner(a, a).dtype == torch.float32


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_one_number_that_is_not_finite_is_found_and_large_ones_are_no_fault(bad) -> None:
    tree = {"x": torch.full((2, 2), 1e30), "y": torch.tensor(-1e38)}
    assert is_finite(tree)
    assert not is_finite(tree | {"z": torch.tensor([0.0, bad])})


def test_plus_takes_a_missing_name_as_zero() -> None:
    a = {"x": torch.tensor(1.0), "y": torch.tensor(2.0)}
    total = plus(a, {"x": torch.tensor(10.0)}, -0.5)
    assert {k: v.item() for k, v in total.items()} == {"x": -4.0, "y": 2.0}
    assert a["x"].item() == 1.0


def test_leaves_and_detached_share_memory_and_cloned_does_not() -> None:
    params = {"a": torch.tensor([1.0, 2.0], requires_grad=True) * 2}
    assert leaves(params)["a"].is_leaf
    assert leaves(params)["a"].requires_grad
    assert not detached(params)["a"].requires_grad
    assert not cloned(params)["a"].requires_grad
    for shared, tree in (
        (True, leaves(params)),
        (True, detached(params)),
        (False, cloned(params)),
    ):
        assert (tree["a"].data_ptr() == params["a"].data_ptr()) is shared
