"""The page section of a learned augmentation."""

from tutelage.teachers import LearnedAugmentation
from tutelage_cli.commentary.image_sections import SectionInputs
from tutelage_cli.report.augmentation import drawn
from tutelage_cli.train.policies import policy_record


def augmentation(of: SectionInputs) -> tuple[str, str]:
    """Keep probability and level of every operation, and their history."""
    assert isinstance(of.teacher, LearnedAugmentation)
    return "Which augmentations were kept", drawn(
        policy_record("", [of.teacher]), mark="policy"
    )
