"""Signals with every product, and what each of them claims."""

from collections.abc import Callable
from typing import NamedTuple

from tutelage.signals import (
    ConjugateGradient,
    GradientAlignment,
    Implicit,
    Lookahead,
    Neumann,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.signals.products import (
    Alignment,
    Automatic,
    DoubleBackward,
    FiniteDifference,
    FirstOrder,
    ForwardOverReverse,
)


class Kind(NamedTuple):
    """A signal for a window of so many steps, and its oracle."""

    build: Callable[[int], Signal]
    oracle: str = "run"
    """run: differences of the run; first order: the same with gradients as they were; implicit;
    reward"""
    window: bool = True
    """looks back over more than one step"""
    whole: bool = True
    """takes whole runs"""
    reversible: bool = False
    """undoes momentum SGD alone"""
    exact: bool = False
    """takes whole runs only"""
    bound: float = 1e-4
    """relative error that is its own"""
    evaluate_on: str = "held-out"
    mode: str = "online"
    ghost: bool = False
    """documented for rows that do not depend on one another"""
    terms: int = 0
    scale: float = 0.0
    smooth: bool = False
    """for smooth students alone"""


CLOSE = FiniteDifference(1e-4)
SIGNALS: dict[str, Kind] = {
    "unrolled": Kind(Unrolled),
    "replayed": Kind(Replayed),
    "replayed log": Kind(lambda k: Replayed(k, "log")),
    "replayed tree": Kind(lambda k: Replayed(k, 2)),
    "replayed double": Kind(lambda k: Replayed(k, product=DoubleBackward())),
    "replayed forward": Kind(lambda k: Replayed(k, product=ForwardOverReverse())),
    "replayed differences": Kind(lambda k: Replayed(k, product=CLOSE), bound=1e-2, smooth=True),
    "replayed alignment": Kind(lambda k: Replayed(k, product=Alignment())),
    "replayed first order": Kind(
        lambda k: Replayed(k, product=FirstOrder()), oracle="first order"
    ),
    "reversible": Kind(Reversible, reversible=True),
    "reversible double": Kind(
        lambda k: Reversible(k, product=DoubleBackward()), reversible=True
    ),
    "reversible forward": Kind(
        lambda k: Reversible(k, product=ForwardOverReverse()), reversible=True
    ),
    "reversible differences": Kind(
        lambda k: Reversible(k, product=CLOSE), reversible=True, bound=1e-2, smooth=True
    ),
    "reversible exact": Kind(lambda k: Reversible(k, exact=True), reversible=True, exact=True),
}
for _name, _product, _bound in (
    ("", Automatic(), 1e-4),
    (" double", DoubleBackward(), 1e-4),
    (" forward", ForwardOverReverse(), 1e-4),
    (" differences", CLOSE, 1e-2),
    (" alignment", Alignment("forward"), 1e-4),
    (" ghost", Alignment("ghost"), 1e-4),
    (" alignment differences", Alignment("difference"), 3e-2),
    (" one-sided", Alignment("one-sided"), 6e-2),
):
    _one = Kind(
        Unrolled,
        window=False,
        whole=False,
        bound=_bound,
        ghost=_name == " ghost",
        smooth=_bound > 1e-3,
    )
    SIGNALS |= {
        f"lookahead{_name}": _one._replace(build=lambda _, p=_product: Lookahead(p)),
        f"lookahead{_name}, restep": _one._replace(
            build=lambda _, p=_product: Lookahead(p, mode="restep"), mode="restep"
        ),
    }
_look = Kind(Unrolled, window=False, whole=False)
SIGNALS |= {
    "lookahead, virtual": _look._replace(
        build=lambda _: Lookahead(mode="virtual"), mode="virtual"
    ),
    "lookahead, next": _look._replace(
        build=lambda _: Lookahead(evaluate_on="next"), evaluate_on="next"
    ),
    "lookahead ghost, next": _look._replace(
        build=lambda _: Lookahead(Alignment("ghost"), evaluate_on="next"),
        evaluate_on="next",
        ghost=True,
    ),
    "lookahead, plain": _look._replace(
        build=lambda _: Lookahead(evaluate_on="plain"), evaluate_on="plain"
    ),
}
for _terms, _scale in ((0, 0.1), (1, 0.1), (3, 0.2)):
    SIGNALS[f"implicit neumann {_terms}"] = _look._replace(
        build=lambda _, t=_terms, s=_scale: Implicit(Neumann(t, s)),
        oracle="implicit",
        terms=_terms,
        scale=_scale,
        bound=1e-3,
    )
SIGNALS |= {
    "implicit forward": _look._replace(
        build=lambda _: Implicit(Neumann(2, 0.1), product=ForwardOverReverse()),
        oracle="implicit",
        terms=2,
        scale=0.1,
        bound=1e-3,
    ),
    "implicit gradients": _look._replace(
        build=lambda _: Implicit(ConjugateGradient(200, damping=5.0)),
        oracle="implicit",
        terms=-1,
        scale=5.0,
        bound=1e-3,
    ),
    "alignment reward": _look._replace(
        build=lambda _: GradientAlignment(evaluate_on="held-out", normalise="none"),
        oracle="reward",
    ),
    "alignment reward, forward": _look._replace(
        build=lambda _: GradientAlignment(
            Alignment("forward"), evaluate_on="held-out", normalise="none"
        ),
        oracle="reward",
    ),
    "next loss reward": _look._replace(
        build=lambda _: NextStepLoss(evaluate_on="held-out", normalise="none"), oracle="reward"
    ),
}
