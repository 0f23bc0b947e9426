"""Arithmetic on tensors of which one dimension counts the rows of a batch."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def sum_over(values: Tensor, dims: Sequence[int]) -> Tensor:
    """Sum over dimensions, over none where there is none.

    Args:
        values: Any tensor.
        dims: Its dimensions to sum over.

    Returns:
        The sums.
    """
    return values.sum(tuple(dims)) if dims else values.clone()


def sum_rows(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Sum of matrix-vector products.

    Args:
        pairs: Matrices [rows, n] with vectors [n].

    Returns:
        [rows].
    """
    return torch.stack([matrix @ vector.to(matrix.dtype) for matrix, vector in pairs]).sum(0)


def row_dots(a: Tensor, b: Tensor, row_dim: int) -> Tensor:
    """Inner products row by row.

    Args:
        a: Any tensor.
        b: Of the same shape.
        row_dim: The dimension that counts rows.

    Returns:
        [rows].
    """
    a, b = a.movedim(row_dim, 0).flatten(1), b.movedim(row_dim, 0).flatten(1)
    return torch.bmm(a.unsqueeze(1), b.unsqueeze(2)).flatten()


def tensors_in(given: object) -> list[Tensor]:
    """The floating-point tensors in what a module gave, in order.

    Args:
        given: A tensor, or nested tuples, lists and mappings of them.

    Returns:
        Tensors.
    """
    if isinstance(given, Tensor):
        return [given] if given.is_floating_point() else []
    if isinstance(given, Mapping):
        return [t for part in given.values() for t in tensors_in(part)]
    if isinstance(given, (tuple, list)):
        return [t for part in given for t in tensors_in(part)]
    return []


def is_floating(value: object) -> bool:
    """Whether it is a tensor of floating-point numbers.

    Args:
        value: Anything.

    Returns:
        True if so.
    """
    return isinstance(value, Tensor) and value.is_floating_point()


def is_cuda(value: object) -> bool:
    """Whether it is a tensor on a CUDA device.

    Args:
        value: Anything.

    Returns:
        True if so.
    """
    return isinstance(value, Tensor) and value.is_cuda
