"""The recipe on ImageNet runs on a folder of that layout, and tells where there is none."""

from dataclasses import replace

import pytest
import torch

from papers.catalogue import load_recipe
from papers.framework.paper_tables import printed
from papers.yi2021mmel import imagenet
from papers.yi2021mmel.imagenet import MADE, Settings, parts
from tests.trained import one_line, pictures, run_papers, unchecked
from tutelage_cli.claims import Comparison

METRIC = "accuracy"
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    imagenet._opened.cache_clear()


def test_a_folder_of_ones_own_is_enough(tmp_path):
    root = tmp_path / "photos"
    pictures(root / "train", ("a", "b", "c"), count=3, mode="RGB")
    pictures(root / "val", ("a", "b", "c"), count=2, mode="RGB")
    recipe = load_recipe("mmel-imagenet")
    of = replace(recipe.settings["smoke"], folder=str(root), student="cnn", classes=2)
    assert [len(part) for part in parts(of)] == [6, 4]
    outcome = recipe.run("resnet18.hard", 0, of, CPU)
    assert outcome.metrics["accuracy"] in (0, 25, 50, 75, 100)
    parted = recipe.run("resnet18.hard", 0, replace(of, micro_batch=4), CPU)
    assert parted.metrics["accuracy"] in (0, 25, 50, 75, 100)


def test_folders_in_tutelage_data_are_found_by_name(tmp_path, monkeypatch):
    pictures(tmp_path / "data" / "imagenet" / "train", count=1)
    pictures(tmp_path / "data" / "imagenet" / "val", count=1)
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path / "data"))
    assert len(parts(Settings()).train) == 3


@pytest.mark.parametrize("flags", [(), ("--set", "folder=no/such/place")])
def test_where_there_is_no_folder_one_line_says_so(tmp_path, monkeypatch, flags):
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path))
    with unchecked():
        answer = run_papers(
            "reproduce", "mmel-imagenet", "--scale", "mini", *flags, "--out", tmp_path / "out"
        )
    one_line(answer, "is not here", "--set folder=PATH", "train", "val")
    assert not (tmp_path / "out").exists()


def test_synthetic_images_are_made_once():
    place = imagenet.synthetic_images()
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*.JPEG")}
    assert len(before) == 36
    assert imagenet.synthetic_images() == place
    assert before == {path: path.stat().st_mtime_ns for path in place.rglob("*.JPEG")}
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    assert len(parts(Settings(folder=MADE)).val) == 12


def test_claims_follow_the_signs_that_the_paper_prints():
    recipe = load_recipe("mmel-imagenet")
    said = {c for claim in recipe.claims for c in claim.comparisons}
    for depth in (18, 34, 50):
        one, hard, soft = (
            printed(recipe.paper, recipe.table, *recipe.printed[f"resnet{depth}.{way}", METRIC])
            for way in ("one", "hard", "soft")
        )
        assert soft.value < one.value < hard.value
        than = (f"resnet{depth}.one", METRIC)
        assert Comparison((f"resnet{depth}.hard", METRIC), "above", than) in said
        assert Comparison((f"resnet{depth}.soft", METRIC), "below", than) in said
