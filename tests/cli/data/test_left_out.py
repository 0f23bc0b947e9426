"""What a reader leaves out is counted and named."""

from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from papers.data.published.imagenet import open_folder
from tests.cli.data.folders import read_folders
from tutelage.errors import UsageError
from tutelage_cli.data.sources import load
from tutelage_cli.data.text.own_tables import read_own_texts


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(path, kind="PNG"):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = sha256(str(path).encode()).digest()[:16]  # no two are copies of one another
    Image.frombytes("L", (4, 4), pixels).save(path, kind)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("jpe", "JPEG"),
        ("JFIF", "JPEG"),
        ("jif", "JPEG"),
        ("JPEG", "JPEG"),
        ("dib", "DIB"),
        ("tif", "TIFF"),
        ("webp", "WEBP"),
        ("bmp", "BMP"),
        ("gif", "GIF"),
        ("pgm", "PPM"),
        ("tga", "TGA"),
    ],
)
def test_half_of_a_class_under_another_ending_is_read(tmp_path, ending, kind):
    for name in ("cat/a.jpg", "dog/a.jpg"):
        picture(tmp_path / "set" / name, "JPEG")
    picture(tmp_path / "set" / "cat" / f"b.{ending}", kind)
    assert list(read_folders(tmp_path / "set")[0].labels) == ["cat", "cat", "dog"]


def test_other_endings_hidden_files_and_what_lies_beside_are_counted_and_named(tmp_path):
    root = tmp_path / "set"
    for part in ("train", "test", "val"):
        for name in ("cat/0.png", "cat/deep/er/1.png", "dog/0.png", "dog/1.png"):
            picture(root / part / name)
    for name in ("cat/0.heic", "cat/1.heic", "cat/.DS_Store", "dog/none", "loose.png"):
        (root / "train" / name).write_bytes(b"x")
    picture(root / "train" / "cat" / ".ipynb_checkpoints" / "0-checkpoint.png")
    (root / "train" / "dog" / "linked").symlink_to(root / "val")
    (root / "README.md").write_text("x")
    beside, inside = load(str(root)).notes
    assert beside == f"2 entries are left out of {root} (1 .md, 1 folder): README.md, val."
    assert inside == (
        f"7 entries are left out of {root / 'train'} "
        "(2 hidden, 2 .heic, 1 .png, 1 linked folder, 1 without ending): loose.png, "
        "cat/.DS_Store, cat/.ipynb_checkpoints, cat/0.heic, cat/1.heic and 2 more."
    )


def test_what_is_left_out_is_told_anew_when_images_come_from_the_cache(tmp_path, caplog):
    root = tmp_path / "set"
    for number in range(8):
        picture(root / "cd"[number % 2] / f"{number}.png")
    assert load(str(root)).notes == ()
    (root / "notes.txt").write_text("x")
    assert load(str(root)).notes == (f"1 entry is left out of {root} (1 .txt): notes.txt.",)
    caplog.clear()
    open_folder(root)
    assert "1 entry is left out" in caplog.text


def test_a_link_that_leads_nowhere_is_a_broken_image(tmp_path):
    picture(tmp_path / "set" / "cat" / "0.png")
    (tmp_path / "set" / "cat" / "1.png").symlink_to("gone.png")
    with pytest.raises(UsageError, match=r"1\.png .* cannot be read as an image"):
        read_folders(tmp_path / "set")


def test_a_class_of_unknown_endings_says_what_is_there(tmp_path):
    picture(tmp_path / "cat" / "0.png")
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / "0.heic").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"without images: dog; .* Files there: \.heic\."):
        read_folders(tmp_path)


def test_tables_that_are_not_read_are_named(tmp_path):
    rows = "text,label\n" + "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(10))
    for name in ("train", "test", "val", "more"):
        (tmp_path / f"{name}.csv").write_text(rows)
    assert read_own_texts(str(tmp_path), ("text",)).notes == (
        f"2 entries are left out of {tmp_path} (2 .csv): more.csv, val.csv.",
    )
    table = pa.table({"text": ["a"] * 9, "label": [0, 1, 0] * 3})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_own_texts(str(tmp_path), ("text",)).notes == (
        f"4 entries are left out of {tmp_path} (4 .csv): more.csv, test.csv, train.csv, "
        "val.csv.",
    )


def test_classes_that_judge_nothing_are_named(tmp_path):
    rows = [*"aab" * 4, "c"]
    text = "text,label\n" + "".join(f"t{n},{y}\n" for n, y in enumerate(rows))
    (tmp_path / "train.csv").write_text(text)
    assert read_own_texts(str(tmp_path), ("text",)).notes == ("No test example is of class c.",)
    (tmp_path / "test.csv").write_text("text,label\nx,a\n")
    assert read_own_texts(str(tmp_path), ("text",)).notes == (
        "No test example is of class b, c.",
    )
