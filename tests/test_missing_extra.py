"""A module is called missing only where it is: otherwise it is told what keeps it out."""

import sys
from types import ModuleType

import pytest

from tutelage.errors import MissingExtraError, require_module


def failure(module: str, name: str, statement: str) -> str:
    """What is said where a statement cannot import."""
    try:
        exec(statement, {})
    except ImportError:
        told = str(MissingExtraError(module, "train"))
    else:
        pytest.fail(f"{statement} works")
    assert "pip install '.[train]'" in told
    return told.replace(name, "NAME")


@pytest.mark.parametrize(("module", "imported"), [("datasets", "datasets"), ("pillow", "PIL")])
def test_a_module_that_is_not_there_is_called_so(monkeypatch, module, imported):
    monkeypatch.setitem(sys.modules, imported, None)
    said = failure(module, module, f"import {imported}")
    assert said.startswith("NAME is not installed. Install it with")


def test_what_a_module_lacks_is_named_in_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = failure("datasets", "pyarrow", "import pyarrow")
    assert said.startswith("datasets cannot be imported without NAME, which is missing.")


def test_a_damaged_module_is_told_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", ModuleType("datasets"))
    said = failure("datasets", "ClassLabel", "from datasets import ClassLabel")
    assert said.startswith(
        "datasets is there, but cannot be imported (cannot import name 'NAME'"
    )


def test_a_module_that_is_looked_for_before_its_use_is_not_installed():
    with pytest.raises(MissingExtraError, match="no_such_module is not installed"):
        require_module("no_such_module", "train")
