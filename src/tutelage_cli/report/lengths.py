"""Fields that must be of one length."""

import numpy as np


def same_length(owner: str, length: int, **fields: tuple | np.ndarray | None) -> None:
    """Refuse fields that do not hold ``length`` values."""
    for name, values in fields.items():
        if values is not None and len(values) != length:
            raise ValueError(f"{owner}: {name} holds {len(values)} values, expected {length}.")
