"""The settings of an existing run."""

from pathlib import Path

from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.runner.run_folder import run_settings
from tutelage_cli.train.names import NONE
from tutelage_cli.train.settings import TrainSettings


def stored_settings(run: Path) -> TrainSettings:
    """The settings that a run was started with.

    Note: raises ``UsageError`` if there is no run, or its settings are damaged.
    """
    return from_plain(TrainSettings, {"controls": [NONE]} | run_settings(run), str(run))
