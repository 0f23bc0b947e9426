"""The Trainer of transformers: its own steps under a teacher, and columns that stay."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cases import close
from tutelage.errors import UsageError
from tutelage.integrations import Teaching
from tutelage.integrations.columns import TrainerLoss, stacked
from tutelage.signals import Lookahead, Unrolled
from tutelage.teachers import LossWeigher
from tutelage.types import Observation, PreparedBatch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
datasets = pytest.importorskip("datasets")
from accelerate.state import AcceleratorState, GradientState  # noqa: E402 - after the skip
from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
)
from transformers.trainer_pt_utils import LabelSmoother  # noqa: E402

from tutelage.integrations.transformers import TeachingTrainer  # noqa: E402

WORDS, LENGTH = 12, 6
CONFIG: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
}
NO_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Accelerate keeps its settings in the process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def texts(seed: int, count: int, **columns: list[Any]) -> Any:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(WORDS, (count, LENGTH), generator=generator)
    return datasets.Dataset.from_dict({
        "input_ids": ids.tolist(),
        "attention_mask": torch.ones_like(ids).tolist(),
        "labels": torch.randint(2, (count,), generator=generator).tolist(),
        "text": ["never reaches the model"] * count,
        **columns,
    })


TRAIN = {"index": list(range(100, 120)), "weight": [0.5] * 20}


def model(**settings: Any) -> Any:
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**CONFIG | settings))


def trainer(
    folder: Path, kind: type[Trainer] = TeachingTrainer, settings: Any = None, **more: Any
) -> Any:
    asked = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 5,
        "learning_rate": 1e-2,
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 3,
    }
    args = TrainingArguments(str(folder), **{**asked, **(settings or {})})
    more = {"train_dataset": texts(0, 20, **TRAIN), "model": model()} | more
    return kind(args=args, **more)


def teach(of: Any, signal: Any = None, every: int = 1) -> Any:
    torch.manual_seed(1)
    teacher = LossWeigher(width=32)
    signal = Lookahead() if signal is None else signal
    rule = torch.optim.SGD(teacher.parameters(), lr=0.5)
    held_out = of.draws(texts(1, 10), 5)
    teaching = Teaching(teacher, rule, signal=signal, held_out=held_out, teacher_every=every)
    of.teach(teaching, id_column="index")
    return of


class Watching(nn.Module):
    """Leaves all weights alone, and remembers whom it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[int] = []

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        self.ids += prepared.ids.tolist()
        return torch.ones_like(observation.losses)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_a_teacher_s_part_training_is_the_trainer_s_own(smoothing, tmp_path) -> None:
    settings = {
        "label_smoothing_factor": smoothing,
        "max_grad_norm": 0.3,
        "weight_decay": 0.1,
        "eval_strategy": "epoch",
    }
    runs = []
    for kind in (Trainer, TeachingTrainer):
        run = trainer(
            tmp_path,
            kind,
            settings,
            model=model(**NO_DROPOUT),
            eval_dataset=texts(2, 10, index=list(range(10))),
        )
        if isinstance(run, TeachingTrainer):
            run.teach(Teaching(Watching()), id_column="index")
        run.train()
        runs.append(run)
    plain, taught = runs
    close(taught.model.state_dict(), plain.model.state_dict(), 1e-5)
    for ours, theirs in zip(taught.state.log_history, plain.state.log_history, strict=True):
        assert ours.keys() == theirs.keys()
        for name in {"loss", "grad_norm", "learning_rate", "eval_loss"} & ours.keys():
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4)
    assert sorted(taught.teaching.teacher.ids) == sorted(TRAIN["index"] * 2)
    assert taught.accelerator.sync_gradients


