"""Imports point downward: from the papers to the application to the library, layer by layer."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "tutelage": ROOT / "src" / "tutelage",
    "tutelage_cli": ROOT / "src" / "tutelage_cli",
    "papers": ROOT / "papers",
}
"""From bottom to top: a package imports itself and those before it."""
LAYERS: dict[str, tuple[set[str], ...]] = {
    "tutelage": (
        {"errors", "precision", "randomness", "types"},
        {"augment", "data", "distributed", "storage", "validation"},
        {"functional", "losses"},
        {"crossfit", "models", "per_example", "teacher"},
        {"teachers"},
        {"bilevel"},
        {"commentaries", "signals"},
        {"training"},
        {"fitting", "integrations", "logs"},
        {"__main__", "sklearn"},
    ),
    "tutelage_cli": (
        {"config", "intervals", "report", "runner", "terminal"},
        {"data"},
        {"claims", "train"},
        {"commentary", "inspect"},
        {"compare"},
        {"cli"},
        {"__main__"},
    ),
    "papers": (
        {"data", "framework", "models", "students", "text_augment"},
        {"catalogue", "few_shot", "fan2021interactions", "mueller2021gar", "yi2021mmel"}
        | {"pays"},
        {"raghu2021commentaries"},
        {"__main__"},
    ),
}
"""Each package's parts from bottom to top; those of one layer do not import one another."""
MOST_AT_THE_ROOT = 8


def rank_of(part: str) -> int | None:
    """The layer of a part such as ``tutelage.signals``, counted over all packages."""
    package, _, name = part.partition(".")
    below = 0
    for known, layers in LAYERS.items():
        if known == package:
            found = [rank for rank, layer in enumerate(layers) if name in layer]
            return below + found[0] if found else None
        below += len(layers)
    return None


def imported(source: str, modules: Iterable[str], *, everywhere: bool) -> set[str]:
    """The project's modules that a source imports.

    Args:
        source: Python source.
        modules: The names there are: ``tutelage.types``, ``tutelage.signals.unrolled``.
        everywhere: Also inside functions, not only what runs at import.
    """
    known, tree = set(modules), ast.parse(source)
    names: set[str] = set()
    for node in list(ast.walk(tree)) if everywhere else list(top_level(tree)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            inside = {f"{module}.{alias.name}" for alias in node.names} & known
            names |= inside or {module}
    return {name for name in names if name.partition(".")[0] in PACKAGES}


def top_level(tree: ast.AST) -> Iterable[ast.AST]:
    """Every node that runs when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from top_level(child)


def part_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def upward(module: str, source: str, modules: Iterable[str]) -> list[str]:
    """What a module imports from its own layer or above, a sentence each."""
    part, faults = part_of(module), []
    if part in PACKAGES:  # a root package's own names stand for the parts they come from
        return []
    rank = rank_of(part)
    if rank is None:
        return [f"{module} is in no layer"]
    for name in sorted(imported(source, modules, everywhere=True)):
        other = part_of(name)
        above = None if other in PACKAGES else rank_of(other)
        if above is None:
            faults.append(f"{module} imports {name}, which is in no layer")
        elif other != part and above >= rank:
            faults.append(f"{module} imports {name}, which is not below it")
    return faults


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import one another in a circle; empty if there are none."""
    left = {name: set(targets) for name, targets in graph.items()}
    while leaf := next(
        (name for name, targets in left.items() if not targets & left.keys()), ""
    ):
        del left[leaf]
    return sorted(left)


def sources() -> dict[str, str]:
    """The source of every module by its full name."""
    found = {}
    for folder in PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            names = path.relative_to(folder.parent).with_suffix("").parts
            names = names[:-1] if names[-1] == "__init__" else names
            found[".".join(names)] = path.read_text(encoding="utf-8")
    return found


def test_every_import_points_downward() -> None:
    every = sources()
    assert [fault for name in every for fault in upward(name, every[name], every)] == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    every = sources()
    graph = {name: imported(s, every, everywhere=False) - {name} for name, s in every.items()}
    assert cycle(graph) == []


def test_every_part_is_in_one_layer() -> None:
    for package, folder in PACKAGES.items():
        own = [part for layer in LAYERS[package] for part in layer]
        there = {
            path.stem
            for path in folder.iterdir()
            if path.suffix == ".py" or (path / "__init__.py").exists()
        }
        assert sorted(own) == sorted(there - {"__init__"})


def test_the_library_has_few_files_at_its_root() -> None:
    assert len(list(PACKAGES["tutelage"].glob("*.py"))) <= MOST_AT_THE_ROOT


def test_every_package_says_what_it_is_for() -> None:
    for folder in PACKAGES.values():
        for init in folder.rglob("__init__.py"):
            assert ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))), init


MODULES = (
    "tutelage",
    "tutelage.types",
    "tutelage.functional.trees",
    "tutelage.signals",
    "tutelage.signals.unrolled",
    "tutelage.teachers",
    "tutelage.training.tutor",
    "tutelage.novel",
    "tutelage_cli.cli",
    "papers.few_shot",
)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tutelage.types", "from tutelage.training.tutor import Tutor"),
        ("tutelage.types", "import tutelage.training.tutor"),
        ("tutelage.types", "def f():\n    from tutelage.training.tutor import Tutor"),
        ("tutelage.types", "if True:\n    import tutelage.signals.unrolled as u"),
        ("tutelage.signals.unrolled", "from tutelage.commentaries import save_commentary"),
        ("tutelage.signals.unrolled", "from tutelage.training import tutor"),
        ("tutelage.training.tutor", "import tutelage"),
        ("tutelage.training.tutor", "from tutelage.novel import x"),
        ("tutelage.training.tutor", "import tutelage_cli.cli"),
        ("tutelage_cli.cli", "def f():\n    import papers.few_shot"),
        ("tutelage.novel", ""),
    ],
)
def test_an_upward_or_sideways_import_and_a_part_without_a_layer_are_found(
    module, source
) -> None:
    assert len(upward(module, source, MODULES)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tutelage.functional.trees", "import torch\nfrom tutelage.types import Params"),
        ("tutelage.training.tutor", "from tutelage.signals import unrolled"),
        ("tutelage.signals", "from tutelage.signals.unrolled import Unrolled"),
        ("tutelage_cli.cli", "from tutelage.training.tutor import Tutor"),
        ("papers.few_shot", "from tutelage_cli.cli import main"),
    ],
)
def test_a_downward_import_is_no_fault(module, source) -> None:
    assert upward(module, source, MODULES) == []


def test_a_circle_is_found_and_what_hangs_on_it_too() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_an_import_inside_a_function_does_not_run_at_import() -> None:
    source = "def f():\n    import tutelage.training.tutor\nimport tutelage.types"
    assert imported(source, MODULES, everywhere=False) == {"tutelage.types"}
    assert len(imported(source, MODULES, everywhere=True)) == 2
