"""Faces in the official parts, with all their attributes."""

import pytest
import torch

from papers.data.published.celeba import attribute_names, read_celeba
from tests.cli.data.published.layouts import ATTRIBUTES, celeba, lines
from tutelage.errors import UsageError
from tutelage_cli.data.resize import Size

SIZE = Size(8, 8)


@pytest.mark.parametrize("folders", [("", "", ""), ("Img", "Anno", "Eval")])
def test_faces_have_the_attributes_that_the_list_says(folders, tmp_path):
    root = celeba(tmp_path, folders)
    assert attribute_names(root) == ATTRIBUTES
    parts = read_celeba(root, "Eyeglasses", SIZE, most=None)
    for place, part in enumerate(parts):
        numbers = torch.arange(1, 4) + 3 * place
        bits = torch.stack([numbers >> bit & 1 for bit in range(3)], 1)
        assert torch.equal(part.facts["attributes"], bits.bool())
        assert torch.equal(part.images.labels, bits[:, 1])
        assert part.images.ids.tolist() == (numbers - 1).tolist()
        red = part.images.images[:, 0].float().mean((1, 2))
        assert (red - 20 * numbers).abs().max() < 6  # JPEG
    assert parts.train.images.classes == ("no", "yes")


def test_the_first_faces_of_each_part_may_be_enough(tmp_path):
    root = celeba(tmp_path)
    parts = read_celeba(root, "Smiling", SIZE, most=2)
    assert [part.images.ids.tolist() for part in parts] == [[0, 1], [3, 4], [6, 7]]
    with pytest.raises(UsageError, match=r"0 images of each part are too few"):
        read_celeba(root, "Smiling", SIZE, most=0)


def test_what_is_missing_unknown_or_broken_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no list_attr_celeba.txt or Anno/list.*; put list"):
        attribute_names(tmp_path)
    root = celeba(tmp_path)
    with pytest.raises(UsageError, match=r"no attribute 'Smile'. Did you mean 'Smiling'"):
        read_celeba(root, "Smile", SIZE, most=None)
    (root / "img_align_celeba/000002.jpg").write_bytes(b"no picture")
    with pytest.raises(UsageError, match=r"000002.jpg \(picture 2 of part 0 of list_eval"):
        read_celeba(root, "Smiling", SIZE, most=None)
    (root / "img_align_celeba").rename(root / "faces")
    with pytest.raises(UsageError, match=r"no img_align_celeba or .*unpack img_align"):
        read_celeba(root, "Smiling", SIZE, most=None)
    lines(root / "list_eval_partition.txt", ["000001.jpg 0"])
    with pytest.raises(UsageError, match=r"lists other files than list_attr_celeba.txt"):
        read_celeba(root, "Smiling", SIZE, most=None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["2", "a b", "1.jpg 1 -1"], "says 2 images and lists 1"),
        (["0"], "says 0 images and lists 0"),
        (["1", "a b", "1.jpg 1"], "line 3 of .* does not give a file and 2 attributes"),
        (["1", "a b", "1.jpg 1 0"], "line 3 of .* each 1 or -1"),
    ],
)
def test_a_broken_list_is_named(rows, message, tmp_path):
    lines(tmp_path / "list_attr_celeba.txt", rows)
    with pytest.raises(UsageError, match=message):
        attribute_names(tmp_path)
