"""Rows that a teacher keeps for examples, found by their ids."""

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage.validation.shapes import require_known_ids


def order_of(ids: Tensor) -> Int64[Tensor, "N"]:
    """The order in which ids rise; refuses what are none.

    Args:
        ids: Of N examples.

    Returns:
        Places in ``ids``.

    Raises:
        UsageError: If they are no whole numbers, negative, or one comes twice.
    """
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
    """Where the rows of some examples lie.

    Args:
        known: Rising ids of the kept rows [N].
        ids: Of the examples [L].
        lacking: What is not there where an example has no row, as the sentence begins.

    Returns:
        Their places in ``known``.

    Note: raises ``UsageError`` where one has none; not on a GPU, which would wait.
    """
    rows = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
    require_known_ids(ids, known[rows] == ids, lacking)
    return rows
