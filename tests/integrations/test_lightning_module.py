"""Lightning: the same steps as in a loop of one's own, and what goes wrong says so."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader

from tests.cases import close
from tests.integrations.small import (
    BATCHES,
    epochs,
    examples,
    loader,
    momentum,
    network,
    own_loop,
    teaching,
)
from tutelage.data.loaders import WithIds
from tutelage.errors import UsageError
from tutelage.integrations import Teaching
from tutelage.signals import Lookahead
from tutelage.training.step_strategy import AmpStep

L = pytest.importorskip("lightning")
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402 - after the skip
from lightning.pytorch.plugins import MixedPrecision  # noqa: E402

from tutelage.integrations.lightning import TeachingModule  # noqa: E402

pytestmark = [
    # its own use of a torch class that torch 2.14 deprecates (lightning 2.6.6, _pytree.py)
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
    # loaders of few examples need no worker processes, and logs no fewer steps
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    # what is resumed writes to the folder that it was read from
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]


class Taught(TeachingModule):
    def __init__(self, student: nn.Sequential | None = None) -> None:
        super().__init__()
        self.net = network() if student is None else student

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs)

    def configure_optimizers(self) -> Any:
        return momentum(self)


class Scheduled(Taught):
    interval = "step"

    def configure_optimizers(self) -> Any:
        optimizer = momentum(self)
        schedule = StepLR(optimizer, 2, gamma=0.7)
        config = {"scheduler": schedule, "interval": self.interval, "frequency": 1}
        return {"optimizer": optimizer, "lr_scheduler": config}


class EveryEpoch(Scheduled):
    interval = "epoch"


class Untaught(L.LightningModule):
    def __init__(self, taught: Taught) -> None:
        super().__init__()
        self.net = taught.net
        self.taught = [taught]

    def training_step(self, batch: Any) -> Tensor:
        inputs, targets, _ = batch
        return nn.functional.cross_entropy(self.net(inputs), targets)

    def configure_optimizers(self) -> Any:
        return self.taught[0].configure_optimizers()


def trainer(number: int, **settings: Any) -> Any:
    return L.Trainer(
        **{
            "max_epochs": number,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        | settings
    )


def fit(module: Taught, teach: Teaching, number: int = 2, **settings: Any) -> Taught:
    module.teach(teach)
    trainer(number, **settings).fit(module, loader())
    return module


@pytest.mark.parametrize("kind", [Scheduled, EveryEpoch])
def test_without_a_teacher_s_part_training_is_lightning_s_own(kind) -> None:
    def student() -> nn.Sequential:
        net = network()
        net[2] = nn.Identity()  # dropout draws from a seed of the step
        return net

    plain = Untaught(kind(student()))
    trainer(3, gradient_clip_val=0.5).fit(plain, loader())
    nobody = Teaching(nn.Identity(), max_norm=0.5)
    module = fit(kind(student()), nobody, 3)
    rates = [m.trainer.optimizers[0].param_groups[0]["lr"] for m in (plain, module)]
    assert rates[0] == rates[1] != 0.1
    close(module.net.state_dict(), plain.net.state_dict(), 1e-6)


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_taught_steps_are_those_of_a_loop_of_one_s_own(micro_batch) -> None:
    mine, other = (teaching(micro_batch=micro_batch) for _ in range(2))
    module, want = fit(Taught(), mine), own_loop(2, other)
    assert module.tutor is not None
    assert module.tutor.steps == want.steps == 2 * BATCHES
    close(module.net.state_dict(), want.student.state_dict(), 1e-6)
    close(module.tutor.teacher.state_dict(), want.teacher.state_dict(), 1e-6)
    assert {"train_loss", "held_out_loss"} <= module.trainer.callback_metrics.keys()
    assert module.state_dict().keys() == {f"net.{k}" for k in want.student.state_dict()}
    assert module.tutor.total_steps == 2 * BATCHES


def test_what_is_resumed_ends_bit_for_bit_as_what_was_not(tmp_path: Path) -> None:
    def keeping() -> dict[str, Any]:
        keep = ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
        return {"callbacks": [keep], "enable_checkpointing": True}

    whole = fit(Scheduled(), teaching(), **keeping())
    again = Scheduled()
    again.teach(teaching())
    path = tmp_path / "epoch=0.ckpt"
    trainer(2, **keeping()).fit(again, loader(), ckpt_path=str(path), weights_only=True)
    assert whole.tutor is not None
    assert again.tutor is not None
    for ours, theirs in ((again.net, whole.net), (again.tutor.teacher, whole.tutor.teacher)):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)
    assert again.tutor.steps == 2 * BATCHES


def test_half_precision_is_that_of_autocast() -> None:
    module, want = fit(Taught(), teaching(), precision="bf16-mixed"), network()
    teach = teaching()
    tutor = teach.tutor(want, momentum(want))
    for batch in epochs(2):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            teach.step(tutor, batch)
    close(module.net.state_dict(), want.state_dict(), 1e-6)
    assert module.tutor is not None
    close(module.tutor.teacher.state_dict(), tutor.teacher.state_dict(), 1e-6)


@pytest.mark.parametrize("mode", ["online", "restep"])
def test_a_scaled_loss_changes_no_step_and_an_overflow_leaves_one_out(mode) -> None:
    def scaler() -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=2.0**22)  # beyond half precision

    mine, theirs = scaler(), scaler()
    plugin = MixedPrecision("16-mixed", "cpu", scaler=mine)
    module = fit(Taught(), teaching(Lookahead(mode=mode)), plugins=[plugin])
    assert module.tutor is not None
    teach, want = teaching(Lookahead(mode=mode)), network()
    tutor = teach.tutor(want, momentum(want), step_strategy=AmpStep(theirs, max_norm=0.5))
    for batch in epochs(2):
        with torch.autocast("cpu", torch.float16, cache_enabled=False):
            teach.step(tutor, batch)
    close(module.net.state_dict(), want.state_dict(), 1e-6)
    close(module.tutor.teacher.state_dict(), tutor.teacher.state_dict(), 1e-6)
    assert mine.get_scale() == theirs.get_scale() < 2.0**22
    assert module.tutor.skipped_teacher_steps == tutor.skipped_teacher_steps > 0
    assert all(math.isfinite(float(p.detach().sum())) for p in module.parameters())


class OwnStep(Taught):
    def training_step(self, loaded: Any, index: int) -> Tensor:  # noqa: ARG002
        return nn.functional.cross_entropy(self(loaded[0]), loaded[1])


class TwoOptimizers(Taught):
    def configure_optimizers(self) -> Any:
        return [momentum(part) for part in self.net.children() if list(part.parameters())]


class WithoutForward(TeachingModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def configure_optimizers(self) -> Any:
        return momentum(self)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OwnStep, r"call super\(\).training_step"),
        (TwoOptimizers, "gives 2 optimizers; give one"),
        (WithoutForward, r"has no forward\(inputs\)"),
    ],
)
def test_a_module_that_would_do_without_its_teacher_is_refused(kind, words) -> None:
    module = kind()
    module.teach(teaching())
    with pytest.raises(UsageError, match=words):
        trainer(1).fit(module, loader())


def test_a_module_without_teacher_or_ids_is_refused() -> None:
    with pytest.raises(UsageError, match=r"call teach\(Teaching\(...\)\) before fit"):
        trainer(1).fit(Taught(), loader())
    module = Taught()
    module.teach(teaching())
    bare = DataLoader(examples(0, 6), batch_size=6)
    with pytest.raises(UsageError, match=r"tl.data.WithIds\(examples\)"):
        trainer(1).fit(module, bare)
    assert len(WithIds(examples(0, 6))[2]) == 3
