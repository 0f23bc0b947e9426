"""Tests of folders with one folder of images for each class."""

import pytest
from PIL import Image

from tests.cli.data.folders import read_folders
from tutelage.errors import UsageError


def picture(path, value=0, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).save(path, "PNG")


def test_classes_and_files_come_in_sorted_order_at_any_depth(tmp_path):
    for place, name in enumerate(["dog/d0.png", "dog/deep/d1.png", "dog/x.PNG", "cat/c0.png"]):
        picture(tmp_path / name, place)
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").mkdir()
    train, test = read_folders(tmp_path)
    assert train.classes == ("cat", "dog")
    assert list(train.labels) == ["cat", "dog", "dog", "dog"]
    assert train.images[:, 0, 0, 0].tolist() == [3, 0, 1, 2]
    assert test is None


@pytest.mark.parametrize("name", ["test", "validation", "val"])
def test_a_test_folder_is_read_with_the_classes_of_train(tmp_path, name):
    for place in ["train/cat", "train/dog", f"{name}/dog"]:
        picture(tmp_path / place / "a.png")
    train, test = read_folders(tmp_path)
    assert test is not None
    assert test.classes == train.classes == ("cat", "dog")
    assert list(test.labels) == ["dog"]


def test_empty_class_folders_are_named(tmp_path):
    picture(tmp_path / "train" / "cat" / "a.png")
    (tmp_path / "train" / "empty_class").mkdir()
    (tmp_path / "train" / "only_text").mkdir()
    (tmp_path / "train" / "only_text" / "readme.txt").write_text("none")
    with pytest.raises(UsageError, match="without images: empty_class, only_text; fill or"):
        read_folders(tmp_path)


def test_a_class_that_train_lacks_is_named(tmp_path):
    for place in ["train/cat", "train/dog", "test/dogs"]:
        picture(tmp_path / place / "a.png")
    with pytest.raises(
        UsageError, match=r"class 'dogs', which train lacks. Did you mean 'dog'"
    ):
        read_folders(tmp_path)


def test_a_broken_image_is_named_with_its_full_path(tmp_path):
    picture(tmp_path / "cat" / "a.png")
    broken = tmp_path / "dog" / "b.png"
    picture(broken)
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(UsageError, match="cannot be read as an image") as caught:
        read_folders(tmp_path)
    assert str(broken) in str(caught.value)


def test_folders_without_images_are_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no class folders"):
        read_folders(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(
        UsageError, match=r"no images in its folders \(cat\); endings read: .bmp"
    ):
        read_folders(tmp_path)


def test_brackets_blanks_and_accents_in_paths_are_plain_letters(tmp_path):
    root = tmp_path / "path with spaces [v1] (copy)" / "données"
    picture(root / "a" / "x 1.png", 5)
    picture(root / "b*" / "y#2%20.png", 6)
    train, _ = read_folders(root)
    assert train.classes == ("a", "b*")
    assert train.images[:, 0, 0, 0].tolist() == [5, 6]


def test_a_class_name_of_two_lines_leaves_the_message_one(tmp_path):
    for part, name in (("train", "a\nb"), ("train", "c"), ("test", "d\ne")):
        picture(tmp_path / part / name / "1.png")
    with pytest.raises(UsageError, match=r"class 'd\\ne', which .*Allowed: a\\nb, c") as raised:
        read_folders(tmp_path)
    assert "\n" not in str(raised.value)
    (tmp_path / "train" / "d\ne").mkdir()
    with pytest.raises(UsageError, match=r"without images: d\\ne;") as raised:
        read_folders(tmp_path)
    assert "\n" not in str(raised.value)
