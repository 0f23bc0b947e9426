"""What a learned augmentation came to, as a section of a page."""

from tutelage.teachers import LearnedAugmentation
from tutelage_cli.commentary.image_sections import Exhibit
from tutelage_cli.report.augmentation import drawn
from tutelage_cli.train.policies import shown


def augmentation(of: Exhibit) -> tuple[str, str]:
    """How likely every operation is kept, how strong it is, and how that came to be."""
    assert isinstance(of.teacher, LearnedAugmentation)
    return "Which augmentations were kept", drawn(shown("", [of.teacher]), mark="policy")
