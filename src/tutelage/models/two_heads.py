"""A student with a second output for auxiliary targets."""

from torch import Tensor, nn


class TwoHeads(nn.Module):
    """Logits and a second output from the same features.

    Source: the students of Raghu et al. 2021, Teaching with Commentaries, appendix A.

    Args:
        trunk: From inputs [B, ...] to features [B, F].
        features: F.
        outputs: Logits.
        auxiliary: Numbers of the second output.
    """

    def __init__(
        self, trunk: nn.Module, *, features: int, outputs: int, auxiliary: int
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.fc = nn.Linear(features, outputs)
        self.second = nn.Linear(features, auxiliary)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Both outputs."""
        features = self.trunk(inputs)
        return self.fc(features), self.second(features)
