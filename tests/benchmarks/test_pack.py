"""What is packed for a machine without a package index is found there, and small."""

import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Features, Image
from PIL import Image as Pillow

from benchmarks.pack import LIMIT, pack_data, size
from benchmarks.unpack import unpack
from tutelage_cli.data.local import load_known


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), np.uint8)
    made = io.BytesIO()
    Pillow.fromarray(pixels.repeat(8, 0).repeat(8, 1)).save(made, "PNG")
    return made.getvalue()


def lay_out(folder, rows: int) -> None:
    features = Features({"image": Image(), "label": ClassLabel(names=["cat", "dog"])})
    for name in ("cifar10", "mnist"):
        (folder / name).mkdir(parents=True)
        for split in ("train", "test"):
            content = {
                "image": [{"bytes": png(n), "path": None} for n in range(rows)],
                "label": [n % 2 for n in range(rows)],
            }
            table = pa.table(content, schema=features.arrow_schema)
            pq.write_table(table, folder / name / f"{split}-00000-of-00001.parquet")


def test_the_packed_data_are_found_with_their_classes_and_nearly_their_pixels(
    tmp_path, monkeypatch
) -> None:
    lay_out(tmp_path / "data", rows=6)
    pack_data(tmp_path / "data", tmp_path / "packed", quality=86, images=4)
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path / "data"))
    before = load_known("cifar10")
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path / "packed"))
    after = load_known("cifar10")
    assert after.train.classes == ("cat", "dog")
    assert [len(after.train.labels), len(after.test.labels)] == [4, 4]
    assert after.train.labels.tolist() == before.train.labels[:4].tolist()
    gap = (after.train.images.float() - before.train.images[:4].float()).abs().mean()
    assert 0 < float(gap) < 10  # of 255: blocks of noise are hard for JPEG
    assert len(load_known("mnist").train.labels) == 6  # as it is


def test_the_size_of_a_pack_counts_every_file(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(100))
    (tmp_path / "y").write_bytes(bytes(11))
    assert size(tmp_path) == 111
    assert LIMIT == 45 * 2**20


def test_only_wheels_whose_package_is_missing_are_unpacked(tmp_path) -> None:
    for name in ("torch", "surely_not_installed"):
        with zipfile.ZipFile(tmp_path / f"{name}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "")
    done = unpack(tmp_path, tmp_path / "site")
    assert done == ["surely_not_installed-1-py3-none-any.whl"]
    assert (tmp_path / "site" / "surely_not_installed" / "__init__.py").is_file()
    assert not (tmp_path / "site" / "torch").exists()
