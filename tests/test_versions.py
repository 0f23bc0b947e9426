"""The releases that pyproject.toml allows, as constraints, counts and a table, without pip."""

import pytest
from packaging.version import Version

from tests.versions import PROJECT, TESTS, allowed, bounds, constraints, counts, stored, table
from tests.wheel import ROOT

RAN = {
    "date": "2026-11-29",
    "python": "3.11.7",
    "packages": {"torch": "2.9.0"},
    "tests": {"passed": 1200, "failed": 0, "skipped": 3},
}


def test_bounds_are_the_highest_of_all_requirements_and_follow_extras() -> None:
    found = bounds(["numpy>=2.0", "numpy>=2.10,<3", "rich>=9", "tutelage[text,hub]"])
    extras = PROJECT["optional-dependencies"]
    assert found == {"numpy": "2.10", "rich": "9", **bounds(extras["text"] + extras["hub"])}
    assert found["transformers"]


def test_a_requirement_without_a_lowest_release_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        bounds(["numpy<3"])


def test_constraints_are_exact_releases_one_a_line() -> None:
    assert constraints({"torch": "2.9", "numpy": "2.0"}) == "numpy==2.0\ntorch==2.9\n"
    assert f"torch=={bounds(PROJECT['dependencies'])['torch']}\n" in constraints(allowed())


def test_a_test_with_an_error_counts_as_failed() -> None:
    suite = '<testsuite errors="1" failures="2" skipped="3" tests="10" time="0.1" />'
    report = f"<testsuites>{suite}</testsuites>"
    assert counts(report) == {"passed": 4, "failed": 3, "skipped": 3}


def test_the_table_has_a_column_for_each_end() -> None:
    newest = {**RAN, "packages": {"torch": "2.14.1", "mlflow": "3.18.0"}}
    assert table({"oldest": RAN, "newest": newest}).splitlines() == [
        "|  | oldest | newest |",
        "| --- | --- | --- |",
        "| date | 2026-11-29 | 2026-11-29 |",
        "| Python | 3.11.7 | 3.11.7 |",
        "| tests passed | 1,200 | 1,200 |",
        "| tests failed | 0 | 0 |",
        "| tests skipped | 3 | 3 |",
        "| `torch` | 2.9.0 | 2.14.1 |",
        "| `mlflow` | – | 3.18.0 |",
    ]


def test_no_release_is_allowed_that_is_older_than_the_oldest_tried() -> None:
    tried = stored()["oldest"]["packages"]
    older = {
        name: bound
        for name, bound in allowed().items()
        if name in tried and Version(bound) < Version(tried[name])
    }
    assert older == {}, "python -m tests.versions build/versions oldest"


def test_the_page_names_the_oldest_ray_that_is_allowed() -> None:
    (bound,) = bounds(["tutelage[cluster]"]).items() - bounds(["tutelage[train]"]).items()
    page = (ROOT / "docs" / "versions.md").read_text("utf-8")
    assert f"pass with {bound[0]} {bound[1]}.0, the oldest allowed" in " ".join(page.split())


def test_the_tests_that_run_are_there() -> None:
    assert [path for path in TESTS if not (ROOT / path).exists()] == []
