"""What a solver advises where it fails is what mends it."""

import math
from collections.abc import Callable

import pytest
import torch

from tutelage.signals import ConjugateGradient, Neumann
from tutelage.signals.products import FiniteDifference
from tutelage.types import Params


def along(curvatures: list[float]) -> Callable[[Params], Params]:
    hessian = torch.tensor(curvatures, dtype=torch.float64)
    return lambda u: {"x": hessian * u["x"]}


def test_what_is_advised_of_a_diverging_series_mends_it() -> None:
    v = {"x": torch.ones(2, dtype=torch.float64)}
    with pytest.raises(FloatingPointError, match=r"here about 0\.4\b") as caught:
        Neumann(50, 0.5)(along([1.0, 5.0]), v)
    assert "not positive" not in str(caught.value)
    Neumann(400, 0.39)(along([1.0, 5.0]), v)
    with pytest.raises(
        FloatingPointError, match=r"is -2, .*no scale.*damping above 2\b"
    ) as caught:
        Neumann(50, 0.5)(along([1.0, -2.0]), v)
    assert "Lower scale" not in str(caught.value)
    with pytest.raises(FloatingPointError):  # a smaller scale only takes longer
        Neumann(5000, 0.01)(along([1.0, -2.0]), v)
    with pytest.raises(FloatingPointError, match=r"Raise damping above 2\.") as caught:
        ConjugateGradient(5, damping=0.5)(along([-2.0, -2.0]), v)
    assert "use Neumann" not in str(caught.value)
    ConjugateGradient(5, damping=2.1)(along([1.0, -2.0]), v)


@pytest.mark.parametrize("solve", [Neumann(5, 0.5), ConjugateGradient(5)])
def test_a_hessian_that_is_not_finite_gives_what_no_teacher_steps_by(solve) -> None:
    found = solve(along([math.nan, 1.0]), {"x": torch.ones(2, dtype=torch.float64)})
    assert bool(found["x"].isnan().any())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Neumann(1, x),
        lambda x: ConjugateGradient(1, damping=x),
        lambda x: ConjugateGradient(1, tolerance=x),
        lambda x: FiniteDifference(size=x),
    ],
)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_numbers_that_are_not_finite_are_refused(make, value) -> None:
    with pytest.raises(ValueError, match=f"finite, got {value}"):
        make(value)
