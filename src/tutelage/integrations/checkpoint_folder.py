"""A tutor's file in a framework's checkpoint folder."""

import re
from pathlib import Path
from typing import Any

import torch

from tutelage.errors import UsageError
from tutelage.storage.checkpoint import DAMAGE, load_checkpoint, name_damaged_file

_CPU = torch.device("cpu")
_NUMBERED = re.compile(r"(.*\D)(\d+)")
"""a folder of checkpoints, such as checkpoint-200 or checkpoint_3"""


def read_tutor_file(file: Path) -> dict[str, Any]:
    """Read a tutor's file, with errors that name another usable checkpoint."""
    if not file.is_file():
        raise UsageError(
            f"{file} is missing: that checkpoint knows of no teacher. {_another(file)}"
        )
    with name_damaged_file(file, _another(file)):
        return load_checkpoint(file, _CPU)


def _another(file: Path) -> str:
    for folder in _others(file.parent):
        try:
            load_checkpoint(folder / file.name, _CPU)
        except (*DAMAGE, OSError):
            continue
        return f"The newest checkpoint that is whole is {folder}: go on from that."
    return "There is no other checkpoint beside it that is whole: begin anew."


def _others(folder: Path) -> list[Path]:
    # from the newest to the oldest
    own = _NUMBERED.fullmatch(folder.name)
    if own is None:
        return []
    found = [
        (int(other[2]), path)
        for path in folder.parent.iterdir()
        if path != folder and (other := _NUMBERED.fullmatch(path.name)) and other[1] == own[1]
    ]
    return [path for _, path in sorted(found, reverse=True)]
