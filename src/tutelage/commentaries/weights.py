"""A teacher's tensors as a safetensors file, shared tensors stored once."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tutelage.errors import UsageError

TIED = "tied"
"""metadata: from the names that are left out to those of the same tensor that are kept"""


def packed_weights(teacher: nn.Module) -> bytes:
    """Serialise a teacher's parameters and buffers.

    Note: raises ``UsageError`` where two tensors share memory only in part.
    """
    state = teacher.state_dict()
    tied = _tied(state)
    # safetensors refuses parts of one storage, even where they do not overlap
    kept = {k: v.detach().cpu() for k, v in state.items() if k not in tied}
    kept = {k: v.clone(memory_format=torch.contiguous_format) for k, v in kept.items()}
    return save(kept, {TIED: json.dumps(tied)} if tied else None)


def unpacked_weights(file: Path) -> dict[str, Tensor]:
    """Read the tensors of ``packed_weights``."""
    with safe_open(file, "pt") as stored:
        metadata, tensors = stored.metadata() or {}, stored.get_tensors()
    tied = json.loads(metadata.get(TIED, "{}"))
    if not isinstance(tied, dict) or tied.keys() & tensors.keys():
        raise ValueError(f"its {TIED} names are damaged")
    for name, kept in tied.items():
        if not isinstance(kept, str) or kept not in tensors:
            raise ValueError(f"its {TIED} name {name!r:.50} is damaged")
    return tensors | {name: tensors[kept] for name, kept in tied.items()}


def require_finite(stored: Mapping[str, Tensor]) -> None:
    """Raise if a stored tensor is not finite."""
    for name, tensor in stored.items():
        wrong = int((~tensor.isfinite()).sum()) if tensor.is_floating_point() else 0
        if wrong:
            raise UsageError(
                f"the weights are damaged: {name} holds {wrong} numbers that are not finite, "
                f"of {tensor.numel()}."
            )


def load_tied(teacher: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load stored tensors into a teacher; names of one shared tensor become one parameter."""
    learned = {name for name, _ in teacher.named_parameters(remove_duplicate=False)}
    made: dict[int, nn.Parameter] = {}
    state: dict[str, Tensor] = dict(tensors)
    for name in learned & tensors.keys():
        tensor = tensors[name]
        state[name] = made.setdefault(id(tensor), nn.Parameter(tensor, requires_grad=False))
    teacher.load_state_dict(state, assign=True)
    teacher.requires_grad_()


def _tied(state: dict[str, Tensor]) -> dict[str, str]:
    tied: dict[str, str] = {}
    kept: list[tuple[str, Tensor, int, int]] = []
    for name, tensor in state.items():
        start, end = _memory_span(tensor)
        for other, known, known_start, known_end in kept:
            if _same(tensor, known):
                tied[name] = other
                break
            if start < known_end and known_start < end and tensor.device == known.device:
                raise UsageError(
                    f"{other} and {name} of the teacher share a part of their memory, which a "
                    "commentary cannot keep: give each its own (clone), or make them one."
                )
        else:
            kept.append((name, tensor, start, end))
    return tied


def _same(one: Tensor, other: Tensor) -> bool:
    return (
        one.numel() > 0
        and one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype == other.dtype
        and one.device == other.device
    )


def _memory_span(tensor: Tensor) -> tuple[int, int]:
    # first byte and end of the memory that a tensor spans
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    last = sum(
        (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return start, start + (last + 1) * tensor.element_size()
