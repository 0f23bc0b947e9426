"""Chest X-rays by one finding; no patient is in two parts."""

import pytest
import torch

from papers.data.published.chexpert import read_chexpert
from tests.cli.data.published.layouts import HEADER, chexpert, lines
from tutelage.errors import UsageError
from tutelage_cli.data.resize import Size


def read(root, finding="Cardiomegaly"):
    return read_chexpert(root, finding, Size(10, 12), held_out=0.25, seed=0)


def test_frontal_pictures_are_read_with_their_patients(tmp_path):
    parts = read(chexpert(tmp_path))
    assert [len(part) for part in parts] == [5, 2, 2]
    assert parts.train.images.images.shape == (5, 1, 10, 12)
    assert parts.train.images.classes == ("absent", "present")
    both = torch.cat([part.facts["patient"] for part in parts[:2]])
    assert sorted(both.tolist()) == [1, 2, 4, 5, 6, 7, 8]  # the third is uncertain
    assert parts.test.facts["patient"].tolist() == [64540, 64541]
    assert parts.test.images.labels.tolist() == [0, 1]
    for part in parts[:2]:
        grey = part.images.images.float().mean((1, 2, 3))
        assert (grey - (20 + part.images.ids)).abs().max() < 3  # JPEG


def test_what_is_uncertain_is_left_out_and_what_is_not_mentioned_is_absent(tmp_path):
    parts = read(chexpert(tmp_path))
    found = {
        patient: label
        for part in parts[:2]
        for patient, label in zip(
            part.facts["patient"].tolist(), part.images.labels.tolist(), strict=True
        )
    }
    assert found == {1: 1, 2: 0, 4: 0, 5: 1, 6: 0, 7: 0, 8: 1}


def test_the_folder_may_have_another_name_than_the_list_gives_it(tmp_path):
    home = chexpert(tmp_path)
    assert len(read(home.rename(tmp_path / "small")).train) == 5


def test_wrong_words_and_missing_files_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"holds no train.csv, .*CheXpert; give the folder"):
        read(tmp_path)
    home = chexpert(tmp_path)
    with pytest.raises(UsageError, match=r"no column 'cardio.*Did you mean 'Cardiomegaly'"):
        read(home, "cardiomegaly")
    with pytest.raises(UsageError, match=r"train.csv has no column 'Pneumonia'"):
        read(home, "Pneumonia")
    (home / "train/patient00004/study1/view1_frontal.jpg").unlink()
    with pytest.raises(UsageError, match=r"patient00004.*view1_frontal.jpg \(picture 3 of"):
        read(home)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "a/train/patient1/b.jpg,M,6,Frontal,AP,2.0,1.0",
            r"row 2 .* has '2.0' for Cardiomegaly",
        ),
        ("a/b.jpg,M,6,Frontal,AP,1.0,1.0", r"row 2 .* has the path 'a/b.jpg'; allowed"),
    ],
)
def test_rows_that_make_no_sense_are_named(row, message, tmp_path):
    home = chexpert(tmp_path)
    lines(home / "train.csv", [HEADER, row])
    with pytest.raises(UsageError, match=message):
        read(home)
