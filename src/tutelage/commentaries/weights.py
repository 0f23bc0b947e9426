"""A teacher's tensors as one safetensors file, in which what is shared lies once."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tutelage.errors import UsageError

_SHOWN = 5
"""names listed in a message"""
TIED = "tied"
"""metadata: from the names that are left out to those of the same tensor that are kept"""


def packed_weights(teacher: nn.Module) -> bytes:
    """The teacher's parameters and buffers.

    Args:
        teacher: The teacher.

    Returns:
        The content of a safetensors file; of names that share a tensor one is kept.

    Note: raises ``UsageError`` where two tensors share memory only in part.
    """
    state = teacher.state_dict()
    tied = _tied(state)
    kept = {k: _own(v) for k, v in state.items() if k not in tied}
    return save(kept, {TIED: json.dumps(tied)} if tied else None)


def unpacked_weights(file: Path) -> dict[str, Tensor]:
    """What ``packed_weights`` gave, read without running code.

    Args:
        file: The file.

    Returns:
        The tensors by name; names that shared a tensor do so again.

    Raises:
        ValueError: If the names of shared tensors are damaged. What safetensors raises of a
            damaged file, too.
    """
    with safe_open(file, "pt") as stored:
        metadata, tensors = stored.metadata() or {}, stored.get_tensors()
    tied = json.loads(metadata.get(TIED, "{}"))
    if not isinstance(tied, dict) or tied.keys() & tensors.keys():
        raise ValueError(f"its {TIED} names are damaged")
    for name, kept in tied.items():
        if not isinstance(kept, str) or kept not in tensors:
            raise ValueError(f"its {TIED} name {name!r:.50} is damaged")
    return tensors | {name: tensors[kept] for name, kept in tied.items()}


def refuse_other_tensors(made: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not those of a teacher.

    Args:
        made: Those of the teacher, by name; perhaps without values.
        stored: Those of the file.

    Raises:
        UsageError: If one is missing, too many, of another shape or type, or not finite; names
            that differ in what stands before them are told as such.
    """
    damaged = "the weights are damaged:"
    lacking, others = (sorted(a.keys() - b.keys()) for a, b in ((made, stored), (stored, made)))
    if others and (prefix := _prefix(made, others)):
        raise UsageError(
            f"{damaged} names begin with '{prefix}', such as '{others[0]}'. Store the teacher "
            "itself, not what wraps it, or take that away."
        )
    if lacking:
        raise UsageError(f"{damaged} they lack {_few(lacking)}, which the teacher has.")
    if others:
        raise UsageError(f"{damaged} they have {_few(others)}, which the teacher lacks.")
    for key, tensor in stored.items():
        if fault := _fault(made[key], tensor):
            raise UsageError(f"{damaged} {key} {fault}.")


def _fault(made: Tensor, stored: Tensor) -> str:
    if stored.shape != made.shape:
        shapes = tuple(stored.shape), tuple(made.shape)
        return f"has shape {shapes[0]}, but the teacher's has {shapes[1]}"
    if stored.is_floating_point() != made.is_floating_point():
        return f"is {stored.dtype}, but the teacher's {made.dtype}"
    wrong = int((~stored.isfinite()).sum()) if stored.is_floating_point() else 0
    return f"holds {wrong} numbers that are not finite, of {stored.numel()}" if wrong else ""


def _prefix(made: Mapping[str, Tensor], others: Sequence[str]) -> str:
    # what stands before the teacher's own names in all that are others
    for name in made:
        prefix = others[0].removesuffix(name)
        if prefix.endswith(".") and all(
            other.startswith(prefix) and other.removeprefix(prefix) in made for other in others
        ):
            return prefix
    return ""


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def fill(teacher: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give a teacher stored weights; names that share one tensor become one parameter.

    Args:
        teacher: The teacher, perhaps on the meta device.
        tensors: By the names of its parameters and buffers.
    """
    learnt = {name for name, _ in teacher.named_parameters(remove_duplicate=False)}
    made: dict[int, nn.Parameter] = {}
    state: dict[str, Tensor] = dict(tensors)
    for name in learnt & tensors.keys():
        tensor = tensors[name]
        state[name] = made.setdefault(id(tensor), nn.Parameter(tensor, requires_grad=False))
    teacher.load_state_dict(state, assign=True)
    teacher.requires_grad_()


def _own(tensor: Tensor) -> Tensor:
    # safetensors refuses parts of one storage, even where they do not overlap
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _tied(state: dict[str, Tensor]) -> dict[str, str]:
    tied: dict[str, str] = {}
    kept: list[tuple[str, Tensor, int, int]] = []
    for name, tensor in state.items():
        start, end = _reach(tensor)
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


def _reach(tensor: Tensor) -> tuple[int, int]:
    # first byte and end of the memory that a tensor spans
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    last = sum(
        (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return start, start + (last + 1) * tensor.element_size()
