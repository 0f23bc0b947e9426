"""Tests of decoded data sets kept on disk."""

import hashlib
import os
import resource
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.cli.data.pictures import png
from tests.cli.train.killing import child, ended
from tutelage.errors import UsageError
from tutelage_cli.data import cache, decode, local
from tutelage_cli.data.cache import cache_folder, cached
from tutelage_cli.data.decode import read_picture
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load


def write_folders(root):
    for part in ("train", "test"):
        for place, name in enumerate(("cat", "dog") * 3):
            file = root / part / name / f"{place}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(place))
    return root


def write_csv(root):
    root.mkdir()
    rows = []
    for place, name in enumerate(("cat", "dog") * 5):
        (root / f"{place}.png").write_bytes(png(place))
        rows.append(f"{place}.png,{name},{name[0]}{place % 2}\n")
    (root / "train.csv").write_text("path,label,kind\n" + "".join(rows))
    return root


def write_parquet(root):
    root.mkdir()
    for part, rows in (("train", 8), ("test", 4)):
        stored = [png(row) for row in range(rows)]
        labels = [row % 4 for row in range(rows)]
        table = {"image": stored, "label": labels, "kind": [str(row % 2) for row in labels]}
        pq.write_table(pa.table(table), root / f"{part}.parquet")
    return root


SOURCES = {
    "folders": write_folders,
    "csv folder": write_csv,
    "csv file": lambda root: write_csv(root) / "train.csv",
    "parquet folder": write_parquet,
    "parquet file": lambda root: write_parquet(root) / "train.parquet",
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache home for every test: what one decodes must not serve another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def decodes(monkeypatch):
    """The places of all pictures decoded so far."""
    places = []

    def watched(stored, *, where, root):
        places.append(where)
        return read_picture(stored, where=where, root=root)

    monkeypatch.setattr(decode, "read_picture", watched)
    return places


def entries():
    return sorted(cache_folder().iterdir())


def splits(value=1, rows=4, name="toy", classes=("cat", "dog")):
    def part(count):
        images = torch.full((count, 1, 2, 2), value, dtype=torch.uint8)
        labels = torch.arange(count) % 2
        return ImageSet(images, labels, torch.arange(count) + 7, classes, name)

    return Splits(part(rows), part(2))


def kept(tmp_path, value=1, name="a"):
    file = tmp_path / name
    if not file.exists():
        file.touch()
    return cached(lambda: splits(value), files=[file], arguments=[])


def same(first, second):
    pairs = ((first.train, second.train), (first.test, second.test))
    return all(
        torch.equal(one.images, two.images)
        and torch.equal(one.labels, two.labels)
        and torch.equal(one.ids, two.ids)
        and (one.classes, one.name) == (two.classes, two.name)
        for one, two in pairs
    )


@pytest.mark.parametrize("kind", SOURCES)
def test_a_second_load_decodes_nothing_and_gives_the_same(kind, tmp_path, monkeypatch, decodes):
    source = str(SOURCES[kind](tmp_path / "set [v1] é"))
    first = load(source)
    decoded = len(decodes)
    again = load(source)
    assert len(decodes) == decoded > 0
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert same(load(source), first)
    assert len(decodes) == 2 * decoded
    assert same(again, first)


def test_what_is_read_back_may_be_changed_in_place(tmp_path):
    source = str(write_folders(tmp_path / "set"))
    load(source)
    load(source).train.images.fill_(99)
    assert not (load(source).train.images == 99).any()


def later(file):
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


CHANGES = {
    "folders": {
        "an image touched": lambda root: later(root / "train/cat/0.png"),
        "an image of another size": lambda root: (root / "test/dog/1.png").write_bytes(
            png(200)
        ),
        "an image added": lambda root: (root / "train/dog/9.png").write_bytes(png(9)),
        "an image removed": lambda root: (root / "train/dog/3.png").unlink(),
        "an image renamed": lambda root: (root / "train/cat/0.png").rename(
            root / "train/cat/7.png"
        ),
        "a test split removed": lambda root: shutil.rmtree(root / "test"),
    },
    "csv folder": {
        "the table touched": lambda root: later(root / "train.csv"),
        "an image touched": lambda root: later(root / "3.png"),
        "a test table added": lambda root: shutil.copy(root / "train.csv", root / "test.csv"),
    },
    "parquet folder": {
        "a file touched": lambda root: later(root / "test.parquet"),
        "a file added": lambda root: shutil.copy(
            root / "train.parquet", root / "train-1.parquet"
        ),
        "a file removed": lambda root: (root / "test.parquet").unlink(),
    },
}


@pytest.mark.parametrize(
    ("kind", "change"), [(kind, change) for kind in CHANGES for change in CHANGES[kind]]
)
def test_a_changed_source_is_decoded_anew(kind, change, tmp_path, decodes):
    root = SOURCES[kind](tmp_path / "set")
    load(str(root))
    decodes.clear()
    CHANGES[kind][change](root)
    changed = load(str(root))
    assert decodes
    decodes.clear()
    assert same(load(str(root)), changed)
    assert not decodes


def test_files_that_a_source_does_not_read_may_change(tmp_path, decodes):
    root = write_parquet(tmp_path / "set")
    load(str(root))
    decodes.clear()
    (root / "README.md").write_text("new")
    shutil.copy(root / "test.parquet", root / "val.parquet")
    load(str(root))
    assert not decodes


@pytest.mark.parametrize("kind", ["csv folder", "parquet folder"])
def test_other_columns_are_decoded_anew(kind, tmp_path):
    source = str(SOURCES[kind](tmp_path / "set"))
    load(source)
    assert (
        load(source, Reading(label_column="kind")).train.classes != load(source).train.classes
    )
    assert len(entries()) == 2
    with pytest.raises(UsageError, match="no column 'kinds'"):
        load(source, Reading(label_column="kinds"))


def test_a_link_led_elsewhere_is_decoded_anew(tmp_path):
    root = write_folders(tmp_path / "set")
    link = root / "train" / "cat" / "0.png"
    link.unlink()
    for value in (40, 50):
        (tmp_path / f"{value}.png").write_bytes(png(value))
        os.utime(tmp_path / f"{value}.png", (1, 1))
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / f"{value}.png")
        os.utime(link.parent, (1, 1))
        assert load(str(root)).train.images[0].unique().tolist() == [value]
    assert len({file.stat().st_size for file in tmp_path.glob("*.png")}) == 1