@pytest.mark.parametrize("how", ["no such column", "a collator that drops it"])
def test_a_column_of_ids_that_is_gone_is_an_error_at_the_first_step(how, tmp_path) -> None:
    def dropping(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        names = ("input_ids", "attention_mask", "labels")
        return {name: torch.tensor([row[name] for row in rows]) for name in names}

    if how == "no such column":
        run = trainer(tmp_path, train_dataset=texts(0, 20))
    else:
        run = trainer(tmp_path, data_collator=dropping)
    teach(run)
    with pytest.raises(UsageError, match=r"no column 'index'.*remove_unused_columns"):
        run.train()
    assert run.state.global_step == 0


class Stop(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        control.should_training_stop = state.global_step == 5


def test_what_is_resumed_ends_bit_for_bit_as_what_was_not(tmp_path: Path) -> None:
    settings = {"save_strategy": "steps", "save_steps": 5}
    runs = [teach(trainer(tmp_path / n, settings=settings), Unrolled(3), 4) for n in "abc"]
    whole, stopped, again = runs
    whole.train()
    stopped.add_callback(Stop())
    stopped.train()
    again.train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-5"))
    assert (whole.tutor.steps, stopped.tutor.steps, again.tutor.steps) == (8, 5, 8)
    torch.manual_seed(1)
    fresh = LossWeigher(width=32)
    for taught, before in zip(
        whole.tutor.teacher.parameters(), fresh.parameters(), strict=True
    ):
        assert not torch.equal(taught, before)
    pairs = ((again.model, whole.model), (again.tutor.teacher, whole.tutor.teacher))
    for ours, theirs in pairs:
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)
    judged = [entry["step"] for entry in whole.state.log_history if "held_out_loss" in entry]
    assert judged == [
        6
    ]  # logged every 3 steps, judged every 4; the last was after the last log
    (tmp_path / "b" / "checkpoint-5" / "tutelage.0.pt").unlink()
    with pytest.raises(UsageError, match="knows of no teacher"):
        again.train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-5"))


def test_a_damaged_checkpoint_is_named_with_the_newest_whole_one(tmp_path: Path) -> None:
    run = teach(trainer(tmp_path, settings={"save_strategy": "steps", "save_steps": 2}))
    run.train()
    file = tmp_path / "checkpoint-6" / "tutelage.0.pt"
    file.write_bytes(b"")
    (tmp_path / "checkpoint-8" / "tutelage.0.pt").write_bytes(b"half")
    with pytest.raises(UsageError, match=rf"{file} is damaged.*{tmp_path}/checkpoint-4: go on"):
        run.train(resume_from_checkpoint=str(file.parent))
    for number in (2, 4):
        (tmp_path / f"checkpoint-{number}" / "tutelage.0.pt").unlink()
    with pytest.raises(UsageError, match=rf"{file} is damaged.*no other.*begin anew"):
        run.train(resume_from_checkpoint=str(file.parent))


@pytest.mark.parametrize("alone", [False, True])
def test_the_best_model_comes_back_with_its_teacher(alone, tmp_path: Path) -> None:
    settings = {
        "save_strategy": "steps",
        "save_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": "earliness",
        "greater_is_better": True,
        "save_only_model": alone,
    }
    judges = texts(2, 10, index=list(range(10)))
    calls = itertools.count()
    run = trainer(
        tmp_path,
        settings=settings,
        eval_dataset=judges,
        compute_metrics=lambda _: {"earliness": -next(calls)},
    )
    teach(run).train()
    assert run.state.best_model_checkpoint == str(tmp_path / "checkpoint-2")
    first, last = (
        torch.load(tmp_path / f"checkpoint-{n}" / "tutelage.0.pt")["teacher"] for n in (2, 8)
    )
    found = run.teaching.teacher.state_dict()
    assert any(not torch.equal(found[name], last[name]) for name in found)
    assert all(torch.equal(found[name], first[name]) for name in found)
    if alone:
        with pytest.raises(UsageError, match=r"holds the teacher alone.*save_only_model"):
            run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_half_precision_trains(tmp_path: Path) -> None:
    run = teach(trainer(tmp_path, settings={"bf16": True, "max_steps": 3}))
    before = {k: v.clone() for k, v in run.model.state_dict().items()}
    run.train()
    assert run.tutor.skipped_teacher_steps == 0
    assert all(p.dtype == torch.float32 for p in run.model.parameters())
    assert any(not torch.equal(v, before[k]) for k, v in run.model.state_dict().items())


class OwnLoss(TeachingTrainer):
    def compute_loss(self, *args: Any, **settings: Any) -> Any:
        return super().compute_loss(*args, **settings)


def test_what_would_be_left_out_in_silence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"raise per_device_train_batch_size.*Teaching\(micro_batch=...\)"
    ):
        teach(trainer(tmp_path, settings={"gradient_accumulation_steps": 2}))
    with pytest.raises(UsageError, match="compute_loss gives one loss for a whole batch"):
        teach(trainer(tmp_path, OwnLoss))
    with pytest.raises(UsageError, match=r"call teach\(Teaching\(...\)\) before"):
        trainer(tmp_path).train()
    with pytest.raises(UsageError, match=r"max_grad_norm 1\.0"):
        trainer(tmp_path).teach(Teaching(Watching(), max_norm=0.5))


def test_padding_counts_in_no_loss_and_smoothing_is_the_trainer_s() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 8, WORDS, generator=generator)
    targets = torch.randint(WORDS, (3, 8), generator=generator)
    for shifts in (False, True):
        loss = TrainerLoss(shifts=shifts, smoothing=0.1)
        want = LabelSmoother(0.1)({"logits": logits}, targets, shift_labels=shifts)
        assert float(loss(logits, targets).mean()) == pytest.approx(float(want), rel=1e-6)
        short = loss(logits, targets)
        wide = nn.functional.pad(logits, (0, 0, 0, 56), value=3.0)
        long = loss(wide, nn.functional.pad(targets, (0, 56), value=-100))
        torch.testing.assert_close(long, short)


def test_the_loss_is_that_of_the_model_s_task() -> None:
    several = model(num_labels=3, problem_type="multi_label_classification")
    inputs = torch.randint(WORDS, (4, LENGTH), generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[0.0, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0]])
    found = several.eval()(inputs, labels=labels)
    mean = TrainerLoss.of(several, 0.0)(found.logits, labels).mean()
    assert float(mean.detach()) == pytest.approx(float(found.loss.detach()), rel=1e-5)
    number = model(num_labels=1).eval()
    found = number(inputs, labels=labels[:, 0])
    mean = TrainerLoss.of(number, 0.0)(found.logits, labels[:, 0]).mean()
    assert float(mean.detach()) == pytest.approx(float(found.loss.detach()), rel=1e-5)


