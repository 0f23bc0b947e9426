"""The folder of what is computed again where it is lost."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder ``tutelage`` in the user's cache folder.

    Note: raises ``RuntimeError`` where the user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tutelage"
