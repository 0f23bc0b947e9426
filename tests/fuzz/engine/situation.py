"""A training situation: one choice on every axis, drawn from a seed or written out."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from tests.fuzz.engine.data import DATA
from tests.fuzz.engine.objectives import OBJECTIVES
from tests.fuzz.engine.optimisers import EVENTS, OPTIMISERS
from tests.fuzz.engine.signals import SIGNALS, Kind
from tests.fuzz.engine.students import STUDENTS
from tests.fuzz.engine.teachers import TEACHERS

MODES = ("tutor", "whole run", "resumed")
PRECISIONS = ("double", "single", "teacher single", "student single", "half", "autocast")


@dataclass(frozen=True)
class Situation:
    """One choice on every axis; the defaults are the plainest."""

    student: str = "mlp"
    objective: str = "cross entropy"
    optimiser: str = "momentum"
    event: str = "nothing"
    data: str = "fresh"
    teacher: str = "table"
    signal: str = "unrolled"
    mode: str = "tutor"
    precision: str = "double"
    window: int = 3
    """steps that the signal looks back over, where it looks at more than one"""
    between: int = 0
    """steps between two windows"""
    looks: int = 1
    aggregate: int = 1
    part: int = 0
    """rows of a micro-batch; 0: all"""
    clip: float = 0.0
    """norm to which gradients are clipped; 0: they are not"""
    seed: int = 0

    @property
    def every(self) -> int:
        """Student steps from look to look."""
        return self.reach + self.between

    @property
    def reach(self) -> int:
        """How many steps an estimate looks back over."""
        return self.window if SIGNALS[self.signal].window else 1

    @property
    def steps(self) -> int:
        """Student steps in all."""
        if self.mode == "whole run":
            return self.window
        return self.every * self.looks + (SIGNALS[self.signal].evaluate_on != "held-out")

    @property
    def spec(self) -> str:
        """What repeats this situation on the command line."""
        plain = asdict(Situation())
        odd = {k: v for k, v in asdict(self).items() if v != plain[k]}
        return "; ".join(f"{k}={v}" for k, v in odd.items()) or "seed=0"


def from_spec(spec: str) -> Situation:
    """The situation that ``Situation.spec`` wrote; a number alone is a seed."""
    if spec.strip().isdigit():
        return drawn(int(spec))
    numbers = {f.name for f in fields(Situation) if f.type in (int, float, "int", "float")}
    pairs = (pair.split("=", 1) for pair in spec.split(";"))
    chosen = {k.strip(): v.strip() for k, v in pairs}
    typed = {
        k: (float(v) if k == "clip" else int(v)) for k, v in chosen.items() if k in numbers
    }
    return fitting(replace(Situation(), **(chosen | typed)))


def _weighted(draw: random.Random, plain: str, others: Sequence[str], share: float) -> str:
    return plain if draw.random() < share else draw.choice(others)


def _axes(draw: random.Random) -> Mapping[str, Callable[[], str]]:
    # how often an axis stays plain: several awkward things at once hide one another
    return {
        "student": lambda: _weighted(draw, "mlp", list(STUDENTS), 0.15),
        "objective": lambda: _weighted(draw, "cross entropy", list(OBJECTIVES), 0.4),
        "optimiser": lambda: _weighted(draw, "momentum", list(OPTIMISERS), 0.35),
        "event": lambda: _weighted(draw, "nothing", list(EVENTS), 0.6),
        "data": lambda: _weighted(draw, "fresh", list(DATA), 0.6),
        "teacher": lambda: _weighted(draw, "table", list(TEACHERS), 0.25),
        "signal": lambda: draw.choice(list(SIGNALS)),
        "mode": lambda: _weighted(draw, "tutor", MODES, 0.6),
        "precision": lambda: _weighted(draw, "double", PRECISIONS, 0.75),
    }


def drawn(seed: int) -> Situation:
    """The situation of a seed."""
    draw = random.Random(seed)
    names = {axis: choose() for axis, choose in _axes(draw).items()}
    found = Situation(
        **names,
        window=draw.choice((1, 2, 3, 3, 4, 5, 9)),
        between=draw.choice((0, 0, 0, 1, 2)),
        looks=draw.choice((1, 1, 2, 3)),
        aggregate=draw.choice((1, 1, 1, 1, 2)),
        part=draw.choice((0, 0, 0, 0, 0, 2, 3, 5)),
        clip=draw.choice((0.0, 0.0, 0.0, 0.0, 0.3)),
        seed=seed,
    )
    if draw.random() < 0.03:  # far back, where rounding would show
        found = replace(
            found, signal="reversible", optimiser="momentum", window=60, precision="single"
        )
    return fitting(found)


class UpdateRule(NamedTuple):
    """What cannot be said together, and what becomes plain then."""

    when: Callable[[Situation], object]
    change: Callable[[Situation], dict[str, Any]]


def _kind(s: Situation) -> Kind:
    return SIGNALS[s.signal]


def _rewards(s: Situation) -> bool:
    return _kind(s).oracle == "reward"


RULES = (
    UpdateRule(
        lambda s: TEACHERS[s.teacher].samples != _rewards(s),
        lambda s: {"teacher": "keep or drop" if _rewards(s) else "table"},
    ),
    UpdateRule(
        lambda s: OBJECTIVES[s.objective].kind not in TEACHERS[s.teacher].fits.split(),
        lambda _: {"objective": "cross entropy"},
    ),
    UpdateRule(lambda s: _kind(s).exact, lambda _: {"mode": "whole run"}),
    UpdateRule(
        lambda s: s.mode == "whole run" and not _kind(s).whole, lambda _: {"mode": "tutor"}
    ),
    UpdateRule(
        lambda s: _kind(s).reversible and not OPTIMISERS[s.optimiser].momentum,
        lambda _: {"optimiser": "momentum"},
    ),
    UpdateRule(
        lambda s: s.mode == "whole run",
        lambda _: {"aggregate": 1, "between": 0, "part": 0, "clip": 0.0, "event": "nothing"},
    ),
    UpdateRule(
        lambda s: s.mode == "whole run" and OBJECTIVES[s.objective].metric is not None,
        lambda _: {"objective": "cross entropy"},
    ),
    UpdateRule(  # one step of plain SGD, whose actions are enumerated
        _rewards,
        lambda _: {
            "mode": "tutor",
            "looks": 1,
            "aggregate": 1,
            "between": 0,
            "part": 0,
            "event": "nothing",
            "optimiser": "sgd",
            "precision": "double",
            "clip": 0.0,
            "window": 1,
        },
    ),
    UpdateRule(
        lambda s: _rewards(s) and (not STUDENTS[s.student].still or s.student == "writing"),
        lambda _: {"student": "mlp"},
    ),
    UpdateRule(lambda s: _rewards(s) and not DATA[s.data].broken, lambda _: {"data": "fresh"}),
    UpdateRule(
        lambda s: _kind(s).evaluate_on == "plain", lambda s: {"between": max(1, s.between)}
    ),
    UpdateRule(
        lambda s: _kind(s).mode == "virtual" or _kind(s).reversible, lambda _: {"clip": 0.0}
    ),
    UpdateRule(
        lambda s: s.data in ("ids negative", "ids beyond") and "sampler" not in s.teacher,
        lambda _: {"data": "fresh"},
    ),
    UpdateRule(  # the odd step is the second
        lambda s: not DATA[s.data].finite,
        lambda s: {
            "aggregate": 1,
            "looks": max(2, s.looks),
            "window": max(2, s.window) if s.mode == "whole run" else s.window,
        },
    ),
    UpdateRule(
        lambda s: s.student == "writing" and TEACHERS[s.teacher].looks,
        lambda _: {"teacher": "table"},
    ),
    UpdateRule(  # documented: differences follow what the student cuts off
        lambda s: _kind(s).smooth and STUDENTS[s.student].detaches,
        lambda _: {"student": "mlp"},
    ),
    UpdateRule(  # the oracle holds what is cut off as the last micro-batch leaves it
        lambda s: s.part and STUDENTS[s.student].detaches,
        lambda _: {"part": 0},
    ),
    UpdateRule(  # it is all of the student
        lambda s: s.student == "linear" and s.teacher == "internal state, tapped",
        lambda _: {"teacher": "internal state"},
    ),
    UpdateRule(  # documented as inexact
        lambda s: (
            _kind(s).ghost and (STUDENTS[s.student].couples or OBJECTIVES[s.objective].couples)
        ),
        lambda _: {"student": "mlp", "objective": "cross entropy"},
    ),
    UpdateRule(
        lambda s: _kind(s).smooth and not STUDENTS[s.student].smooth,
        lambda _: {"student": "mlp"},
    ),
    UpdateRule(lambda s: s.looks < s.aggregate, lambda s: {"looks": s.aggregate}),
    UpdateRule(
        lambda s: s.looks % s.aggregate, lambda s: {"looks": s.looks - s.looks % s.aggregate}
    ),
)


def fitting(s: Situation) -> Situation:
    """The same, with what cannot be said together made plain."""
    for rule in RULES:
        if rule.when(s):
            s = replace(s, **rule.change(s))
    return s


def simpler(s: Situation) -> Iterator[Situation]:
    """The same with one axis made plain, or smaller."""
    plain = Situation()
    for field in fields(Situation):
        name, value = field.name, getattr(s, field.name)
        if name == "seed" or value == getattr(plain, name):
            continue
        fewer = fitting(replace(s, **{name: getattr(plain, name)}))
        if fewer != s and len(fewer.spec) < len(s.spec):
            yield fewer
