"""The flags of ``tutelage train`` in groups, for its help; a group's name is its heading."""

import ast
import dataclasses
import functools
import inspect
import textwrap
from typing import Annotated, Any, get_type_hints

import tyro

from tutelage_cli.train.args import Train
from tutelage_cli.train.settings import TrainSettings

FIRST = (
    "data",
    "teacher",
    "controls",
    "student",
    "held_out",
    "held_out_from",
    "epochs",
    "lr",
    "seeds",
    "out",
    "resume",
)
"""the source of the data, and the ten flags that matter most"""
GROUPS: dict[str, tuple[str, ...]] = {
    "data": (
        "test_from",
        "labels_from",
        "label_column",
        "image_column",
        "text_column",
        "feature_column",
        "image_size",
        "max_length",
        "limit",
        "noise",
        "imbalance",
        "augment",
        "broken_images",
        "empty_classes",
        "missing_labels",
        "ignore_labels",
    ),
    "student": (
        "student_weights",
        "freeze",
        "batch_size",
        "choose_lr",
        "momentum",
        "weight_decay",
        "decay_at",
    ),
    "teacher": (
        "teacher_lr",
        "teacher_every",
        "unroll_steps",
        "layers",
        "metric",
        "level",
        "tap",
        "commentary",
        "label_embedding",
        "weights_from",
        "default_weight",
    ),
    "control": ("folds", "rounds"),
    "run": ("config", "jobs", "backend", "device", "log", "log_every", "output"),
}
"""the other flags by the name of their group"""


def train_flags(default: TrainSettings) -> type[Any]:
    """A dataclass of the fields of ``Train`` and its settings, in groups.

    Args:
        default: What the settings are where a flag is not given.
    """
    of = _fields(default)
    fields: list[tuple[str, Any, Any]] = [of[name] for name in FIRST]
    for group, names in GROUPS.items():
        cls = dataclasses.make_dataclass(group, [of[name] for name in names], frozen=True)
        hint = Annotated[cls, tyro.conf.arg(name=group)]
        value = dataclasses.field(default_factory=cls, metadata={"help": ""})
        fields.append((f"{group}_flags", hint, value))
    return dataclasses.make_dataclass("TrainFlags", fields, frozen=True)


def train_of(flags: Any) -> Train:
    """The arguments that an instance of ``train_flags`` holds.

    Note: raises ``UsageError`` where the settings do not fit one another.
    """
    given = {name: getattr(flags, name) for name in FIRST}
    for group, names in GROUPS.items():
        given |= {name: getattr(getattr(flags, f"{group}_flags"), name) for name in names}
    names = [field.name for field in dataclasses.fields(TrainSettings)]
    settings = TrainSettings(**{name: given.pop(name) for name in names})
    return Train(settings, **given)


def _fields(default: TrainSettings) -> dict[str, tuple[str, Any, Any]]:
    # name, annotation and default of every field, as make_dataclass takes them; where there is
    # no help, tyro would search the standard library's types.py for the made class
    found: dict[str, tuple[str, Any, Any]] = {}
    for cls, base in ((Train, Train(default)), (TrainSettings, default)):
        hints, texts = get_type_hints(cls, include_extras=True), _descriptions(cls)
        for field in dataclasses.fields(cls):
            described = {"help": texts.get(field.name, "")}
            value = dataclasses.field(default=getattr(base, field.name), metadata=described)
            found[field.name] = field.name, hints[field.name], value
    return found


@functools.cache
def _descriptions(cls: type[Any]) -> dict[str, str]:
    # the string below each field of a dataclass
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
