"""A folder of images read file by file gives what it gives when it is read at once."""

import shutil

import pytest
import torch

from papers.data.published.imagenet import open_folder
from papers.data.streamed import BatchTransform
from tests.cli.data.folders import read_folders
from tests.cli.data.streams import ids, same, streamed
from tests.trained import pictures
from tutelage.errors import UsageError
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.stored import load_stored


@pytest.fixture
def pets(tmp_path):
    root = tmp_path / "pets [v1] é"
    pictures(root / "train", count=4, size=6)
    pictures(root / "test", count=2, size=6, seed=1)
    return root


@pytest.mark.parametrize("workers", [0, 2])
def test_a_folders_batches_are_those_of_memory(pets, workers):
    whole = load_stored(str(pets))
    split, test = open_folder(pets, channels=1)
    mean, std = statistics(whole.train)
    memory = Batches(whole.train, 5, 3, CollateImages(mean, std), torch.device("cpu"))
    stream = streamed(
        split, 5, 3, transform=BatchTransform(mean=mean, std=std), workers=workers
    )
    assert same(stream.epoch(2, 1), memory.epoch(2, 1))
    assert split.classes == whole.train.classes
    assert test is not None
    assert len(test) == len(whole.test)


def test_chosen_rows_keep_their_ids_and_may_be_labelled_anew(pets):
    split = open_folder(pets)[0].rows(torch.tensor([7, 2, 9]))
    batches = list(streamed(split.with_labels(torch.tensor([0, 0, 1]))).epoch(0))
    assert sorted(ids(batches)) == [2, 7, 9]
    labels = torch.cat([batch.targets for batch in batches])
    assert dict(zip(ids(batches), labels.tolist(), strict=True)) == {7: 0, 2: 0, 9: 1}


def test_images_of_many_sizes_and_of_grey_and_colour_are_brought_to_one(tmp_path):
    pictures(tmp_path, ("cat",), size=8, count=2)
    pictures(tmp_path, ("dog",), size=12, count=2, mode="RGB")
    split, test = open_folder(tmp_path, size=(6, 5))
    batch = next(streamed(split, 4).epoch(0))
    assert batch.inputs.shape == (4, 3, 6, 5)
    assert batch.inputs.dtype == torch.uint8
    assert test is None
    with pytest.raises(UsageError, match=r"shape .*8, 8.*shape .*12, 12|shape .*12.*shape .*8"):
        list(streamed(open_folder(tmp_path)[0], 4).epoch(0))
    with pytest.raises(UsageError, match=r"dog.*png is in colour; give channels=3"):
        list(streamed(open_folder(tmp_path, channels=1)[0], 4).epoch(0))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_told_by_its_path_and_others_are_read(pets, workers):
    file = pets / "train" / "dog" / "02.png"
    file.write_bytes(file.read_bytes()[:60])
    split, _ = open_folder(pets, channels=1)
    told = r"^\S.*dog/02\.png cannot be read as an image .*; replace or remove it\.$"
    with pytest.raises(UsageError, match=told):
        list(streamed(split, 5, workers=workers).epoch(0))
    rows = torch.tensor([0, 1, 11])
    assert sorted(ids(streamed(split, 5, workers=workers).epoch(0, rows=rows))) == [0, 1, 11]


def test_listing_opens_no_image(pets):
    for file in pets.rglob("*.png"):
        file.write_bytes(b"")
    assert len(open_folder(pets)[0]) == 12
    with pytest.raises(UsageError, match="cannot be read"):
        read_folders(pets)


def test_folders_that_will_not_do_are_refused(pets):
    with pytest.raises(UsageError, match=r"channels is 4; allowed: 1, 3"):
        open_folder(pets, channels=4)
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
        open_folder(pets / "nowhere")
    shutil.rmtree(pets / "train" / "emu")
    (pets / "train" / "emu").mkdir()
    with pytest.raises(UsageError, match="class folders without images: emu"):
        open_folder(pets)
