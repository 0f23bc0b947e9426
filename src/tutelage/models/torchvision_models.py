"""Torchvision's classification models as students, untrained.

Torchvision takes seconds to import, so it is imported when a model is built.
"""

from torch import nn

from tutelage.errors import MissingExtraError, UsageError, require_known

# In training these two also give the logits of extra heads, without these arguments.
_PLAIN_OUTPUT: dict[str, dict[str, bool]] = {
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}


def torchvision_names() -> list[str]:
    """The names of torchvision's classification models."""
    try:
        import torchvision  # costs seconds, and only the extra `train` brings it
    except ModuleNotFoundError as error:
        raise MissingExtraError("torchvision", "train") from error
    return torchvision.models.list_models(module=torchvision.models)


def torchvision_model(name: str, *, classes: int, channels: int) -> nn.Module:
    """One of torchvision's classification models, untrained, for colour images.

    Args:
        name: Its name in torchvision, such as ``resnet18``.
        classes: Columns of the output.
        channels: Channels of an input image: 3, as torchvision's models take no other.

    Returns:
        The network, freshly initialised from torch's global generator.

    Raises:
        UsageError: If torchvision has no such model, or ``channels`` is not 3.

    Note:
        Most are meant for images of 224x224 pixels; the vision transformers refuse others.
    """
    names = torchvision_names()
    require_known("unknown torchvision model", name, names)
    if channels != 3:
        raise UsageError(
            f"torchvision's {name} takes images of 3 channels but the data have {channels};"
            " repeat a grey channel three times, or choose cnn or resnet32, which take any"
        )
    from torchvision.models import get_model  # costs seconds, and is optional

    return get_model(name, weights=None, num_classes=classes, **_PLAIN_OUTPUT.get(name, {}))
