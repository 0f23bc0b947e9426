"""Copies that are made once for the same content, and kept in a file."""

import hashlib
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from papers.text_augment.substitution import Substitution
from tutelage.storage.atomic_files import write_atomically


def kept(
    substitution: Substitution, inputs: Tensor, sides: Tensor, *, seed: int, folder: Path
) -> Tensor:
    """Copies of texts, from the folder where they were made before.

    The file's name depends on the texts, the weights of the language model, the settings and
    the seed. A broken file is written anew.
    """
    file = folder / f"{_name(substitution, inputs, sides, seed)}.safetensors"
    if file.is_file():
        try:
            return load_file(file)["copies"]
        except (SafetensorError, KeyError):
            file.unlink()
    copies = substitution(inputs, sides, seed=seed).contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, save({"copies": copies}))
    return copies


def _name(of: Substitution, inputs: Tensor, sides: Tensor, seed: int) -> str:
    found = hashlib.sha256(f"{of.copies} {of.share} {of.search} {of.separate} {seed}".encode())
    found.update(_bytes(inputs))
    found.update(_bytes(sides))
    found.update(_weights(of.model.model).encode())
    return found.hexdigest()[:32]


def _weights(model: nn.Module) -> str:
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(_bytes(tensor.float()))
    return found.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
