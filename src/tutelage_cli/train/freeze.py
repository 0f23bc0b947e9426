"""Features of a frozen pretrained network: computed once, kept by content, trained on."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.models.backbones import Prepared
from tutelage.models.sentence_vectors import sentence_vectors
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.cache import cached_rows
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.terminal import Pace
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import backbone_of
from tutelage_cli.train.texts import BAG

VERSION = 1
"""to be raised when the same network and examples come to give other features"""
CHUNK = 1024
"""examples whose features are kept in one file"""
AT_ONCE = 64
"""examples in a batch"""
TOLD_EVERY = 10.0
"""seconds between two lines on how far it is"""
Tell = Callable[[str], None]
"""is told how far it is, in a line"""


@dataclass(frozen=True)
class Extractor:
    """A frozen network with what comes before it."""

    network: nn.Module
    """from what ``inputs`` gives to features [B, D], in evaluation mode"""
    width: int
    """D"""
    digest: str
    """of its weights and its preprocessing"""

    @torch.no_grad()
    def features(self, inputs: Tensor, device: torch.device) -> Tensor:
        """Features of a few examples."""
        order = torch.arange(len(inputs))
        if inputs.dtype != torch.uint8:  # texts of like length together
            order = inputs[:, 2].sum(1).argsort(stable=True)
        made = torch.empty(len(inputs), self.width)
        for rows in order.split(AT_ONCE):
            batch = inputs[rows].to(device)
            shown = batch.float() / 255 if batch.dtype == torch.uint8 else batch.long()
            made[rows] = self.network(shown).float().cpu()
        return made


def extractor(settings: TrainSettings, of: ImageSet | TextSet) -> Extractor:
    """The network that the settings name, without its last layer, frozen."""
    if isinstance(of, TextSet):
        if (settings.student or BAG) == BAG:
            raise UsageError(
                f"freeze is about pretrained students, but {BAG} has no weights: give "
                "--student a folder of transformers."
            )
        network = sentence_vectors(Path(str(settings.student)).expanduser())
        told = f"{network.pooling} {network.normalised}"
        return Extractor(network, network.width, _digest(network, told))
    channels, height, width = of.images.shape[1:]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        backbone = backbone_of(settings, of)
    if backbone.mean is None:  # a network that is trained on normalised images
        mean, std = (tuple(values.tolist()) for values in statistics(of))
        backbone = backbone._replace(mean=mean, std=std)
    size = max(height, width)
    before = Prepared(torch.zeros(channels), torch.ones(channels), backbone, size)
    network = nn.Sequential(before, backbone.network).eval()
    told = f"{backbone.mean} {backbone.std} {before.side}"
    return Extractor(network, backbone.width, _digest(network, told))


def _digest(network: nn.Module, told: str) -> str:
    made = hashlib.sha256(f"{VERSION} {type(network).__name__} {told}".encode())
    for name, value in sorted(network.state_dict().items()):
        made.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        made.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return made.hexdigest()


def frozen(
    settings: TrainSettings,
    parts: Sequence[ImageSet | TextSet],
    device: torch.device,
    tell: Tell,
    needed: Tensor | None = None,
) -> list[FeatureSet]:
    """Features of sets of examples, those that are kept from before read back.

    Rows of the first set that are neither needed nor kept are not a number.
    """
    by = extractor(settings, parts[0])
    by.network.to(device)
    rows = [torch.arange(len(part)) for part in parts]
    if needed is not None:
        rows[0] = needed
    progress = _Progress(tell, sum(map(len, rows)))
    return [
        _features(by, part, mine, device, progress)
        for part, mine in zip(parts, rows, strict=True)
    ]


def _features(
    by: Extractor,
    of: ImageSet | TextSet,
    needed: Tensor,
    device: torch.device,
    progress: "_Progress",
) -> FeatureSet:
    inputs, asked = of.tensors()[0], torch.zeros(len(of), dtype=torch.bool)
    asked[needed] = True
    found = torch.empty(len(of), by.width)
    for rows in torch.arange(len(of)).split(CHUNK):
        chunk, mine = inputs[rows], asked[rows].nonzero()[:, 0]

        def compute(missing: Tensor, chunk: Tensor = chunk) -> Tensor:
            progress.computing()
            return by.features(_trimmed(chunk[missing]), device)

        shape = (len(rows), by.width)
        found[rows] = cached_rows(compute, mine, _key(by, _trimmed(chunk)), shape)
        progress.done += len(mine)
    return FeatureSet(found, of.labels, of.ids, of.classes, of.name, of=of, by=by.digest)


class _Progress:
    """Says how far the features are that are computed, not those that are read back."""

    def __init__(self, tell: Tell, total: int) -> None:
        self.tell, self.total, self.done = tell, total, 0
        self.pace: Pace | None = None
        self.first, self.told = 0, 0.0

    def computing(self) -> None:
        """Say so before a chunk is computed, where some time has passed."""
        if self.pace is None:
            self.pace, self.first, left = Pace(), self.done, ""
        elif self.pace.seconds < self.told + TOLD_EVERY:
            return
        else:
            done, total = self.done - self.first, self.total - self.first
            left = f", {self.pace.left(done, total)}"
        self.told = self.pace.seconds
        self.tell(f"Computing features: {self.done:,} of {self.total:,} examples{left} ...")


def _trimmed(inputs: Tensor) -> Tensor:
    # padding that all texts have depends on texts of other chunks
    if inputs.dtype == torch.uint8:
        return inputs
    return inputs[:, :, : max(1, int(inputs[:, 2].sum(1).max()))].contiguous()


def _key(by: Extractor, chunk: Tensor) -> str:
    made = hashlib.sha256(f"{by.digest} {tuple(chunk.shape)} {chunk.dtype}".encode())
    made.update(chunk.numpy().tobytes())
    return made.hexdigest()
