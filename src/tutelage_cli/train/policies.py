"""What learned augmentations came to, as the report draws it and a verdict tells it."""

from collections.abc import Sequence

import numpy as np
from torch import nn

from tutelage.commentaries import load_commentary
from tutelage.teachers import LearnedAugmentation
from tutelage_cli.report import Augmentation
from tutelage_cli.train.names import OLA
from tutelage_cli.train.trainee import Job

NAMED = 3
"""operations that are named, most and least kept"""
MOVED = 0.01
"""how far keep probabilities lie apart, at least, where a policy is called learned"""


def learned_by(jobs: Sequence[Job]) -> tuple[Augmentation, ...]:
    """The policies that the students of an arm have learned."""
    if jobs[0].arm != OLA:
        return ()
    stored = [load_commentary(job.folder / "commentary", nn.Module()) for job in jobs]
    return (shown(OLA, [of for of in stored if isinstance(of, LearnedAugmentation)]),)


def shown(arm: str, teachers: Sequence[LearnedAugmentation]) -> Augmentation:
    """Policies of one search space as a record that can be drawn."""
    first, policies = teachers[0], [teacher.policy() for teacher in teachers]
    highest = first.space.levels - 1
    level = np.stack([policy.strength @ np.arange(highest + 1) for policy in policies])
    steps, past = first.history()
    return Augmentation(
        arm=arm,
        operations=first.space.operations,
        keep=np.stack([policy.keep for policy in policies]),
        level=np.where(first.space.has_strength, level, np.nan),
        highest=highest,
        how_many=np.stack([policy.how_many for policy in policies]),
        steps=tuple(steps),
        past=past.double().cpu().numpy() * (1, highest),
    )


def told(of: Augmentation) -> str:
    """Which operations a policy keeps, in words."""
    keep = of.keep.mean(0)
    if float(np.ptp(keep)) < MOVED:
        return f"The policy of {of.arm} is where it started: it has hardly learned yet."
    order = np.argsort(-keep, kind="stable")
    most, least = (
        ", ".join(f"{of.operations[row]} ({keep[row]:.2f})" for row in rows)
        for rows in (order[:NAMED], order[::-1][:NAMED])
    )
    return (
        f"The policy of {of.arm} keeps most often {most}, least often {least}; at first it "
        "kept each in half of the cases."
    )
