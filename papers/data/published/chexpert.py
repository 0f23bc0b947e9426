"""CheXpert: chest X-rays, each labelled by one finding."""

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from papers.data.published.layout import found, held_out_share, read_pictures
from tutelage.errors import UsageError, require_known
from tutelage_cli.data.columns import FIRST, listed
from tutelage_cli.data.csv_files import read_csv
from tutelage_cli.data.images import Described, ImageSet, ThreeParts
from tutelage_cli.data.resize import Size

_NAME = "CheXpert"
_GET = "give the folder CheXpert-v1.0 or CheXpert-v1.0-small, as its zip file unpacks"
_PATIENT = re.compile(r"(?:^|/)(?P<split>train|valid)/(?P<patient>patient(?P<number>\d+))/")
_ANSWERS = {"": 0, "0": 0, "1": 1, "-1": -1}


def read_chexpert(
    root: Path, finding: str, size: Size, *, held_out: float, seed: int
) -> ThreeParts:
    """Frontal chest X-rays with and without a finding.

    A finding that a report does not mention counts as absent; images whose finding is
    uncertain are left out (U-Ignore).

    Source: Irvin et al., 2019, "CheXpert: A Large Chest Radiograph Dataset", section 3.
    """
    learned, test = (_part(root, name, finding, size) for name in ("train.csv", "valid.csv"))
    kept, judged = held_out_share(learned.facts["patient"], held_out, seed=seed)
    return ThreeParts(learned.rows(kept), learned.rows(judged), test)


def _part(root: Path, name: str, finding: str, size: Size) -> Described:
    file = found(root, name, dataset=_NAME, hint=_GET)
    columns = read_csv(file)
    for column in ("Path", "Frontal/Lateral", finding):
        require_known(f"{file} has no column", column, columns)
    answers = _answers(columns[finding], finding, file)
    frontal = torch.tensor([view == "Frontal" for view in columns["Frontal/Lateral"]])
    rows = (frontal & (answers >= 0)).nonzero().flatten()
    labels = answers[rows]
    matches = [_matched(columns["Path"][row], row, file) for row in rows.tolist()]
    # The csv files name the folder that is given first: whatever it is called now, it is root.
    paths = [root / match.string[match.start("split") :] for match in matches]
    images = read_pictures(paths, size, channels=1, where=f"the frontal ones of {file}")
    patients = torch.tensor([int(match["number"]) for match in matches])
    classes = ("absent", "present")
    name = f"{_NAME}, {finding}"
    return Described(ImageSet(images, labels, rows, classes, name), {"patient": patients})


def _answers(texts: Sequence[str], finding: str, file: Path) -> Tensor:
    plain = [text.strip().removesuffix(".0") for text in texts]
    for row, text in enumerate(plain):
        if text not in _ANSWERS:
            raise UsageError(
                f"{listed([row + FIRST])} of {file} has '{texts[row]}' for {finding}; "
                "allowed: 1.0, 0.0, -1.0 or nothing."
            )
    return torch.tensor([_ANSWERS[text] for text in plain])


def _matched(path: str, row: int, file: Path) -> re.Match[str]:
    match = _PATIENT.search(path)
    if match is None:
        raise UsageError(
            f"{listed([row + FIRST])} of {file} has the path '{path}'; allowed: one with "
            "train/patient and a number, or valid/patient. Unpack the list again."
        )
    return match
