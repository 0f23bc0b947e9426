"""What masks on backgrounds come to: where they are, and what is answered through them."""

import torch
from torch import Tensor, nn

from tutelage.teachers import AttentionMask, RandomMask
from tutelage.training.forward import shown
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import Batches

AT_ONCE = 250
"""images in a batch that is only looked at"""


@torch.no_grad()
def centres(teacher: nn.Module, test: Batches, seed: int) -> Tensor:
    """Where the mask of every image has its centre."""
    sides = torch.tensor(test.images.images.shape[-2:])
    if isinstance(teacher, AttentionMask):
        return torch.cat([teacher.centres(b.inputs) for b in test.whole(AT_ONCE)]).cpu()
    if isinstance(teacher, RandomMask):
        draws = torch.Generator().manual_seed(seed)
        return torch.rand(len(test.images), 2, generator=draws) * sides - 0.5
    return ((sides - 1) / 2).expand(len(test.images), 2)


def within(box: Tensor, places: Tensor) -> float:
    """The share of places that lie in the box of their image."""
    after = places + 0.5
    return float(((after >= box[:, :2]) & (after < box[:, 2:])).all(1).float().mean())


@torch.no_grad()
def _answered(tutor: Tutor, batches: Batches) -> tuple[Tensor, Tensor]:
    # the five likeliest classes of each image [N, 5], and the true one [N, 1]
    student = tutor.student.eval()
    seen = [
        (student(shown(tutor.problem, batch).inputs).topk(5).indices, batch.targets[:, None])
        for batch in batches.whole(AT_ONCE)
    ]
    best, true = (torch.cat(column) for column in zip(*seen, strict=True))
    return best, true


def _percent(right: Tensor) -> float:
    return 100 * float(right.float().mean())


def judged(tutor: Tutor, held_out: Batches, test: Batches) -> dict[str, float]:
    """What a student gets right where backgrounds help, and where they mislead."""
    found = {}
    for name, batches in (("held_out", held_out), ("test", test)):
        best, true = _answered(tutor, batches)
        found[f"{name}_accuracy"] = _percent(best[:, :1] == true)
        found[f"{name}_top5"] = _percent((best == true).any(1))
        if name == "test":
            before = (true - 1) % len(test.images.classes)
            found["taken_for_background"] = _percent(best[:, :1] == before)
    return found
