"""The type checks of a test session refuse what does not fit, unless they are switched off."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jaxtyping
import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from tests.type_checks import CALLS, count_from_zero, unchecked
from tutelage.randomness import mixed_seed
from tutelage_cli.train.settings import TrainSettings

REFUSED = (BeartypeCallHintViolation, TypeCheckError)


def checked(made: Any) -> Any:
    """As pytest's import hook decorates a function or class of the packages."""
    return jaxtyping.jaxtyped(typechecker=beartype)(made)


def number_of(value: int) -> int:
    return value


def number_from(value: Any) -> int:
    return value


def same_length(one: Float[Tensor, "n"], other: Float[Tensor, "n"]) -> None:
    del one, other


def in_a_list(values: list[tuple[Float[Tensor, "n"], int]]) -> None:
    del values


def of_its_kind(value: "int") -> None:
    del value


@contextmanager
@checked
def managed(value: int) -> Iterator[int]:
    yield value


@dataclass
class Record:
    value: int


WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "argument": (checked(number_of), ("a",)),
    "result": (checked(number_from), ("a",)),
    "shapes": (checked(same_length), (torch.zeros(2), torch.zeros(3))),
    "shape in a list": (checked(in_a_list), ([(torch.zeros(2, 2), 1)],)),
    "a name in quotes": (checked(of_its_kind), ("a",)),
    "argument of a context": (lambda value: managed(value).__enter__(), ("a",)),
    "field": (checked(Record), ("a",)),
    "argument of a module": (mixed_seed, ("a",)),
    "field of a module's class": (TrainSettings, (3,)),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused(what) -> None:
    function, arguments = WRONG[what]
    with pytest.raises(REFUSED):
        function(*arguments)


@pytest.mark.parametrize("what", [what for what in WRONG if "module" not in what])
def test_nothing_is_refused_where_checks_are_off(what) -> None:
    function, arguments = WRONG[what]
    with unchecked():
        function(*arguments)


def test_what_fits_passes() -> None:
    assert checked(number_of)(1) == checked(number_from)(1) == 1
    checked(same_length)(torch.zeros(2), torch.ones(2))
    checked(in_a_list)([(torch.zeros(2), 1)])
    with managed(3) as value:
        assert value == checked(Record)(3).value


def test_a_function_in_a_function_is_checked_where_checks_are_on() -> None:
    def inner(value: int) -> int:
        return value

    with pytest.raises(REFUSED):
        checked(inner)("a")
    with unchecked():
        assert checked(inner) is inner


def test_the_first_calls_of_a_test_are_checked() -> None:
    def made_anew() -> Callable[[Any], int]:
        def inner(value: int) -> int:
            return value

        return checked(inner)

    for make in (made_anew, functools.cache(made_anew)):
        for _ in range(CALLS):
            make()(1)
        make()("a")
        count_from_zero()
        with pytest.raises(REFUSED):
            make()("a")


@pytest.mark.parametrize("one", ["a", "b"])
@pytest.mark.parametrize("other", ["x", "y"])
def test_a_product_is_checked_once_for_each_value(request, one, other) -> None:
    del one, other
    cases = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is request.function
    ]
    last_of_all = len(cases) == 4 and request.node is cases[-1]
    assert jaxtyping.config.jaxtyping_disable == last_of_all
