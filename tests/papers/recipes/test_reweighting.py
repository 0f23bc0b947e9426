"""Students on weighted examples: what their errors are of, and settings that cannot be."""

from dataclasses import replace
from importlib import resources

import pytest
import torch
import yaml

from papers.catalogue import load_recipe
from papers.fan2021interactions import reweighting
from papers.fan2021interactions.noise import SMOKE
from papers.fan2021interactions.reweighting import (
    PLAIN,
    Settings,
    check_arms,
    interactions,
    material_of,
    train_on,
)
from papers.fan2021interactions.translators import TranslationSettings
from tests.trained import one_line, run_papers, unchecked
from tutelage_cli.data.images import ImageSet

CPU = torch.device("cpu")
FLIPPED = ("", "-20", "-cifar100", "-cifar100-20")


def test_errors_say_what_the_epoch_was_chosen_on():
    series = {"test error": [9.0, 4.0, 6.0, 7.0], "held-out error": [5.0, 3.0, 1.0, 1.0]}
    trained = train_on(material_of(SMOKE, 0), PLAIN, 0, SMOKE, CPU)
    assert trained._replace(series=series).errors() == {
        "error": 7.0,
        "chosen_error": 6.0,
        "best_error": 4.0,
    }


def test_every_epoch_is_tested_on_all_the_test_images(monkeypatch):
    seen, real = [], reweighting.accuracy

    def noted(tutor, batches):
        seen.append(len(batches.examples))
        return real(tutor, batches)

    monkeypatch.setattr(reweighting, "accuracy", noted)
    material = material_of(SMOKE, 0)
    many = torch.zeros(2500, dtype=torch.int64)
    test = ImageSet(material.test.images[many], many, many, material.test.classes, "many")
    how = replace(SMOKE, epochs=2)
    train_on(replace(material, test=test), PLAIN, 0, how, CPU)
    assert sorted(seen) == [SMOKE.held_out, SMOKE.held_out, 2500, 2500]


WRONG = {
    "noise=abc": ["'abc'", "flip2"],
    "noise=flip2": ["'flip2'", "no rate"],
    "noise=flip2:3": ["flip2", "0..1"],
    "noise=human:worst": ["human:worst", "mnist5k"],
    "epochs=-1": ["epochs", "at least 1", "-1"],
    "tested=0": ["tested", "at least 1"],
    "every=1": ["look_back is 2", "every 2 or more"],
    "lr=-1": ["lr", "0 or above", "-1"],
    "imbalance=0.5": ["imbalance", "1 or above"],
    "decay_at=[2]": ["decay_at", "(0, 1]"],
    "held_out=5000": ["5000", "leaves nothing"],
    "batch=50": ["batch is 50", "40 examples"],
    "student=cnm": ["'cnm'", "Did you mean 'cnn'?"],
    "data=no/such": ["'no/such'"],
}


@pytest.mark.parametrize("word", WRONG)
def test_a_wrong_setting_is_told_in_one_line_before_anything_runs(tmp_path, word):
    where = ("--scale", "smoke", "--out", tmp_path / "out")
    with unchecked():
        answer = run_papers("reproduce", "interactions-noise-flip", *where, "--set", word)
    one_line(answer, *WRONG[word])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"lr": -1.0}, "lr must be 0 or above"),
        ({"mispaired": 1.5}, "mispaired must lie in 0..1"),
        ({"width": 6}, "width must be a multiple of 4"),
        ({"back": 3, "every": 2}, "back is 3.*every 3 or more"),
    ],
)
def test_a_wrong_setting_of_translation_is_refused(wrong, part):
    with pytest.raises(ValueError, match=part):
        TranslationSettings(**wrong)


@pytest.mark.parametrize("noise", ["none", "uniform:0"])
def test_weights_are_not_judged_without_wrong_labels(noise):
    recipe = load_recipe("interactions-weights")
    with pytest.raises(ValueError, match=f"noise is {noise}.*flip2:0.4"):
        recipe.prepare(replace(SMOKE, noise=noise))


def test_a_student_that_lacks_what_an_arm_looks_at_is_refused():
    with pytest.raises(ValueError, match="has no"):
        check_arms({"I1": interactions("I1+M0")}, SMOKE)


def test_the_columns_of_flipped_labels_are_all_of_table_6():
    recipes = [load_recipe(f"interactions-noise-flip{name}") for name in FLIPPED]
    shown = [cell for recipe in recipes for cell in recipe.printed.values()]
    file = resources.files("papers.framework").joinpath("paper_tables.yaml")
    records = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)["records"]
    table = [r for r in records if (r["paper"], r["table"]) == ("l2tdi", "Table 6")]
    assert sorted(shown) == sorted((r["row"], r["column"]) for r in table)
    paper = [recipe.settings["paper"] for recipe in recipes]
    assert {(of.data, of.noise) for of in paper} == {
        (data, noise)
        for data in ("cifar10", "cifar100")
        for noise in ("flip2:0.2", "flip2:0.4")
    }
    assert {replace(of, data="cifar10", noise="none") for of in paper} == {
        replace(Settings(), noise="none")
    }
