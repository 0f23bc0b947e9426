"""The students and batches that rewards are measured on."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.command import size
from benchmarks.hypergradients.students import Block, group_norm, resnet20

ROWS, PIXELS = size(64, 4), size(32, 8)


def wide_resnet(norm: Callable[[int], nn.Module]) -> nn.Module:
    """A WRN-16-4 for 32x32 images, 2.7 million parameters, normalised after convolutions.

    Args:
        norm: From a number of channels to a layer.

    Returns:
        The student, of ten classes.
    """
    w = size(64, 16)
    ends = [(16, w), (w, w), (w, 2 * w), (2 * w, 2 * w), (2 * w, 4 * w), (4 * w, 4 * w)]
    blocks = [Block(a, b, norm) for a, b in ends]
    blocks[0] = First(16, w, norm)
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), norm(16), nn.ReLU()]
    return nn.Sequential(
        *stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * w, 10)
    )


class First(Block):
    """A block that widens and keeps the size of its maps."""

    def __init__(self, inward: int, outward: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__(inward, outward, norm)
        self.first = nn.Conv2d(inward, outward, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(inward, outward, 1, 1, bias=False)


class Attention(nn.Module):
    """A Transformer block with attention written out in plain products."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block.

        Args:
            x: Words [B, T, D].

        Returns:
            Words [B, T, D].
        """
        rows, words, width = x.shape
        mixed = self.mix(self.norms[0](x)).view(rows, words, 3, self.heads, -1)
        q, k, v = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        seen = (q @ k.transpose(-1, -2) / (width / self.heads) ** 0.5).softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(rows, words, width))
        return x + self.net(self.norms[1](x))


class Transformer(nn.Module):
    """Four blocks of width 128 over 32 words, 0.66 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 128), nn.Embedding(32, 128)
        self.blocks = nn.Sequential(*[Attention(128, 4, 256) for _ in range(size(4, 2))])
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Classify sequences.

        Args:
            x: Tokens [B, T].

        Returns:
            Logits [B, 10].
        """
        places = torch.arange(x.shape[1], device=x.device).expand_as(x)
        return self.head(self.norm(self.blocks(self.words(x) + self.places(places))).mean(1))


STUDENTS: dict[str, Callable[[], nn.Module]] = {
    "resnet20, group norm": lambda: resnet20(group_norm),
    "resnet20, batch norm": lambda: resnet20(nn.BatchNorm2d),
    "wrn-16-4, group norm": lambda: wide_resnet(group_norm),
    "wrn-16-4, batch norm": lambda: wide_resnet(nn.BatchNorm2d),
    "transformer": Transformer,
}


def built(
    name: str, dtype: torch.dtype, rows: int = ROWS
) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """A student and two batches, drawn from fixed seeds.

    Args:
        name: One of ``STUDENTS``.
        dtype: Of the student.
        rows: B.

    Returns:
        The student in training mode; inputs and targets, twice.
    """
    torch.manual_seed(0)
    student = STUDENTS[name]().to(dtype).train()
    batches = []
    for _ in range(2):
        images = torch.randn(rows, 3, PIXELS, PIXELS).to(dtype)
        words = torch.randint(0, 1000, (rows, 32))
        inputs = words if name == "transformer" else images
        batches.append((inputs, torch.randint(0, 10, (rows,))))
    return student, batches