def test_a_source_that_went_bad_is_refused_as_ever(tmp_path):
    root = write_folders(tmp_path / "set")
    load(str(root))
    (root / "train" / "cat" / "0.png").write_bytes(b"no picture")
    with pytest.raises(UsageError, match="cannot be read as an image"):
        load(str(root))
    shutil.rmtree(root / "train" / "cat")
    (root / "train" / "cat").mkdir()
    with pytest.raises(UsageError, match="class folders without images: cat"):
        load(str(root))


def test_images_outside_of_a_parquet_file_are_decoded_every_time(tmp_path):
    (tmp_path / "set").mkdir()
    table = pa.table({"image": ["a.png", "b.png"] * 2, "label": [0, 0, 1, 1]})
    pq.write_table(table, tmp_path / "set" / "train.parquet")
    for value in (1, 2):
        for name in ("a", "b"):
            (tmp_path / "set" / f"{name}.png").write_bytes(png(value))
        assert load(str(tmp_path / "set")).train.images.unique().tolist() == [value]
    assert not cache_folder().exists()


def test_another_version_is_decoded_anew(tmp_path, monkeypatch):
    assert kept(tmp_path, 1).train.images.max() == 1
    assert kept(tmp_path, 2).train.images.max() == 1
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    assert kept(tmp_path, 2).train.images.max() == 2


DIGESTS = {
    "mnist5k": "9185c498ad15",
    "folders": "3b72eeed1c22",
    "csv folder": "d58a680421ab",
    "csv file": "d58a680421ab",
    "parquet folder": "fe63a6d791d0",
    "parquet file": "f86a861fd3f0",
}


def test_what_the_version_stands_for_is_pinned(tmp_path, monkeypatch):
    """Where this fails, readers give something new: raise VERSION and pin the new digests."""
    digits = np.arange(5000)[:, None] % 256 * np.ones((1, 784)), np.arange(5000) // 500
    monkeypatch.setattr(local, "mnist_data", lambda: digits)
    digests = {}
    for kind in ("mnist5k", *SOURCES):
        source = kind if kind == "mnist5k" else str(SOURCES[kind](tmp_path / kind))
        loaded, digest = load(source), hashlib.sha256()
        for part in (loaded.train, loaded.test):
            digest.update(repr((part.images.shape, part.classes)).encode())
            for tensor in (part.images, part.labels, part.ids):
                digest.update(tensor.contiguous().numpy().tobytes())
        digests[kind] = digest.hexdigest()[:12]
    assert (cache.VERSION, digests) == (4, DIGESTS)


