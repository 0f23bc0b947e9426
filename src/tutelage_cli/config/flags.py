"""Settings by their flags, so that messages name what is typed."""

from typing import Any


def flag(name: str) -> str:
    """The flag of a setting: ``--held-out`` for ``held_out``."""
    return f"--{name.replace('_', '-')}"


class ByFlag:
    """Settings whose fields are read by their flags, for checks that name what they read."""

    def __init__(self, settings: object) -> None:
        self._settings = settings

    def __getattr__(self, flag: str) -> Any:
        return getattr(self._settings, flag.removeprefix("--").replace("-", "_"))
