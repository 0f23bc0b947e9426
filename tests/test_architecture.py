"""Imports point downward: each part of the package sees only those below it."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import tutelage

ROOT = Path(tutelage.__file__).parent

LAYERS: tuple[set[str], ...] = (
    {"records", "errors", "randomness", "precision"},
    {"recomputation", "derivatives", "decompositions", "activation_checkpoints"},
    {"trees", "module_state", "ranges", "sharded", "wrapped", "terminal", "shapes"},
    {"files", "states"},
    {"reduction", "checkpoints"},
    {"objectives", "probability_losses", "rules", "differentiable", "descent", "processes"},
    {"replays"},
    {
        "student",
        "portable",
        "teaching",
        "memory",
        "joint",
        "labels",
        "sights",
        "statistics",
        "reached",
    },
    {"alignments", "augment", "crossfit"},
    {"task"},
    {"teachers", "signals", "data", "models", "metrics"},
    {"look", "learner", "packing", "tally"},
    {"trail", "lighter", "micro_batches", "reproducible"},
    {"passes"},
    {"tutor"},
    {"logs", "loops", "meta_weight_net", "rewarded"},
    {"few_shot", "integrations"},
    {"exchange", "yaml_files"},
    {"runs", "report", "config", "workers"},
    {"commentaries"},
    {"study", "reproduction"},
    {"recipes", "learning", "inspection"},
    {"__init__"},
    {"cli"},
    {"__main__"},
)
"""From bottom to top; the parts of one layer are blind to one another."""

RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def imported(source: str, modules: Iterable[str], *, everywhere: bool) -> set[str]:
    """The modules of the package that a source imports, by their names below it.

    Args:
        source: Python source.
        modules: The names there are: ``student``, ``signals.unrolled``, ``signals``.
        everywhere: Also look inside functions, not only at what an import runs.
    """
    known, tree = set(modules), ast.parse(source)
    nodes = list(ast.walk(tree)) if everywhere else list(top_level(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            inside = {f"{module}.{alias.name}" for alias in node.names}
            below = {name for name in inside if name.removeprefix("tutelage.") in known}
            names |= below or {module}
    names = {f"{name}.__init__" if name == "tutelage" else name for name in names}
    return {name.removeprefix("tutelage.") for name in names if name.startswith("tutelage.")}


def top_level(tree: ast.AST) -> Iterable[ast.AST]:
    """Every node that runs when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from top_level(child)


def upward(module: str, source: str, modules: Iterable[str]) -> list[str]:
    """What a module imports from its own layer or above, a sentence each."""
    part = module.split(".")[0]
    if part not in RANK:
        return [f"{module} is in no layer"]
    faults = []
    for name in sorted(imported(source, modules, everywhere=True)):
        other = name.split(".")[0]
        if other not in RANK:
            faults.append(f"{module} imports {name}, which is in no layer")
        elif other != part and RANK[other] >= RANK[part]:
            faults.append(f"{module} imports {name}, which is not below it")
    return faults


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Some modules that import one another in a circle; empty if there are none."""
    left = {name: set(targets) for name, targets in graph.items()}
    while leaf := next(
        (name for name, targets in left.items() if not targets & left.keys()), ""
    ):
        del left[leaf]
    return sorted(left)


def package() -> dict[str, str]:
    """The source of every module by its name below the package."""
    sources = {}
    for path in sorted(ROOT.rglob("*.py")):
        names = path.relative_to(ROOT).with_suffix("").parts
        names = names[:-1] if names[-1] == "__init__" and len(names) > 1 else names
        sources[".".join(names)] = path.read_text(encoding="utf-8")
    return sources


def test_every_import_points_downward() -> None:
    sources = package()
    assert [fault for name in sources for fault in upward(name, sources[name], sources)] == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    sources = package()
    graph = {
        name: imported(s, sources, everywhere=False) - {name} for name, s in sources.items()
    }
    assert cycle(graph) == []


def test_a_part_stands_in_one_layer() -> None:
    assert len(RANK) == sum(len(layer) for layer in LAYERS)


MODULES = ("records", "trees", "tutor", "signals", "signals.unrolled", "teachers", "novel")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("records", "from tutelage.tutor import Tutor"),
        ("records", "import tutelage.tutor"),
        ("records", "def f():\n    from tutelage.tutor import Tutor"),
        ("records", "if True:\n    import tutelage.signals.unrolled as u"),
        ("signals.unrolled", "from tutelage.teachers import Plain"),
        ("signals.unrolled", "from tutelage import tutor"),
        ("tutor", "import tutelage"),
        ("tutor", "from tutelage.novel import x"),
        ("novel", ""),
    ],
)
def test_an_upward_or_sideways_import_and_a_part_without_a_layer_are_found(
    module, source
) -> None:
    assert len(upward(module, source, MODULES)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("trees", "import torch\nfrom tutelage.records import Params"),
        ("tutor", "from tutelage.signals import Signal\nfrom tutelage import records"),
        ("signals", "from tutelage.signals.unrolled import Unrolled"),
        ("cli", "from tutelage import Tutor"),
    ],
)
def test_a_downward_import_is_no_fault(module, source) -> None:
    assert upward(module, source, MODULES) == []


def test_a_circle_is_found_and_what_hangs_on_it_too() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_an_import_inside_a_function_does_not_run_at_import() -> None:
    source = "def f():\n    import tutelage.tutor\nimport tutelage.records"
    assert imported(source, MODULES, everywhere=False) == {"records"}
    assert imported(source, MODULES, everywhere=True) == {"records", "tutor"}
