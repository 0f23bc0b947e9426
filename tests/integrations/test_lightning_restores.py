"""Whatever restores the student in Lightning restores its teacher; a second fit goes on."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tests.cases import C, D
from tests.integrations.small import BATCHES, examples, loader, momentum, teaching
from tutelage.data.loaders import RandomBatches, WithIds
from tutelage.integrations import Teaching
from tutelage.signals import Lookahead
from tutelage.teachers import LossWeigher
from tutelage.types import Observation, PreparedBatch

L = pytest.importorskip("lightning")
from lightning.pytorch.callbacks import (  # noqa: E402 - after the skip
    EMAWeightAveraging,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from lightning.pytorch.tuner.tuning import Tuner  # noqa: E402

from tests.integrations.test_lightning_module import Taught, pytestmark, trainer  # noqa: E402

assert pytestmark


class Judged(Taught):
    """With what tuners and checkpoints ask for."""

    batch_size = 6
    lr = 0.1

    def validation_step(self, batch: Any, index: int) -> None:  # noqa: ARG002
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))
        self.log("earliness", -float(self.current_epoch))

    def train_dataloader(self) -> Any:
        return DataLoader(WithIds(examples(0, 6 * BATCHES)), batch_size=self.batch_size)

    def val_dataloader(self) -> Any:
        return DataLoader(examples(1, 12), batch_size=6)


def held(module: Taught) -> list[Tensor]:
    """Parameters of the student and of the teacher, and what its optimiser remembers."""
    teach = module.teaching
    assert teach is not None
    assert teach.teacher_optimizer is not None
    slots = [
        value
        for slot in teach.teacher_optimizer.state_dict()["state"].values()
        for value in slot.values()
        if isinstance(value, Tensor)
    ]
    return [
        p.detach().clone()
        for p in (*module.net.parameters(), *teach.teacher.parameters(), *slots)
    ]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


class Watching(LossWeigher):
    uses_progress = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        self.seen.append(float(observation.progress.fraction))
        return super().weigh(prepared, observation)


def watched() -> tuple[Judged, Watching]:
    teacher, module = Watching(), Judged()
    rule = torch.optim.SGD(teacher.parameters(), lr=0.1)
    module.teach(Teaching(teacher, rule, Lookahead(), RandomBatches(examples(1, 12), 6)))
    return module, teacher


def test_a_second_fit_goes_on_where_the_first_ended() -> None:
    module, teacher = watched()
    run = trainer(2)
    run.fit(module, loader())
    assert teacher.seen[0] == 0
    assert max(teacher.seen) < 1
    teacher.seen.clear()
    run.fit_loop.max_epochs = 4
    run.fit(module, loader())
    assert teacher.seen[0] == pytest.approx(0.5)
    assert 0.9 < max(teacher.seen) < 1
    assert module.tutor is not None
    assert module.tutor.steps == run.global_step == 4 * BATCHES


def test_a_new_trainer_begins_anew() -> None:
    module, teacher = watched()
    trainer(2).fit(module, loader())
    teacher.seen.clear()
    trainer(1).fit(module, loader())
    assert teacher.seen[0] == 0
    assert module.tutor is not None
    assert module.tutor.steps == BATCHES


@pytest.mark.parametrize("how", ["lr_find", "scale_batch_size"])
@pytest.mark.parametrize("taught_before", [False, True])
def test_a_tuner_leaves_the_teacher_as_it_was(how, taught_before, tmp_path) -> None:
    module = Judged()
    module.teach(teaching(Lookahead()))
    run = trainer(1, default_root_dir=tmp_path)
    if taught_before:
        trainer(1).fit(module)
    before = held(module)
    if how == "lr_find":
        Tuner(run).lr_find(module, num_training=4, min_lr=0.01, max_lr=0.1)
    else:
        Tuner(run).scale_batch_size(module, max_trials=1, steps_per_trial=2)
    assert same(held(module), before)
    run.fit(module)
    assert module.tutor is not None
    assert module.tutor.steps == run.global_step
    assert not same(held(module), before)


def kept_best(tmp_path: Path) -> tuple[Judged, Any, list[Tensor], ModelCheckpoint]:
    """A module at its end, its trainer, what it held after its first epoch, the checkpoint."""
    best = ModelCheckpoint(tmp_path, monitor="earliness", mode="max", save_top_k=1)
    first: list[Tensor] = []

    class Noting(L.Callback):
        def on_validation_end(self, _: Any, module: Any) -> None:
            if module.trainer.current_epoch == 0 and not module.trainer.sanity_checking:
                first[:] = held(module)

    module = Judged()
    module.teach(teaching(Lookahead()))
    run = trainer(3, callbacks=[best, Noting()], enable_checkpointing=True)
    run.fit(module)
    assert best.best_model_path.endswith(f"step={BATCHES}.ckpt")
    assert not same(held(module), first)
    return module, run, first, best


def test_the_best_checkpoint_brings_its_teacher(tmp_path) -> None:
    module, run, first, best = kept_best(tmp_path)
    run.validate(module, ckpt_path="best", verbose=False)
    assert same(held(module), first)
    loaded = Judged.load_from_checkpoint(best.best_model_path)
    loaded.teach(teaching(Lookahead()))
    assert same(held(loaded), first)
    trainer(1).fit(loaded)
    assert loaded.tutor is not None
    assert loaded.tutor.steps == BATCHES  # a run of its own
    run.fit_loop.max_epochs = 4
    run.fit(module)  # goes on with the best student, at the trainer's step
    assert module.tutor is not None
    assert module.tutor.steps == run.global_step == 4 * BATCHES


@pytest.mark.filterwarnings("ignore:Swapping scheduler")
def test_averaged_weights_are_not_trained_further() -> None:
    averaging = StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=1, device=None)
    student = nn.Sequential(nn.Linear(D, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, C))
    module = Judged(student)
    module.teach(teaching(Lookahead()))
    run = trainer(3, callbacks=[averaging])
    run.fit(module)
    mean = averaging._average_model
    assert isinstance(mean, Judged)
    for ours, theirs in zip(module.net.parameters(), mean.net.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert module.tutor is not None
    assert module.tutor.steps == run.global_step == 3 * BATCHES


def test_a_moving_average_goes_on_in_a_second_fit() -> None:
    module = Judged()
    module.teach(teaching(Lookahead()))
    run = trainer(1, callbacks=[EMAWeightAveraging()])
    run.fit(module)
    run.fit_loop.max_epochs = 2
    run.fit(module)
    assert module.tutor is not None
    assert module.tutor.steps == run.global_step == 2 * BATCHES


def test_momentum_is_new_in_a_second_fit_and_no_window_reaches_over_it() -> None:
    module = Judged()
    module.teach(teaching())  # looks back over three steps, of four
    run = trainer(1)
    run.fit(module)
    run.fit_loop.max_epochs = 2
    run.fit(module)
    assert momentum(module)
    assert module.tutor is not None
    assert module.tutor.skipped_teacher_steps == 0
    assert module.tutor.steps == 2 * BATCHES
