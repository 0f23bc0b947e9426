"""Export of a learned augmentation as JSON."""

from pathlib import Path

from tutelage.augment.exported import exported
from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error, write_json
from tutelage.teachers import LearnedAugmentation


def write_policy(
    teacher: LearnedAugmentation, file: str | Path, size: tuple[int, int] = (32, 32)
) -> None:
    """Write a learned augmentation as JSON that names functions of torchvision.

    Args:
        teacher: Its policy is written.
        file: The JSON file; an existing one is replaced.
        size: Height and width in pixels of the images that the policy is for; shifts are a
            share of them.

    Raises:
        UsageError: If the file cannot be written.
    """
    policy = teacher.policy()
    plain = exported(
        teacher.space,
        policy.how_many.tolist(),
        policy.keep.tolist(),
        policy.strength.tolist(),
        size,
    )
    try:
        write_json(Path(file), plain)
    except OSError as error:
        raise UsageError(write_error(error, file, "or name another file")) from error
