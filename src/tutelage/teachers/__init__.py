"""Teachers: learned weights, inputs, labels and losses, and their baselines."""

from tutelage.teachers.aligned import Aligned
from tutelage.teachers.attention_mask import AttentionMask
from tutelage.teachers.auxiliary_targets import AuxiliaryTargets
from tutelage.teachers.blending import Blending
from tutelage.teachers.combined_teacher import CombinedTeacher
from tutelage.teachers.copies import Copies
from tutelage.teachers.curriculum import Curriculum
from tutelage.teachers.dynamic_loss import DynamicLoss
from tutelage.teachers.fixed_augmentation import FixedAugmentation
from tutelage.teachers.given_copies import GivenCopies
from tutelage.teachers.given_weights import GivenWeights
from tutelage.teachers.internal_state import (
    PAPER_SURFACE_FEATURES,
    SURFACE_FEATURES,
    InternalState,
)
from tutelage.teachers.keep_or_drop import KeepOrDrop
from tutelage.teachers.keep_probability import KeepProbability
from tutelage.teachers.learned_augmentation import LearnedAugmentation
from tutelage.teachers.loss_weigher import LossWeigher
from tutelage.teachers.margin_loss import MarginLoss
from tutelage.teachers.mentor_net import MentorNetDD, MentorNetPD
from tutelage.teachers.meta_label_correction import MetaLabelCorrection
from tutelage.teachers.meta_soft_label_corrector import MetaSoftLabelCorrector
from tutelage.teachers.mixup import Mixup
from tutelage.teachers.other_classes import for_other_classes
from tutelage.teachers.out_of_fold_targets import OutOfFoldTargets
from tutelage.teachers.permutation_control import PermutationControl
from tutelage.teachers.plain import Plain
from tutelage.teachers.random_blending import RandomBlending
from tutelage.teachers.random_mask import RandomMask
from tutelage.teachers.self_paced import SelfPaced
from tutelage.teachers.shuffled import Shuffled
from tutelage.teachers.split_sampler import Draw, SplitSampler
from tutelage.teachers.stored_copies import StoredCopies, predicted
from tutelage.teachers.support_weights import SupportWeights
from tutelage.teachers.worst_case import UniformCopies, WorstCase
from tutelage.teachers.worst_case_soft import LabelPreservingTarget, WorstCaseSoft

__all__ = [
    "PAPER_SURFACE_FEATURES",
    "SURFACE_FEATURES",
    "Aligned",
    "AttentionMask",
    "AuxiliaryTargets",
    "Blending",
    "CombinedTeacher",
    "Copies",
    "Curriculum",
    "Draw",
    "DynamicLoss",
    "FixedAugmentation",
    "GivenCopies",
    "GivenWeights",
    "InternalState",
    "KeepOrDrop",
    "KeepProbability",
    "LabelPreservingTarget",
    "LearnedAugmentation",
    "LossWeigher",
    "MarginLoss",
    "MentorNetDD",
    "MentorNetPD",
    "MetaLabelCorrection",
    "MetaSoftLabelCorrector",
    "Mixup",
    "OutOfFoldTargets",
    "PermutationControl",
    "Plain",
    "RandomBlending",
    "RandomMask",
    "SelfPaced",
    "Shuffled",
    "SplitSampler",
    "StoredCopies",
    "SupportWeights",
    "UniformCopies",
    "WorstCase",
    "WorstCaseSoft",
    "for_other_classes",
    "predicted",
]

# former names
SURFACE, PAPER_SURFACE = SURFACE_FEATURES, PAPER_SURFACE_FEATURES
Together, Permuted, UnlessChanged = CombinedTeacher, PermutationControl, LabelPreservingTarget
