"""Vega's JavaScript for pages: bundled once, and kept in the user's cache folder."""

import hashlib
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.cache_folder import cache_folder

SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def vega_script() -> str:
    """The library as a script for a page.

    To bundle it takes a second. A folder that is damaged or out of reach is no fault: it is
    bundled again.
    """
    entry = _entry()
    kept = None if entry is None else _read(entry)
    if kept is not None:
        return kept
    text = vl_convert.javascript_bundle(SNIPPET)
    assert not re.search(r"</script|<!--", text, re.IGNORECASE)
    if entry is not None:
        with suppress(OSError):
            entry.parent.mkdir(parents=True, exist_ok=True)
            content = text.encode()
            write_atomically(entry, _digest(content) + content)
    return text


def _entry() -> Path | None:
    release = version("vl-convert-python")
    key = hashlib.sha256(f"{release} {SNIPPET}".encode()).hexdigest()
    try:
        return cache_folder() / f"vega-{key[:16]}.js"
    except RuntimeError:  # the user has no home
        return None


def _read(entry: Path) -> str | None:
    try:
        digest, line, content = entry.read_bytes().partition(b"\n")
        return content.decode() if digest + line == _digest(content) else None
    except (OSError, UnicodeDecodeError):
        return None


def _digest(content: bytes) -> bytes:
    return f"// {hashlib.sha256(content).hexdigest()}\n".encode()
