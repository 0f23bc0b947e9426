"""One student to train: its arm, seed and files."""

from dataclasses import dataclass, replace
from pathlib import Path

from tutelage_cli.runner.log_names import LogName
from tutelage_cli.train.settings import TrainSettings


@dataclass(frozen=True)
class Job:
    """One student to train."""

    run: Path
    """the run's folder"""
    arm: str
    seed: int
    settings: TrainSettings
    log_every: int = 0
    """student steps between two that are logged; 0: none"""
    fold: int | None = None
    """of a student of cross-fitting: the fold that it predicts"""
    log: LogName = "tensorboard"
    """where to log, if at all"""

    @property
    def title(self) -> str:
        """The student's name in messages."""
        fold = "" if self.fold is None else f", fold {self.fold}"
        return f"{self.arm}, seed {self.seed}{fold}"

    @property
    def folder(self) -> Path:
        """The student's own folder."""
        if self.fold is None:
            return self.run / "students" / f"{self.arm}-seed{self.seed}"
        return self.run / "folds" / f"{self.arm}-seed{self.seed}-{self.fold}"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of its training."""
        return self.folder / "checkpoint" / "state.pt"

    @property
    def best(self) -> Path:
        """The student after its best epoch on the checked examples, where that is kept."""
        return self.folder / "checkpoint" / "best.pt"

    def with_arm(self, arm: str, fold: int | None = None) -> "Job":
        """Another student of the same run and seed."""
        return replace(self, arm=arm, fold=fold)


def jobs_of(run: Path, arm: str, settings: TrainSettings) -> list[Job]:
    """The students of an arm, one for each seed."""
    return [Job(run, arm, seed, settings) for seed in range(settings.seeds)]


def learning_rate(settings: TrainSettings, epoch: int) -> float:
    """The student's learning rate in an epoch; the first one has the whole rate."""
    passed = sum(epoch >= max(1, int(share * settings.epochs)) for share in settings.decay_at)
    return settings.lr * 0.1**passed
