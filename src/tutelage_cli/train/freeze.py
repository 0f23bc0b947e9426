"""Features of a frozen pretrained network, computed once and cached by content."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.models.backbones import PretrainedTransform
from tutelage.models.sentence_vectors import sentence_vectors
from tutelage.randomness import seeded
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.cache import cached_rows
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet, without_padding
from tutelage_cli.terminal import Pace
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import BAG, backbone_of

VERSION = 1
"""raised when the same network and examples give other features"""
CHUNK = 1024
"""examples with features in one file of the cache"""
BATCH_SIZE = 64
"""examples in a batch"""
REPORT_EVERY = 10.0
"""seconds between two progress lines"""
Notify = Callable[[str], None]
"""is called with a line of progress"""


@dataclass(frozen=True)
class Extractor:
    """A frozen network with its preprocessing."""

    network: nn.Module
    """from the data's inputs to features [B, D], in evaluation mode"""
    width: int
    """D"""
    digest: str
    """of its weights and its preprocessing"""

    @torch.no_grad()
    def features(self, inputs: Tensor, device: torch.device) -> Tensor:
        """Features of a few examples."""
        order = torch.arange(len(inputs))
        if inputs.dtype != torch.uint8:  # sorted by length
            order = inputs[:, 2].sum(1).argsort(stable=True)
        output = torch.empty(len(inputs), self.width)
        for rows in order.split(BATCH_SIZE):
            batch = inputs[rows].to(device)
            network_input = batch.float() / 255 if batch.dtype == torch.uint8 else batch.long()
            output[rows] = self.network(network_input).float().cpu()
        return output


def extractor(settings: TrainSettings, examples: ImageSet | TextSet) -> Extractor:
    """The network that the settings name, without its last layer, frozen."""
    if isinstance(examples, TextSet):
        if (settings.student or BAG) == BAG:
            raise UsageError(
                f"--freeze is about pretrained students, but {BAG} has no weights: give "
                "--student a folder of transformers."
            )
        network = sentence_vectors(Path(str(settings.student)).expanduser())
        preprocessing = f"{network.pooling} {network.normalised}"
        return Extractor(network, network.width, _digest(network, preprocessing))
    channels, height, width = examples.images.shape[1:]
    with seeded(0):
        backbone = backbone_of(settings, examples)
    if backbone.mean is None:  # a network that is trained on normalised images
        mean, std = (tuple(values.tolist()) for values in statistics(examples))
        backbone = backbone._replace(mean=mean, std=std)
    size = max(height, width)
    before = PretrainedTransform(torch.zeros(channels), torch.ones(channels), backbone, size)
    network = nn.Sequential(before, backbone.network).eval()
    preprocessing = f"{backbone.mean} {backbone.std} {before.side}"
    return Extractor(network, backbone.width, _digest(network, preprocessing))


def _digest(network: nn.Module, preprocessing: str) -> str:
    digest = hashlib.sha256(f"{VERSION} {type(network).__name__} {preprocessing}".encode())
    for name, value in sorted(network.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def frozen_features(
    settings: TrainSettings,
    parts: Sequence[ImageSet | TextSet],
    device: torch.device,
    notify: Notify,
    needed: Tensor | None = None,
) -> list[FeatureSet]:
    """Features of sets of examples, read from the cache where it has them.

    Rows of the first set that are neither needed nor cached are NaN.
    """
    model = extractor(settings, parts[0])
    model.network.to(device)
    rows = [torch.arange(len(part)) for part in parts]
    if needed is not None:
        rows[0] = needed
    progress = _Progress(notify, sum(map(len, rows)))
    return [
        _features(model, part, wanted, device, progress)
        for part, wanted in zip(parts, rows, strict=True)
    ]


def _features(
    model: Extractor,
    examples: ImageSet | TextSet,
    needed: Tensor,
    device: torch.device,
    progress: "_Progress",
) -> FeatureSet:
    inputs, is_needed = examples.tensors()[0], torch.zeros(len(examples), dtype=torch.bool)
    is_needed[needed] = True
    features = torch.empty(len(examples), model.width)
    for rows in torch.arange(len(examples)).split(CHUNK):
        chunk, wanted = inputs[rows], is_needed[rows].nonzero()[:, 0]

        def compute(missing: Tensor, chunk: Tensor = chunk) -> Tensor:
            progress.report()
            return model.features(_trim_padding(chunk[missing]), device)

        shape = (len(rows), model.width)
        features[rows] = cached_rows(compute, wanted, _key(model, _trim_padding(chunk)), shape)
        progress.done += len(wanted)
    return FeatureSet(
        features,
        examples.labels,
        examples.ids,
        examples.classes,
        examples.name,
        computed_from=examples,
        by=model.digest,
    )


class _Progress:
    """Reports the progress of features that are computed; cached ones do not count."""

    def __init__(self, notify: Notify, total: int) -> None:
        self.notify, self.total, self.done = notify, total, 0
        self.pace: Pace | None = None
        self.first, self.reported = 0, 0.0

    def report(self) -> None:
        """Report progress before a chunk is computed, every ``REPORT_EVERY`` seconds."""
        if self.pace is None:
            self.pace, self.first, remaining = Pace(), self.done, ""
        elif self.pace.seconds < self.reported + REPORT_EVERY:
            return
        else:
            done, total = self.done - self.first, self.total - self.first
            remaining = f", {self.pace.left(done, total)}"
        self.reported = self.pace.seconds
        self.notify(
            f"Computing features: {self.done:,} of {self.total:,} examples{remaining} ..."
        )


def _trim_padding(inputs: Tensor) -> Tensor:
    # padding that all texts have depends on texts of other chunks
    if inputs.dtype == torch.uint8:
        return inputs
    return without_padding(inputs).contiguous()


def _key(model: Extractor, chunk: Tensor) -> str:
    digest = hashlib.sha256(f"{model.digest} {tuple(chunk.shape)} {chunk.dtype}".encode())
    digest.update(chunk.numpy().tobytes())
    return digest.hexdigest()
