"""Every example of the tutorials and of the method cards runs."""

from dataclasses import replace

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.docs.blocks import DOCS, blocks, run_blocks
from tests.trained import unchecked, undrawn
from tutelage import signals, teachers
from tutelage.crossfit import FoldTraining
from tutelage.crossfit.fold_settings import FoldSettings
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import products
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.local import read_mnist5k
from tutelage_cli.data.sources import WORDS

pytest.importorskip("sklearn")

CARDS = sorted((DOCS / "methods").glob("*.md"))
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
START = DOCS / "methods" / "index.md"
NO_METHODS = {
    *(
        "PAPER_SURFACE_FEATURES",
        "SURFACE_FEATURES",
        "Draw",
        "LabelPreservingTarget",
        "for_other_classes",
        "predicted",
    ),
    *("InitialGradientSignal", "OneStep", "Signal", "TrajectorySignal"),
    *("DotProducts", "Linearised", "Product"),
    *("only_weighs", "products"),
}
"""names beside teachers, signals and products: records, protocols, and parts of a method"""


def few_test_digits() -> Splits:
    splits = read_mnist5k()
    return replace(splits, test=splits.test.rows(torch.arange(0, len(splits.test), 20)))


@pytest.fixture(autouse=True)
def _as_a_reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(WORDS, "mnist5k", few_test_digits)
    with torch.random.fork_rng(), unchecked():
        yield


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs(page) -> None:
    assert blocks(page)
    with undrawn():
        run_blocks(page)


@pytest.mark.parametrize("page", CARDS, ids=lambda page: page.stem)
def test_the_example_of_a_card_runs(page) -> None:
    assert blocks(page)
    run_blocks(page, () if page == START else (START,))


def test_the_loop_of_the_card_of_folds_trains_as_long_and_with_the_decay_that_it_is_given():
    known = run_blocks(DOCS / "methods" / "out-of-fold-targets.md", (START,))
    rows, labels = known["folds"].ne(0).nonzero()[:, 0], known["shown"][:1000]
    settings = FoldSettings(1 / 48, 30.0)
    training = FoldTraining("plain", "plain-0", 0, rows, labels, cross_entropy, settings)
    decays = []

    def note(optimizer, *_):
        decays.append(optimizer.param_groups[0]["weight_decay"])

    handle = register_optimizer_step_post_hook(note)
    try:
        known["fit"](training)
    finally:
        handle.remove()
    assert decays == [pytest.approx(30 * 5e-4)] * settings.steps(6 * len(rows) // 64)
    assert len(decays) == 10


def test_every_method_has_a_card_that_draws_in_its_docstring() -> None:
    cards = "".join(page.read_text(encoding="utf-8") for page in CARDS)
    names = {
        f"tutelage.{room}.{name}"
        for room, package in (
            ("teachers", teachers),
            ("signals", signals),
            ("signals.products", products),
        )
        for name in package.__all__
        if name not in NO_METHODS
    }
    assert len(names) > 40
    missing = [name for name in names if f"autoclass:: {name}\n" not in cards]
    assert sorted(missing) == []


@pytest.mark.parametrize("page", [p for p in CARDS if p != START], ids=lambda page: page.stem)
def test_a_card_says_when_when_not_and_what_it_costs(page) -> None:
    text = page.read_text(encoding="utf-8")
    assert [row for row in ("**When**", "**When not**", "**Cost**") if row not in text] == []
    assert f"({page.name})" in START.read_text(encoding="utf-8")