def test_columns_of_several_shapes_are_refused() -> None:
    columns = {"a": torch.zeros(2, 3), "b": torch.zeros(2, 4), "labels": torch.zeros(2)}
    with pytest.raises(UsageError, match=r"a \(2, 3\), b \(2, 4\)"):
        stacked(columns, "labels", None)
    with pytest.raises(UsageError, match="no column 'labels' of targets"):
        stacked({"a": torch.zeros(2, 3)}, "labels", None)


def tokens(shares: float) -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    found = torch.randint(1, 3, (10, LENGTH), generator=generator)
    found[torch.rand(10, LENGTH, generator=generator) < shares] = -100
    found[4] = -100
    return found.tolist()


def speaker() -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": WORDS,
        "n_embd": 8,
        "n_layer": 1,
        "n_head": 2,
        "n_positions": 16,
    }
    none: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **none, bos_token_id=1, eos_token_id=1))


def tagger() -> Any:
    settings: dict[str, Any] = CONFIG | NO_DROPOUT | {"num_labels": 3}
    torch.manual_seed(0)
    return BertForTokenClassification(BertConfig(**settings))


def classifier(classes: int, **settings: Any) -> Any:
    return model(**NO_DROPOUT, num_labels=classes, **settings)


SEVERAL = [[float(k == j % 3), float(j % 2), 0.0] for j, k in enumerate([0, 1] * 5)]
NUMBERS = [0.3 * j - 1 for j in range(10)]
TASKS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "some without a label": (lambda: classifier(3), [0, -100, 1, 2, -100] * 2, {}),
    "labels in a column": (lambda: classifier(2), [[0], [1]] * 5, {}),
    "several labels": (lambda: classifier(3), SEVERAL, {}),
    "a number": (lambda: classifier(1), NUMBERS, {}),
    "numbers": (
        lambda: classifier(2, problem_type="regression"),
        [[x, -x] for x in NUMBERS],
        {},
    ),
    "tokens": (tagger, tokens(0.4), {}),
    "smoothed tokens": (tagger, tokens(0.4), {"label_smoothing_factor": 0.1}),
    "the next token": (speaker, tokens(0.3), {}),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_is_the_trainer_s_own_whatever_the_task(name, tmp_path) -> None:
    make, labels, settings = TASKS[name]
    ids = texts(0, 10)["input_ids"]
    given = datasets.Dataset.from_dict({
        "input_ids": ids,
        "attention_mask": torch.ones(10, LENGTH, dtype=torch.int64).tolist(),
        "labels": labels,
        "index": list(range(10)),
    })
    runs = []
    for kind in (Trainer, TeachingTrainer):
        run = trainer(
            tmp_path,
            kind,
            {"num_train_epochs": 1, "logging_steps": 1, **settings},
            model=make(),
            train_dataset=given,
            data_collator=default_data_collator,
        )
        if isinstance(run, TeachingTrainer):
            run.teach(Teaching(Watching()), id_column="index")
        run.train()
        runs.append([entry["loss"] for entry in run.state.log_history if "loss" in entry])
    assert runs[1] == pytest.approx(runs[0], rel=1e-5)


class Routed(BertForSequenceClassification):
    """Trained by a loss of its own."""

    def forward(self, input_ids: Any, attention_mask: Any = None, labels: Any = None) -> Any:  # type: ignore[override]
        found: Any = super().forward(input_ids, attention_mask=attention_mask, labels=labels)
        if labels is not None:
            found.loss = found.loss + 0.01 * found.logits.square().mean() + 0.1
        return found


def test_a_model_with_a_loss_of_its_own_is_refused_by_name(tmp_path: Path) -> None:
    own = Routed(BertConfig(**CONFIG))
    with pytest.raises(UsageError, match=r"Routed is trained by a loss of its own.*objective="):
        teach(trainer(tmp_path, model=own)).train()


def test_labels_that_cannot_be_smoothed_are_refused(tmp_path: Path) -> None:
    run = trainer(tmp_path, settings={"label_smoothing_factor": 0.1}, model=classifier(1))
    with pytest.raises(UsageError, match=r"label_smoothing_factor is 0\.1.*regression"):
        teach(run).train()
    with pytest.raises(UsageError, match=r"Unknown problem_type 'single'.*single_label"):
        TrainerLoss("single")


def test_the_first_look_at_a_model_leaves_no_trace(tmp_path: Path) -> None:
    run = trainer(tmp_path, settings={"max_steps": 1})
    run.model.bert.embeddings.eval()
    teach(run)
    seen: list[bool] = []
    run.model.bert.pooler.register_forward_hook(lambda m, *_: seen.append(m.training))
    run.train()
    assert seen[:2] == [False, False]
    assert all(seen[2:3])
    assert run.tutor.steps == 1
