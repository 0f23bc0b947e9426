"""What the tests of the command line share: reports that are not drawn."""

from collections.abc import Iterator

import pytest

from tests.trained import undrawn


@pytest.fixture
def report_in_a_word() -> Iterator[None]:
    """Drawing the report takes longer than a quick run, and other tests look at it."""
    with undrawn():
        yield
