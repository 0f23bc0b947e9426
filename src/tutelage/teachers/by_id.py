"""Rows that a teacher keeps for examples, found by their ids."""

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage.validation.shapes import require_known_ids


def order_of(ids: Tensor) -> Int64[Tensor, "N"]:
    """The order of ids; a ``UsageError`` unless they are distinct whole numbers from 0."""
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise UsageError(f"ids are {ids.dtype}; give whole numbers, such as torch.int64.")
    order = ids.long().argsort()
    if ids.is_meta:
        return order
    known = ids.long()[order]
    twice = known[1:][known[1:] == known[:-1]]
    wrong = torch.cat([known[known < 0], twice]).unique()
    if len(wrong):
        raise UsageError(
            f"ids {first_few(wrong.tolist())} are negative or come twice; give each example "
            "one of its own, 0 and above."
        )
    return order


def rows_of(known: Tensor, ids: Tensor, lacking: str) -> Int64[Tensor, "L"]:
    """The places [L] of examples among rising ids [N].

    ``lacking`` begins the message of the ``UsageError`` where one has none; on a GPU, which
    would wait, there is none.
    """
    rows = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
    require_known_ids(ids, known[rows] == ids, lacking)
    return rows
