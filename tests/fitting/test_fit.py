"""``fit``: what it trains, what chooses the epoch, what it reports, how it goes on."""

import functools
import random
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.utils.data import Dataset, TensorDataset

import tutelage as tl
from tests.trained import unchecked
from tutelage.data.order import shuffled
from tutelage.errors import UsageError
from tutelage.fitting.cross_fitting import CrossFitting
from tutelage.fitting.fit_parts import split_checked
from tutelage.fitting.settings import FitSettings
from tutelage.training.forward import StepResult
from tutelage.training.teacher_update import TeacherUpdater
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.train.arms import TAUGHT
from tutelage_cli.train.job import Job, learning_rate
from tutelage_cli.train.settings import TrainSettings

CENTRES = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
Pair = tuple[Tensor, Tensor]


def blobs(count: int, seed: int, wrong: float = 0.0) -> tuple[Pair, Tensor]:
    """Three clouds, and which labels are those of another cloud."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    inputs = CENTRES[labels] + torch.randn(count, 3, generator=generator)
    flipped = torch.rand(count, generator=generator) < wrong
    return (inputs, torch.where(flipped, (labels + 1) % 3, labels)), flipped


TRAINING, WRONG = blobs(240, 0, wrong=0.4)
CHECKED, TEST = blobs(40, 1)[0], blobs(90, 2)[0]


def network(seed: int = 0, width: int = 16) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3)
        )


def run(training: Any = TRAINING, checked: Any = CHECKED, **settings: Any) -> tl.FitResult:
    teacher = None if checked is None else "margin-loss"
    settings = {"epochs": 6, "batch_size": 20, "teacher": teacher, **settings}
    return tl.fit(settings.pop("student", network()), training, checked, **settings)


@functools.cache
def taught() -> tl.FitResult:
    """What is found where nothing else is set; not to be changed."""
    return run()


def same(one: tl.FitResult, other: tl.FitResult) -> bool:
    states = one.student.state_dict(), other.student.state_dict()
    return (
        one.history == other.history
        and torch.equal(one.weights, other.weights)
        and all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    )


def test_the_teacher_finds_wrong_labels_and_the_student_gains() -> None:
    taught = run(test=TEST, epochs=20)
    plain = run(test=TEST, epochs=20, teacher=tl.teachers.Plain())
    assert float(taught.weights[WRONG].mean()) < 0.5 * float(taught.weights[~WRONG].mean())
    assert taught.teacher_steps == 20 * 12 // 5
    assert plain.teacher_steps == 0
    assert torch.equal(plain.weights, torch.ones(240))


def test_plain_training_is_that_of_torch() -> None:
    student, other = network().double(), network().double()
    inputs, labels = TRAINING[0].double(), TRAINING[1]
    found = run(
        (inputs, labels),
        None,
        student=student,
        decay_at=(0.5,),
        seed=3,
        optimizer=lambda p: SGD(p, 0.05, 0.5),
    )
    optimizer = SGD(other.parameters(), 0.05, 0.5)
    for epoch in range(6):
        optimizer.param_groups[0]["lr"] = 0.05 if epoch < 3 else 0.005
        for request in shuffled(torch.arange(240), 20, 3, epoch):
            loss = nn.functional.cross_entropy(
                other(inputs[request.rows]), labels[request.rows]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert found.best_epoch == 6
    mine, plain = student.state_dict(), other.state_dict()
    for name, value in plain.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-10, atol=1e-12)


def test_checked_examples_are_split_by_class_and_without_overlap() -> None:
    labels = torch.tensor([0] * 9 + [1] * 2 + [2] + [3] * 4)
    learn, choose = split_checked(labels, 0)
    assert sorted([*learn.tolist(), *choose.tolist()]) == list(range(16))
    assert torch.bincount(labels[choose], minlength=4).tolist() == [2, 1, 0, 1]
    others = split_checked(labels, 1)[1]
    assert choose.tolist() != others.tolist()


def test_what_chooses_the_epoch_teaches_nothing() -> None:
    right = run(validation=TEST)
    reversed_labels = run(validation=(TEST[0], 2 - TEST[1]))
    losses = [[entry["train_loss"] for entry in r.history] for r in (right, reversed_labels)]
    assert losses[0] == losses[1]
    accuracies = [r.history[-1]["validation_accuracy"] for r in (right, reversed_labels)]
    assert accuracies[0] > 0.5 > accuracies[1]
    assert "held out" in right.accuracies
    assert right.accuracies["held out"][1] == len(CHECKED[1])
    assert right.accuracies["validation"][1] == len(TEST[1])


def test_the_student_and_the_weights_are_those_of_the_best_epoch(monkeypatch) -> None:
    records: list[StepResult] = []
    step = Tutor.step

    def recorded(self: Tutor, batch: Batch, held_out: Batch | None = None) -> StepResult:
        records.append(step(self, batch, held_out))
        return records[-1]

    monkeypatch.setattr(Tutor, "step", recorded)
    found = run(validation=TEST, epochs=8, optimizer=lambda p: SGD(p, 0.3, 0.9))
    entry = found.history[found.best_epoch - 1]
    accuracies = [e["validation_accuracy"] for e in found.history]
    assert entry["validation_accuracy"] == max(accuracies)
    assert found.best_epoch < 8  # else the last one would do
    assert not found.student.training
    right = (found.student(TEST[0]).argmax(1) == TEST[1]).float().mean()
    assert float(right) == pytest.approx(entry["validation_accuracy"])
    for record in records[12 * (found.best_epoch - 1) : 12 * found.best_epoch]:
        share = record.weights / record.weights.mean()
        torch.testing.assert_close(found.weights[record.ids], share)


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    state = torch.get_rng_state()
    assert same(run(), taught())
    assert torch.equal(torch.get_rng_state(), state)
    assert not same(taught(), run(seed=1))


class Interrupted(Dataset[tuple[Tensor, int]]):
    """Jitters its inputs, and stops the program at one of its reads."""

    def __init__(self, stop: int | None = None) -> None:
        self.reads, self.stop = 0, stop

    def __len__(self) -> int:
        return len(TRAINING[1])

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        self.reads += 1
        if self.reads == self.stop:
            raise KeyboardInterrupt
        noise = random.gauss(0, 0.1) + np.random.normal(0, 0.1) + torch.randn(3) / 10  # noqa: NPY002
        return TRAINING[0][place] + noise, int(TRAINING[1][place])


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path) -> None:
    whole = run(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(stop=1000), folder=tmp_path)
    again = Interrupted()
    assert same(run(again, folder=tmp_path), whole)
    assert again.reads < 600  # two epochs and the first example
    done = Interrupted()
    assert same(run(done, folder=tmp_path, student=network(seed=5)), whole)
    assert done.reads == 1


def test_worker_processes_change_nothing() -> None:
    assert same(run(Interrupted(), epochs=2), run(Interrupted(), epochs=2, workers=2))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epochs": 3}, "its epochs is 2, here 3"),
        ({"training": (TRAINING[0], TRAINING[1].flip(0))}, "its data of training is"),
        ({"teacher": tl.teachers.LossWeigher()}, "its teacher is MarginLoss, here LossWeigher"),
    ],
)
def test_a_folder_of_another_run_is_refused(tmp_path, changed, said) -> None:
    run(epochs=2, folder=tmp_path)
    with pytest.raises(UsageError, match=f"is of another run: {said}"):
        run(**{"epochs": 2, "folder": tmp_path, **changed})


def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path) -> None:
    run(epochs=1, folder=tmp_path)
    file = tmp_path / "fit.pt"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    for place in range(middle, middle + 256):  # more than is left between two entries
        content[place] ^= 255
    file.write_bytes(content)
    with pytest.raises(
        UsageError, match=r"fit\.pt is damaged.*Delete it to begin anew"
    ) as raised:
        run(epochs=1, folder=tmp_path)
    assert "\n" not in str(raised.value)


class Pictures(Dataset[tuple[Any, int]]):
    """Grey or coloured squares, brighter by class."""

    def __init__(self, count: int, transform: Callable[[Any], Any] | None, mode: str) -> None:
        self.count, self.transform, self.mode = count, transform, mode

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> tuple[Any, int]:
        pixels = np.random.default_rng(place).integers(0, 90, (8, 8)) + 80 * (place % 3)
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).convert(self.mode)
        return self.transform(image) if self.transform else image, place % 3


def to_tensor(image: Image.Image) -> Tensor:
    pixels = torch.tensor(np.array(image), dtype=torch.float32) / 255
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)
    )


def test_pictures_a_batch_norm_and_a_lazy_layer_are_taught() -> None:
    found = run(
        Pictures(60, to_tensor, "L"),
        Pictures(12, to_tensor, "L"),
        test=Pictures(30, to_tensor, "L"),
        student=convolutional(),
        optimizer=lambda p: Adam(p, 0.01),
    )
    assert found.accuracies["test"][0] > 0.9
    assert found.teacher_steps == 6 * 3 // 5


def test_a_tensor_data_set_is_its_tensors() -> None:
    assert same(run(TensorDataset(*TRAINING), TensorDataset(*CHECKED)), taught())


def test_arrays_are_taken_in_the_numbers_of_the_student() -> None:
    arrays = [tuple(part.numpy() for part in pair) for pair in (TRAINING, CHECKED)]
    doubled = [(inputs.astype(np.float64), labels) for inputs, labels in arrays]
    assert same(run(*doubled), taught())


def test_arrays_of_another_byte_order_are_taken() -> None:
    def swapped(part: Tensor) -> np.ndarray:
        found = part.numpy()
        return found.astype(found.dtype.newbyteorder())

    pairs = [tuple(map(swapped, pair)) for pair in (TRAINING, CHECKED)]
    assert same(run(*pairs), taught())
    weights = torch.rand(len(TRAINING[1]), generator=torch.Generator().manual_seed(0))
    few = {"teacher": None, "folds": 2, "epochs": 1}
    with unchecked():  # fit is annotated with tensors
        results = [run(**few, weights=w) for w in (swapped(weights), weights)]
    assert same(*results)


def bad(inputs: Tensor = TRAINING[0], labels: Any = TRAINING[1]) -> tuple[Tensor, Any]:
    return inputs, labels


NAN = TRAINING[0].clone()
NAN[7, 1] = float("nan")
BEYOND = TRAINING[1].clone()
BEYOND[9] = 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"training": bad(NAN)}, "training has inputs that are no finite .*in example 7"),
        (
            {"training": bad(labels=BEYOND)},
            r"example 9 of training has label 3; allowed: 0\.\.2",
        ),
        ({"checked": bad(labels=BEYOND)}, "example 9 of checked has label 3"),
        ({"training": bad(labels=TRAINING[1].float())}, "labels that are float32"),
        ({"training": bad(labels=np.array(["a"] * 240))}, "TaughtClassifier takes them"),
        ({"training": bad(labels=TRAINING[1][:5])}, r"shape \(240, 3\) and labels of .*\(5,\)"),
        ({"training": TRAINING[0]}, "training is a Tensor; allowed: a pair"),
        (
            {"training": bad(TRAINING[0][:, :2])},
            r"cannot take inputs that are float32 of .*2\)",
        ),
        ({"training": bad(TRAINING[0].byte())}, "cannot take inputs that are uint8"),
        ({"checked": (CHECKED[0][:0], CHECKED[1][:0])}, "checked is empty"),
        (
            {"checked": (CHECKED[0][:, :2], CHECKED[1])},
            "checked has inputs that are .*same for",
        ),
        ({"test": (TEST[0].long(), TEST[1])}, "test has inputs that are int64"),
        (
            {"checked": None, "teacher": tl.teachers.LossWeigher()},
            "there are none: give checked",
        ),
        ({"student": nn.Linear(3, 1)}, r"gives float32 of shape \(1, 1\) for one example"),
        ({"student": network().requires_grad_(False)}, "no parameter that is trained"),
        ({"optimizer": lambda _: 3}, "optimizer gives a int; allowed: a function"),
        ({"optimizer": lambda p: SGD(p, 1e30, 0.9)}, "The student diverged in epoch 1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"decay_at": (2.0,)}, "decay_at holds shares"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given, said) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        run(**given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"training": Pictures(60, None, "L")}, "training gives examples that make no batch"),
        (
            {"checked": Pictures(12, to_tensor, "RGB")},
            r"checked has inputs that are float32 of shape \(3, 8, 8\), .*\(1, 8, 8\)",
        ),
    ],
)
def test_pictures_that_do_not_fit_are_refused_in_one_line(given, said) -> None:
    pictures = {
        "training": Pictures(60, to_tensor, "L"),
        "checked": Pictures(12, to_tensor, "L"),
        "student": convolutional(),
    }
    with pytest.raises(UsageError, match=said) as raised:
        run(**{**pictures, **given})
    assert "\n" not in str(raised.value)


def test_the_report_says_what_was_measured_and_what_asks_for_caution() -> None:
    some = CHECKED[1] < 2
    found = run(checked=(CHECKED[0][some], CHECKED[1][some]), test=TEST)
    lines = found.report().splitlines()
    low = float((found.weights < 0.5).float().mean())
    assert lines[0] == f"epoch {found.best_epoch} of 6 is the best"
    assert lines[1] == f"test: {found.accuracies['test'][0]:.1%} of 90 examples correct"
    assert (
        f"{low:.1%} of 240 training examples have a weight below 0.5 (the mean is 1)" in lines
    )
    assert "14 teacher steps" in lines
    cautions = [line for line in lines if line.startswith("caution: ")]
    assert "no checked example is of class 2 (classes are 0..2): " in cautions[0]
    assert "14 teacher steps are few" in cautions[1]
    assert len(cautions) == 2
    assert "caution" not in run(epochs=22).report()


def test_checked_examples_of_one_class_are_warned_of() -> None:
    one = CHECKED[1] == 0
    with pytest.warns(
        UserWarning, match=r"no checked example is of class 1, 2 \(classes are 0..2\)"
    ):
        run(checked=(CHECKED[0][one], CHECKED[1][one]), epochs=1)


def test_without_examples_that_choose_the_last_epoch_counts() -> None:
    found = run(checked=(CHECKED[0][:3], CHECKED[1][:3]))
    assert found.best_epoch == 6
    assert "no example chose the best epoch" in found.report()


def test_progress_is_a_line_an_epoch_on_stderr(capsys) -> None:
    run(epochs=2, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(":")[0] for line in err.splitlines()] == ["epoch 1/2", "epoch 2/2"]
    run(epochs=1)
    assert capsys.readouterr().err == ""


def test_defaults_are_those_of_the_application(tmp_path) -> None:
    settings, taught = TrainSettings(), TAUGHT["margin-loss"]
    defaults = {name: p.default for name, p in signature(tl.fit).parameters.items()}
    for name in ("epochs", "batch_size", "decay_at", "folds"):
        assert defaults[name] == getattr(settings, name)
    assert (defaults["teacher_lr"], defaults["teacher_every"]) == (taught.lr, taught.every)
    for epochs in (1, 3, 12):
        own = FitSettings(epochs, 1, settings.decay_at, 0.0, 1, 0, 2)
        job = Job(tmp_path, "untaught", 0, TrainSettings(epochs=epochs))
        rates = [learning_rate(job.settings, epoch) for epoch in range(epochs)]
        assert [settings.lr * own.lr_factor(epoch) for epoch in range(epochs)] == rates


@pytest.mark.parametrize(
    "kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint64], ids=str
)
def test_class_ids_of_every_whole_type_are_the_same(kind) -> None:
    (inputs, labels), (held, right) = TRAINING, CHECKED
    found = run((inputs, labels.to(kind)), (held, right.to(kind)), epochs=2)
    assert same(found, run(epochs=2))


def test_inputs_that_carry_a_graph_are_detached() -> None:
    leaf = TRAINING[0].clone().requires_grad_()
    found = run((leaf * 1.0, TRAINING[1]), (CHECKED[0].clone().requires_grad_(), CHECKED[1]))
    assert leaf.grad is None
    assert same(found, taught())


def test_whole_numbers_of_any_library_are_taken_and_others_refused() -> None:
    with unchecked():
        assert same(run(seed=np.int64(3), epochs=np.int64(2)), run(seed=3, epochs=2))
    for setting in ({"seed": 1.5}, {"epochs": 2.5}, {"seed": 2**70}, {"batch_size": "8"}):
        with unchecked(), pytest.raises(UsageError, match="allowed: "):
            run(**setting)


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer": lambda p: SGD(p, 0.01, 0.9, weight_decay=5e-4)},
        {"optimizer": lambda p: SGD(p, 0.1, 0.8, weight_decay=5e-4)},
        {"signal": tl.Lookahead()},
    ],
    ids=["learning rate", "momentum", "signal"],
)
def test_a_folder_of_another_run_is_refused_by_what_differs(other, tmp_path) -> None:
    run(folder=tmp_path, epochs=2)
    with pytest.raises(UsageError, match=r"is of another run: its (optimizer settings|signal)"):
        run(folder=tmp_path, epochs=2, **other)


def test_a_folder_that_is_a_file_is_refused_before_training(tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        run(folder=file)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "settings",
    [
        {"student": nn.Linear(3, 3).bfloat16()},
        {"student": nn.Linear(3, 3), "optimizer": lambda p: SGD(p, 0.1, momentum=0.01)},
    ],
    ids=["bfloat16", "little momentum"],
)
def test_the_default_signal_fits_the_student_and_its_optimiser(settings) -> None:
    assert run(**settings).teacher_steps > 0


@pytest.mark.parametrize("evaluate_on", ["next", "plain"])
def test_a_teacher_step_that_waits_is_not_counted(evaluate_on, monkeypatch) -> None:
    taken = []
    step = TeacherUpdater._step
    monkeypatch.setattr(
        TeacherUpdater, "_step", lambda self, *args: taken.append(1) or step(self, *args)
    )
    signal = tl.Lookahead(evaluate_on=evaluate_on)
    found = run(signal=signal, epochs=1, teacher_every=4)
    assert found.teacher_steps == len(taken) == found.history[-1]["teacher_steps"]


def test_another_default_type_changes_nothing() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = run(student=network().float(), epochs=2)
    finally:
        torch.set_default_dtype(before)
    assert found.weights.dtype == torch.float32


def test_batch_normalisation_of_one_example_is_refused() -> None:
    with pytest.raises(UsageError, match="batch normalisation, which needs two examples"):
        run(checked=(CHECKED[0][:2], torch.ones(2, dtype=torch.long)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"signal": tl.Lookahead},
        {"signal": "lookahead"},
        {"teacher": "margin"},
        {"teacher": tl.teachers.Plain},
        {"optimizer": SGD([torch.zeros(1)], 0.1)},
        {"training": ([[1.0, 2.0, 3.0]], [0])},
    ],
    ids=str,
)
def test_what_is_of_another_kind_is_refused_in_one_line(wrong) -> None:
    with unchecked(), pytest.raises(UsageError, match="allowed: ") as raised:
        run(**wrong)
    assert "\n" not in str(raised.value)


def test_a_student_that_gives_no_logits_is_refused_in_one_line() -> None:
    class Pair(nn.Linear):
        def forward(self, input: Tensor) -> Any:
            return {"scores": super().forward(input)}

    with unchecked(), pytest.raises(UsageError, match=r"The student (gives|cannot take)"):
        run(student=Pair(3, 3))


# The weight decay that given labels choose.


def decayed(factor: float) -> Callable[[list[nn.Parameter]], SGD]:
    return lambda params: SGD(params, 0.1, 0.9, weight_decay=factor * 5e-4)


@pytest.mark.parametrize("teacher", ["margin-loss", tl.teachers.Plain()])
def test_a_chosen_weight_decay_is_that_times_the_optimiser_s_own(teacher, tmp_path) -> None:
    chosen = run(teacher=teacher, choose_weight_decay=True, folder=tmp_path)
    assert chosen.decay_factor > 1  # four labels in ten are wrong
    assert same(chosen, run(teacher=teacher, optimizer=decayed(chosen.decay_factor)))
    again = run(teacher=teacher, choose_weight_decay=True, folder=tmp_path)
    assert same(again, chosen)
    assert again.decay_factor == chosen.decay_factor
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.pt", "weight-decay.pt"]


@pytest.mark.parametrize("best", [1.0, 60.0, 100.0])
def test_the_weight_decay_is_that_of_the_best_prediction_of_labels_not_trained_on(
    best, monkeypatch
) -> None:
    tried = []

    def fitted(_, training, start):
        assert start is None
        own = torch.ones(len(TRAINING[1]), dtype=torch.bool)
        own[training.rows] = False
        assert 40 <= int(own.sum()) <= 56  # a fifth
        labels, factor = TRAINING[1][own], training.settings.decay_factor
        tried.append(factor)
        right = nn.functional.one_hot(labels, 3).float()
        off = 0.1 if factor == best else 0.6
        return {"train": right * (1 - off) + off / 3, "checked": torch.zeros(0, 3)}

    monkeypatch.setattr(CrossFitting, "_fitted", fitted)
    assert run(choose_weight_decay=True, epochs=1).decay_factor == best
    assert tried == [1.0, 1.0, 30.0, 60.0, 100.0]


def test_a_run_with_a_chosen_weight_decay_is_another_run(tmp_path) -> None:
    run(epochs=1, choose_weight_decay=True, folder=tmp_path / "chosen")
    run(epochs=1, folder=tmp_path / "given")
    for folder, choose in (("chosen", False), ("given", True)):
        with pytest.raises(UsageError, match=r"is of another run: its optimizer settings"):
            run(epochs=1, choose_weight_decay=choose, folder=tmp_path / folder)


def test_cross_fitting_takes_no_choice_of_the_weight_decay() -> None:
    with pytest.raises(UsageError, match="choose_weight_decay is about students with a teach"):
        run(teacher=None, choose_weight_decay=True)
