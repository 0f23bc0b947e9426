"""L2T-data: what is kept of each batch is learnt over many students, then stays as it is."""

from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from papers.fan2021interactions.reweighting import Way
from papers.fan2021interactions.reweighting_settings import Settings, asked, material_of, shown
from papers.students import endless
from tutelage.errors import UsageError
from tutelage.models.catalogue import build_student
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import KeepOrDrop, KeepProbability
from tutelage.training.accuracy_reward import Goal, rewarded
from tutelage.validation.ranges import at_least_one, not_negative
from tutelage_cli.train.evaluation import AT_ONCE
from tutelage_cli.train.material import open_streams


@dataclass(frozen=True)
class Episodes(Settings):
    """What decides a job where some arm learns over whole students."""

    episodes: int = 50
    """students that a teacher of what to keep learns from"""
    goal: float = 0.8
    """held-out accuracy for which an episode is rewarded, in (0, 1]"""
    goal_steps: int = 3500
    """student steps after which it is given up"""
    goal_every: int = 50
    """student steps between two looks at the accuracy"""
    keep_lr: float = 1e-3
    """of the Adam that takes a step after each episode"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        super().__post_init__()
        at_least_one(self, "episodes", "goal_steps", "goal_every")
        not_negative(self, "keep_lr")
        if not 0 < self.goal <= 1:
            raise UsageError(f"goal is an accuracy in (0, 1], got {self.goal:g}.")
        if self.goal_every > self.goal_steps:
            raise UsageError(
                f"goal_every is {self.goal_every}, but an episode has {self.goal_steps} steps: "
                f"give {self.goal_steps} or less."
            )


def learnt_to_keep(seed: int, of: Episodes, device: torch.device) -> Way:
    """Learn what to keep, from fresh students on the seed's own data."""
    material = material_of(of, seed)
    streams, images = open_streams(material, asked(of), seed, device), shown(material)

    def student(number: int) -> tuple[nn.Module, Optimizer]:
        made = build_student(of.student, **images._asdict(), seed=mixed_seed(seed, number))
        made = made.to(device).train()
        rule = SGD(made.parameters(), of.lr, momentum=0.9, weight_decay=of.weight_decay)
        return made, rule

    with seeded(seed, torch.device("cpu")):
        teacher = KeepOrDrop(KeepProbability(images.classes)).to(device)
    episodes = rewarded(
        student,
        teacher,
        Adam(teacher.parameters(), of.keep_lr),
        lambda number: endless(streams.train, mixed_seed(seed, number) % 2**31),
        list(streams.held_out.whole(AT_ONCE)),
        goal=Goal(of.goal, of.goal_steps, of.goal_every),
        decay=0.9,
        seed=seed,
    )
    for _ in islice(episodes, of.episodes):
        pass
    return Way(lambda *_: teacher, signal=None)
