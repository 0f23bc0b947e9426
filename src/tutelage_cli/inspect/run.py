"""A run of ``tutelage train`` and which of its students are finished."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.job import Job
from tutelage_cli.train.settings import TrainSettings, stored_settings


@dataclass(frozen=True)
class Run:
    """A run of ``tutelage train``, finished or not."""

    folder: Path
    settings: TrainSettings
    finished: Mapping[str, tuple[int, ...]]
    """the seeds of each arm whose students are finished"""

    @property
    def missing(self) -> int:
        """Students that are not finished."""
        done = sum(map(len, self.finished.values()))
        return len(self.settings.arms) * self.settings.seeds - done

    def job(self, arm: str, seed: int) -> Job:
        """One student."""
        return Job(self.folder, arm, seed, self.settings)


def open_run(folder: Path) -> Run:
    """Find out what a run has got."""
    settings = stored_settings(folder)
    finished = {
        arm: tuple(
            seed
            for seed in range(settings.seeds)
            if exists(Job(folder, arm, seed, settings).folder / "result.json")
        )
        for arm in settings.arms
    }
    return Run(folder, settings, finished)
