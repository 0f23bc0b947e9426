"""A linear text classifier of the mean token embedding.

Source: Joulin et al. 2017, Bag of Tricks for Efficient Text Classification, without n-grams.
"""

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from tutelage.errors import UsageError

SPREAD = 0.1
"""standard deviation of an embedding at the start; at torch's own 1 they hardly learn"""
GAIN = 5**0.5
"""of either layer; weights are as much smaller, so that SGD learns as at 5 times the rate: 0.1,
as for images, has the effect of the 0.5 that suits this model"""


class MeanPooling(nn.Module):
    """The mean over unmasked tokens."""

    def forward(
        self, embedded: Float[Tensor, "B L W"], there: Integer[Tensor, "B L"]
    ) -> Float[Tensor, "B W"]:
        """The mean."""
        weights = there.to(embedded.dtype)
        total = (embedded * weights[..., None]).sum(1)
        return total / weights.sum(1, keepdim=True).clamp(min=1)


class BagOfTokens(nn.Module):
    """A linear classifier of the mean embedding, independent of token order."""

    def __init__(self, words: int, classes: int, *, width: int = 64) -> None:
        super().__init__()
        for name, size in (("words", words), ("classes", classes), ("width", width)):
            if size < 1:
                raise UsageError(f"{name} is {size}; allowed: 1 and above.")
        self.embedding = nn.Embedding(words, width)
        nn.init.normal_(self.embedding.weight, std=SPREAD / GAIN)
        self.mean = MeanPooling()
        self.head = nn.Linear(width, classes)
        with torch.no_grad():
            for part in self.head.parameters():
                part /= GAIN

    def forward(self, texts: Integer[Tensor, "B 3 L"]) -> Float[Tensor, "B C"]:
        """Logits."""
        return GAIN * self.head(self.mean(GAIN * self.embedding(texts[:, 0]), texts[:, 2]))
