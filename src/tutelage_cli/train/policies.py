"""Learned augmentation policies, for the report and in words."""

from collections.abc import Sequence

import numpy as np
from torch import nn

from tutelage.commentaries import load_commentary
from tutelage.teachers import LearnedAugmentation
from tutelage_cli.report import Augmentation
from tutelage_cli.train.job import Job
from tutelage_cli.train.names import OLA

NAMED_OPERATIONS = 3
"""operations to name, most and least kept"""
MIN_SPREAD = 0.01
"""range of keep probabilities from which a policy counts as learned"""


def learned_policies(jobs: Sequence[Job]) -> tuple[Augmentation, ...]:
    """The policies that the students of an arm learned."""
    if jobs[0].arm != OLA:
        return ()
    stored = [load_commentary(job.folder / "commentary", nn.Module()) for job in jobs]
    return (
        policy_record(
            OLA, [teacher for teacher in stored if isinstance(teacher, LearnedAugmentation)]
        ),
    )


def policy_record(arm: str, teachers: Sequence[LearnedAugmentation]) -> Augmentation:
    """Policies of one search space as a record of the report."""
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


def describe_policy(policy: Augmentation) -> str:
    """The operations that a policy keeps most and least, as a sentence."""
    keep = policy.keep.mean(0)
    if float(np.ptp(keep)) < MIN_SPREAD:
        return f"The policy of {policy.arm} is where it started: it has hardly learned yet."
    order = np.argsort(-keep, kind="stable")
    most, least = (
        ", ".join(f"{policy.operations[row]} ({keep[row]:.2f})" for row in rows)
        for rows in (order[:NAMED_OPERATIONS], order[::-1][:NAMED_OPERATIONS])
    )
    return (
        f"The policy of {policy.arm} keeps most often {most}, least often {least}; at first it "
        "kept each in half of the cases."
    )
