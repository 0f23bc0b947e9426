"""Names of teachers and controls on the command line of ``tutelage train``."""

from collections.abc import Container, Sequence

from tutelage.errors import UsageError, nearest

LEARNING = {
    "margin-loss": "deep-interactions teacher on margin and loss, one hidden layer of 32",
    "internal-state": "deep-interactions teacher on the paper's features, I0 + M0, linear",
    "loss": "Meta-Weight-Net: a small network of the loss",
    "curriculum": "a network of the image and of how far training has come",
    "l2t-loss": "dynamic losses: the loss itself is learned",
}
"""teachers that learn and leave a commentary, by name"""
OUT_OF_FOLD = "out-of-fold"
BY_FOLDS = {OUT_OF_FOLD: "targets and weights from out-of-fold predictions, learned from there"}
"""teachers that start from out-of-fold predictions and leave a commentary"""
OLA = "learned-augmentation"
POLICIES = {
    OLA: "a policy of augmentation that learns at every other step (OLA), wide space",
    "uniform-augment": "two operations of the wide space, each with probability 1/2",
    "rand-augment": "two operations at level 9 of 30",
    "trivial-augment": "one operation at a level drawn anew",
    "auto-augment": "the pairs of operations that were found on CIFAR-10",
}
"""policies of augmentation, beside crops and mirrors; the first leaves a commentary"""
BASELINES = {
    "mentornet-dd": "MentorNet's small recurrent network of loss, label and epoch",
    "mentornet": "MentorNet's predefined weights: loss below its moving 70th percentile",
    "reweight": "learning to reweight: by alignment with the held-out gradient",
    "self-paced": "self-paced learning: the easiest half of each batch, later all",
    "focal": "none; focal loss with gamma 2",
    "gce": "none; generalised cross entropy with q 0.7",
}
"""published methods to compare with in the same run, by name"""
TAUGHT_BY = LEARNING | BY_FOLDS | POLICIES | BASELINES
"""all teachers by name"""
CONTROLS = {
    "checked-only": "none; trained on the checked examples alone",
    "fine-tuned": "none; the untaught student, then trained on the checked examples",
    "checked-included": "none; trained on the checked examples beside the others",
    "early-stopped": "none; the untaught student after its best epoch by the checked examples",
    "regularised": "none; the length and weight decay that predict given labels best",
    "pruned": "none; without the labels that confident learning finds, checked ones included",
    "forward-corrected": "none; gold loss correction (GLC), checked examples included",
    "cross-fitted": "none; out-of-fold predictions as targets, checked examples included",
}
"""students that use the checked examples without a teacher, by name"""
OTHER_LOSSES = ("l2t-loss", "gce")
"""teachers whose students descend another loss than cross entropy with weights"""
BY_BATCH = ("curriculum", "mentornet-dd", "mentornet", "self-paced")
"""teachers for which the rows of a batch depend on one another"""
ALL, NONE = "all", "none"
BY_HELD_OUT = (*LEARNING, *BY_FOLDS, "mentornet-dd")
LEARNERS = (*BY_HELD_OUT, OLA)
USED_BY = {
    "tap": ("internal-state",),
    "level": ("margin-loss", "internal-state"),
    "metric": BY_HELD_OUT,
    "teacher_lr": LEARNERS,
    "teacher_every": LEARNERS,
    "layers": ("margin-loss", "internal-state"),
    "unroll_steps": tuple(name for name in BY_HELD_OUT if name != "loss"),
}
"""settings and the teachers that use them"""


def takes_chosen_decay(arm: str, arms: Container[str]) -> bool:
    """Whether a taught student of a run of these arms has the weight decay of ``regularised``.

    Teachers of out-of-fold predictions have that of cross-fitting. Commentaries and teachers of
    augmentation have the run's, as what is chosen without augmentation is too strong with it,
    and so have teachers that replace cross entropy, whose gradients are smaller.
    """
    taught = arm in (*LEARNING, *BASELINES, "weights") and arm not in OTHER_LOSSES
    return taught and "regularised" in arms


def controls_of(names: Sequence[str]) -> tuple[str, ...]:
    """The controls to train, in the order of ``names.CONTROLS``."""
    allowed = (ALL, NONE, *CONTROLS)
    for name in names:
        if name not in allowed:
            raise UsageError(
                f"Unknown control '{name}' in --controls. {nearest(name, allowed)}"
            )
    if not names or (len(names) > 1 and {ALL, NONE} & set(names)):
        raise UsageError(
            f"--controls is {' '.join(names) or 'empty'}; allowed: {ALL} or {NONE} alone, or "
            f"some of {', '.join(CONTROLS)}."
        )
    if len(set(names)) < len(names):
        raise UsageError(f"--controls names one twice: {' '.join(names)}.")
    return tuple(name for name in CONTROLS if ALL in names or name in names)
