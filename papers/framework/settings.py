"""Settings of recipes: frozen dataclasses whose types say which numbers are allowed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, get_type_hints

from tutelage.models.catalogue import require_student
from tutelage.validation.ranges import above_zero, at_least_one, not_negative, parts, shares

Check = Callable[[object, str], object]
"""from settings and a field's name; raises if its value is not allowed"""


Positive = Annotated[float, above_zero]
Share = Annotated[float, parts]  # 0 to 1
Shares = Annotated[tuple[float, ...], shares]  # each above 0 and at most 1
CountOrZero = Annotated[int, not_negative]
Student = Annotated[str, lambda settings, name: require_student(getattr(settings, name))]
"""a name of ``tutelage.models.STUDENTS``"""


@dataclass(frozen=True)
class RecipeSettings:
    """Settings of a recipe: integers are 1 or above, other numbers finite and not negative.

    A field whose type is ``Annotated`` with a ``Check`` is checked by that instead.
    """

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            if own := getattr(hint, "__metadata__", ()):
                own[0](self, name)
            elif type(value) is int:
                at_least_one(self, name)
            elif type(value) is float:
                not_negative(self, name)
