"""Tests of large data in memory-mapped files: equal to the bit to data in memory."""

import os
import pickle
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.train.killing import child, ended
from tests.disks import full_disk
from tests.trained import PLAIN, QUICK, one_line, pictures, run
from tutelage.errors import UsageError
from tutelage_cli.data import cache, decode, mapped
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.features.own_features import read_features
from tutelage_cli.data.mapped import (
    ArrayWriter,
    MappedFile,
    MappedRows,
    chosen,
    concatenated,
    in_memory,
    in_use,
    with_channels,
)
from tutelage_cli.data.sources import read
from tutelage_cli.train import evaluation
from tutelage_cli.train.check import fingerprint
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.worker import _from_arrays, as_arrays


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Every array counts as large, and a few rows are read at a time."""

    def switch(on=True):
        monkeypatch.setattr(mapped, "LARGE", 0 if on else 2**30)
        monkeypatch.setattr(mapped, "_CHUNK_BYTES", 1000 if on else 2**24)

    switch()
    return switch


def written(rows=10, row=(1, 4, 4)):
    writer = ArrayWriter(rows + 3, row, np.uint8)  # some are broken
    for value in range(rows):
        writer.append(np.full((1, *row), value, np.uint8))
    return writer


def values(rows):
    return in_memory(rows).flatten(1)[:, 0].tolist()


def test_rows_are_those_that_were_written():
    rows = written().finish()
    assert isinstance(rows, MappedRows)
    assert (rows.shape, rows.ndim, len(rows)) == ((10, 1, 4, 4), 4, 10)
    assert values(rows) == list(range(10))
    assert rows[3].equal(torch.full((1, 4, 4), 3, dtype=torch.uint8))
    assert values(rows[torch.tensor([7, 2, 7])]) == [7, 2, 7]
    assert [values(part) for part in rows.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [int(row.max()) for row in rows] == list(range(10))
    some = chosen(rows, torch.arange(10) > 6)
    assert isinstance(some, MappedRows)
    assert values(some) == [7, 8, 9]
    both = concatenated(some, torch.full((2, 1, 4, 4), 50, dtype=torch.uint8))
    assert values(both) == [7, 8, 9, 50, 50]
    assert values(concatenated(both, rows)[torch.tensor([5, 4, 1])]) == [0, 50, 8]
    colour = in_memory(with_channels(both, 3))
    assert colour.equal(in_memory(both).expand(-1, 3, -1, -1))


def test_the_first_image_in_colour_makes_all_images_rgb(large):
    grey, colour = np.full((1, 4, 4), 9, np.uint8), np.arange(48, dtype=np.uint8)
    pixels = [("a", grey), ("b", colour.reshape(3, 4, 4)), ("c", grey)]
    stacked = decode.stack(iter(pixels), 3, where="toy")
    large(False)
    in_ram = decode.stack(iter(pixels), 3, where="toy")
    assert isinstance(stacked, MappedRows)
    assert isinstance(in_ram, torch.Tensor)
    assert stacked[:].equal(in_ram)
    assert len(list(cache_folder().iterdir())) == 1  # that of the grey ones is gone


def facts(source, settings):
    material = seed_material(source, settings, 0)
    collate = CollateImages(*statistics(material.train))
    batches = Batches(material.train, 8, 0, collate, torch.device("cpu"))
    parts = (material.train, material.held_out, material.test)
    columns = [in_memory(part.images) for part in parts]
    columns += [x for part in parts for x in (part.labels, part.ids)]
    return fingerprint(source), columns + [batch.inputs for batch in batches.epoch(0)]


def test_a_study_has_the_same_data(tmp_path, large):
    data, other = pictures(tmp_path / "a"), pictures(tmp_path / "b", count=5, seed=1)
    settings = TrainSettings(data=str(data), noise="uniform:0.3")
    beside = TrainSettings(data=str(data), held_out_from=str(other))
    large(False)
    wanted = [facts(read_source(one), one) for one in (settings, beside)]
    large()
    cache_folder().rename(tmp_path / "before")
    for _ in "decoded", "cached":
        for one, (digest, columns) in zip((settings, beside), wanted, strict=True):
            source: Any = read_source(one)
            assert isinstance(source.splits.train.images, MappedRows)
            found = facts(source, one)
            assert found[0] == digest
            assert all(a.equal(b) for a, b in zip(found[1], columns, strict=True))


def test_worker_processes_get_the_name_of_the_file(tmp_path):
    data = pictures(tmp_path / "a", size=40)
    settings = TrainSettings(data=str(data))
    source: Any = read_source(settings)
    sent = pickle.dumps(as_arrays(source))
    assert len(sent) < 60 * 40 * 40 / 5
    there: Any = _from_arrays(pickle.loads(sent))
    assert there.splits.train.images[:].equal(source.splits.train.images[:])
    [store] = there.splits.train.images.stores
    store.path.unlink()
    there = _from_arrays(pickle.loads(sent))
    with pytest.raises(UsageError, match=r"No such file.*Start the command again") as error:
        there.splits.train.images[0]
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("report_in_a_word")
def test_a_run_on_mapped_images_gives_the_same_result(tmp_path, large, monkeypatch):
    data, copied = pictures(tmp_path / "a"), []
    read_rows = MappedFile.__getitem__

    def counted(file, rows):
        copied.append(len(rows))
        return read_rows(file, rows)

    monkeypatch.setattr(MappedFile, "__getitem__", counted)
    monkeypatch.setattr(evaluation, "EVAL_BATCH_SIZE", 10)
    for out in ("mapped", "memory"):
        assert run("train", data, *QUICK, "--out", tmp_path / out).code == 0
        large(False)
        cache_folder().rename(tmp_path / f"cache of {out}")
    one, other = (
        torch.load(tmp_path / out / "students/untaught-seed0/checkpoint/state.pt")
        for out in ("mapped", "memory")
    )
    assert max(copied) == 10  # of 60: never more than a batch
    student, wanted = one["tutor"]["student"], other["tutor"]["student"]
    assert all(student[name].equal(wanted[name]) for name in wanted)


def pixel_files():
    return sorted(cache_folder().glob("*.pixels"))


@pytest.mark.parametrize("damage", [Path.unlink, partial(os.truncate, length=100)])
def test_a_damaged_file_is_decoded_again(tmp_path, damage):
    data = str(pictures(tmp_path / "a"))
    before = read(data).train.images[:]
    [file] = pixel_files()
    damage(file)
    assert read(data).train.images[:].equal(before)
    assert pixel_files() == [file]
    assert file.stat().st_size == 60 * 16 * 16


def test_a_full_disk_is_one_line_and_nothing_is_left(tmp_path):
    data = pictures(tmp_path / "a")
    with full_disk(1000):
        answer = run("train", data, *QUICK, "--out", tmp_path / "out")
    one_line(answer, "File too large", "make room there", "XDG_CACHE_HOME")
    assert list(cache_folder().iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_no_folder_with_room_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: SimpleNamespace(free=9))
    data = pictures(tmp_path / "a")
    one_line(run("train", data, *QUICK, *PLAIN), "too little space", "XDG_CACHE_HOME")


def test_without_a_cache_the_file_is_temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    found = read(str(pictures(tmp_path / "a")))
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    assert len(found.train.images[:]) == 48
    del found
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_fork_leaves_the_file_to_the_process_that_wrote_it():
    rows = written().finish()

    def drop():
        nonlocal rows
        rows = None
        return 0

    assert ended(child(drop), within=60) == 0
    [store] = rows.stores
    assert store.path.exists()
    path, store, rows = store.path, None, None
    assert not path.exists()


def test_a_file_in_use_is_not_removed_to_make_room(tmp_path, monkeypatch):
    data = str(pictures(tmp_path / "a"))
    found = read(data)
    [file] = pixel_files()
    monkeypatch.setattr(cache, "MAX_BYTES", 1)
    cache._make_room(cache_folder())
    assert found.train.images[:].shape == (48, 1, 16, 16)
    assert pixel_files() == [file]
    assert in_use(file)
    del found
    assert not in_use(file)
    cache._make_room(cache_folder())
    assert list(cache_folder().iterdir()) == []


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, ">f4"])
def test_features_are_the_same(tmp_path, large, dtype):
    random = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", (9 * random.standard_normal((50, 5))).astype(dtype))
    np.save(tmp_path / "y.npy", random.integers(0, 2, 50))
    named = TrainSettings(data=str(tmp_path / "x.npy"), labels_from=tmp_path / "y.npy")
    source: Any = read_source(named)
    assert isinstance(source.splits.train.features, MappedRows)
    large(False)
    wanted = read_features(named.data, labels_from=named.labels_from)
    assert source.splits.train.features[:].equal(wanted.train.features)
    assert fingerprint(source) == fingerprint(read_source(named))
    stored = np.load(tmp_path / "x.npy").astype(np.float32)
    assert wanted.train.features.equal(torch.from_numpy(stored)[wanted.train.ids])


def test_a_file_of_another_size_is_refused(tmp_path):
    (tmp_path / "it").write_bytes(b"some")
    with pytest.raises(UsageError, match="not 16 bytes"):
        MappedFile(tmp_path / "it", (1, 16), "|u1")[torch.tensor([0])]