@pytest.mark.parametrize("share", [0.0, 0.005, 0.5, 0.999])
def test_a_truncated_entry_is_decoded_anew_and_replaced(share, tmp_path):
    kept(tmp_path)
    [entry] = entries()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: int(share * len(whole))])
    assert kept(tmp_path, 2).train.images.max() == 2
    assert kept(tmp_path, 3).train.images.max() == 2
    assert entries() == [entry]


DAMAGES = {
    "a field is missing": lambda fields: fields.pop("train.ids"),
    "images are floats": lambda fields: fields.update({
        "train.images": fields["train.images"].float()
    }),
    "images are flat": lambda fields: fields.update({
        "train.images": fields["train.images"].flatten(1)
    }),
    "splits differ in size": lambda fields: fields.update({
        "test.images": fields["test.images"].repeat(1, 1, 2, 2)
    }),
    "a label is no class": lambda fields: fields["test.labels"].fill_(9),
    "there are too few labels": lambda fields: fields.update({
        "train.labels": fields["train.labels"][:1]
    }),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_that_is_no_image_set_is_decoded_anew(damage, tmp_path):
    kept(tmp_path)
    [entry] = entries()
    with safe_open(entry, "pt") as stored:
        fields = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
        metadata = stored.metadata()
    DAMAGES[damage](fields)
    save_file(fields, entry, metadata)
    assert kept(tmp_path, 2).train.images.max() == 2
    assert kept(tmp_path, 3).train.images.max() == 2


@pytest.mark.parametrize("metadata", [None, {}, {"name and classes": "no json"}])
def test_an_entry_without_classes_is_decoded_anew(metadata, tmp_path):
    kept(tmp_path)
    [entry] = entries()
    with safe_open(entry, "pt") as stored:
        fields = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    save_file(fields, entry, metadata)
    assert kept(tmp_path, 2).train.images.max() == 2


def test_a_folder_that_cannot_be_made_is_no_fault(tmp_path, home):
    home.touch()
    assert [kept(tmp_path, value).train.images.max() for value in (1, 2)] == [1, 2]


def test_a_user_without_a_home_is_no_fault(tmp_path, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert [kept(tmp_path, value).train.images.max() for value in (1, 2)] == [1, 2]


def test_a_full_disk_is_no_fault_and_nothing_is_left(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))  # bytes that a file may have
    try:
        values = [kept(tmp_path, value).train.images.max() for value in (1, 2)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert values == [1, 2]
    assert entries() == []


def test_faults_of_the_decoder_are_not_hidden(tmp_path):
    (tmp_path / "a").touch()

    def fail():
        raise OSError("broken disk")

    with pytest.raises(OSError, match="broken disk"):
        cached(fail, files=[tmp_path / "a"], arguments=[])


def test_what_was_used_longest_ago_makes_room(tmp_path, monkeypatch):
    names = {}
    for age, name in enumerate("abc"):
        kept(tmp_path, name=name)
        [names[name]] = set(entries()) - set(names.values())
        os.utime(names[name], (1000 + age, 1000 + age))
    left = cache_folder() / "decoded-0.tmp"  # by a killed process
    left.write_bytes(b"some")
    os.utime(left, (10, 10))
    other = cache_folder() / "notes.txt"
    other.touch()
    kept(tmp_path, name="a")
    monkeypatch.setattr(cache, "MAX_BYTES", 3 * names["a"].stat().st_size)
    kept(tmp_path, name="d")
    assert set(entries()) > {names["a"], names["c"], other}
    assert not names["b"].exists()
    assert not left.exists()
    assert len(entries()) == 4


def write_until_stopped(entry: Path, value: int) -> int:
    images = torch.full((5000, 1, 8, 8), value, dtype=torch.uint8)
    rows = torch.arange(5000)
    train, test = (
        ImageSet(images.clone(), rows % 2, rows.clone(), ("a", "b"), "toy") for _ in range(2)
    )
    splits = Splits(train, test)
    while not entry.with_name("stop").exists():
        cache._write(splits, entry)
    return 0


def test_two_processes_that_write_at_once_leave_whole_entries(tmp_path):
    entry = tmp_path / "decoded-0.safetensors"
    writers = [child(partial(write_until_stopped, entry, value)) for value in (1, 2)]
    seen = []
    try:
        while len(seen) < 100 or len(set(seen)) < 2:
            assert [ended(writer, within=0) for writer in writers] == [None, None]
            if entry.exists():
                found = cache._read(entry)
                assert found is not None
                seen += found.train.images.unique().tolist()
    finally:
        (tmp_path / "stop").touch()
        codes = [ended(writer, within=None) for writer in writers]
    assert codes == [0, 0]
    assert set(seen) == {1, 2}
    assert {file.name for file in tmp_path.iterdir()} == {entry.name, "stop"}
