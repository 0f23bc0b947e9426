"""Tables of feature vectors in place of images, through the command line."""

import csv
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.trained import QUICK, assert_same_run, content, one_line, run, unchecked
from tutelage.models.heads import mlp
from tutelage_cli.data.features.feature_set import FeatureSet, feature_statistics
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings

LEARN = ["--steps", "2", "--episodes", "2", "--batch-size", "8"]
TRAIN = [*QUICK, "--teacher", "margin-loss", "internal-state", "--teacher-every", "2"]
CLASSES = ("cat", "dog", "emu")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Sixty vectors of five numbers about the mean of their class, in three kinds of files."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    values = random.normal(size=(60, 5)) + 3 * np.eye(5)[labels]
    np.save("x.npy", values)
    words = [CLASSES[label] for label in labels]
    table("y.csv", "label", words)
    np.savez("both.npz", features=values, labels=np.array(words))
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.flatten()), 5)
    pq.write_table(pa.table({"embedding": column, "label": words}), "both.parquet")
    with unchecked():
        yield


def table(file: str, column: str, words: list[str]) -> None:
    with Path(file).open("w", newline="", encoding="utf-8") as rows:
        csv.writer(rows).writerows([(column,), *((word,) for word in words)])


def source_of(**settings: object) -> FeatureSet:
    found = read_source(TrainSettings(**settings)).splits.train  # type: ignore[arg-type]
    assert isinstance(found, FeatureSet)
    return found


def test_a_table_trains_and_leaves_what_was_made_of_every_row():
    answer = run("train", "x.npy", "--labels-from", "y.csv", *TRAIN, "--out", "x")
    assert answer.code == 0, answer
    assert "39 training, 9 held-out and 12 test rows in 3 classes" in answer.out
    assert content(Path("x/summary.json"))["arms"]["untaught"][0]["test_accuracy"] > 0.5
    rows = pq.read_table("x/students/margin-loss-seed0/examples.parquet").to_pylist()
    assert [row["name"] for row in rows] == [f"row {row['id'] + 2}" for row in rows]
    assert {row["label"] for row in rows} == set(CLASSES)
    assert all(row["label"] == CLASSES[row["id"] % 3] for row in rows)


def test_all_kinds_of_files_are_the_same_data():
    ways = (
        {"data": "x.npy", "labels_from": Path("y.csv")},
        {"data": "both.npz"},
        {"data": "both.parquet"},
    )
    one, *others = (source_of(**way) for way in ways)
    assert one.classes == CLASSES
    for other in others:
        assert all(a.equal(b) for a, b in zip(one.tensors(), other.tensors(), strict=True))


def test_labels_of_a_file_of_their_own_may_be_wrong_ones_where_the_data_have_some():
    arrays = dict(np.load("both.npz"))
    np.savez("parts.npz", **arrays, test_features=np.ones((4, 5)), test_labels=["emu"] * 4)
    table("seen.csv", "label", ["cat"] * 60)
    settings = TrainSettings("parts.npz", labels_from=Path("seen.csv"), label_column="label")
    material = seed_material(read_source(settings), settings, 0)
    assert set(material.train.labels.tolist()) == {0}
    assert material.truth is not None
    assert set(material.truth.tolist()) == {0, 1, 2}


def test_a_test_part_is_that_of_the_file():
    arrays = dict(np.load("both.npz"))
    np.savez("parts.npz", **arrays, test_features=np.ones((4, 5)), test_labels=["emu"] * 4)
    splits = read_source(TrainSettings("parts.npz", held_out=9)).splits
    assert (len(splits.train), splits.test.labels.tolist()) == (60, [2] * 4)


def test_batches_are_normalised_by_the_training_rows_in_float64():
    found = source_of(data="both.npz")
    mean, std = feature_statistics(found)
    values = found.features.double()
    assert torch.allclose(mean.double(), values.mean(0), atol=1e-7)
    assert torch.allclose(std.double(), values.std(0, correction=0), atol=1e-6)
    still = FeatureSet(
        torch.full((3, 2), 7.0), torch.tensor([0, 1, 1]), torch.arange(3), ("a", "b"), "still"
    )
    assert feature_statistics(still)[1].tolist() == [1, 1]


def test_a_column_of_small_numbers_is_normalised_beside_one_of_large_ones():
    rows = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    rows *= torch.tensor([1e-3, 5e3, 0])
    rows[:, 2] += 0.1
    rows[:, 1] += 1e9  # seconds of a clock, which float32 rounds to multiples of 64
    labels = torch.arange(200) % 2
    found = FeatureSet(rows, labels, torch.arange(200), ("a", "b"), "own", ())
    mean, std = feature_statistics(found)
    scaled = ((rows - mean) / std).std(0)
    torch.testing.assert_close(scaled[:2], torch.ones(2), atol=0.01, rtol=0)
    assert std[2] == 1


@pytest.mark.parametrize(("features", "hidden"), [(5, 32), (100, 200), (256, 512), (2000, 512)])
def test_the_width_of_the_perceptron_follows_that_of_the_features(features, hidden):
    student = mlp(features, 3)
    assert [type(part).__name__ for part in student] == [
        "Linear",
        "BatchNorm1d",
        "ReLU",
        "Linear",
    ]
    assert student[1].num_features == hidden


def test_a_linear_student_is_taught_too():
    answer = run("train", "both.npz", *TRAIN, "--student", "linear", "--out", "x")
    assert answer.code == 0, answer


@pytest.mark.usefixtures("report_in_a_word")
def test_two_processes_train_the_same_students_as_one():
    for jobs, out in (("1", "one"), ("2", "two")):
        words = ["--jobs", jobs] if jobs == "2" else []
        assert run("train", "both.npz", *TRAIN, *words, "--out", out).code == 0
    assert_same_run(Path("one"), Path("two"))


def test_a_commentary_and_weights_of_a_table_are_used_again_and_inspected():
    assert run("train", "both.npz", *TRAIN, "--noise", "flip:0.3", "--out", "x").code == 0
    kept = "x/students/margin-loss-seed0/examples.parquet"
    for flags in (
        ["--weights-from", kept, "--default-weight", "1"],
        ["--commentary", "x/commentary"],
    ):
        answer = run("train", "both.npz", *QUICK, *flags)
        assert answer.code == 0, answer
    answer = run("inspect", "x", "--arm", "margin-loss", "--out", "seen")
    assert answer.code == 0, answer


@pytest.mark.parametrize("file", ["x.npy", "both.npz", "both.parquet"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--student", "resnet20"], "Unknown student 'resnet20' of feature vectors."),
        (["--augment", "crop"], "augment is about images, but"),
        (["--max-length", "9"], "--max-length is about texts, but"),
        (["--freeze"], "freeze is about pretrained students, but"),
        (["--teacher", "curriculum"], "has features"),
        (["--noise", "human:worst"], "human"),
        (["--label-column", "what"], "no column 'what' (--label-column)"),
    ],
)
def test_what_does_not_go_with_features_is_one_line(file, flags, message):
    labels = ["--labels-from", "y.csv"] if file == "x.npy" else []
    if "human:worst" in flags and labels:
        message = "both give the labels"
    one_line(run("train", file, *labels, *QUICK, *flags, "--out", "x"), message)


def saved(values: object) -> None:
    np.save("odd.npy", np.array(values), allow_pickle=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((60, 2, 2)), "shape (60, 2, 2); allowed: [N, D]"),
        (np.ones(60), "shape (60,); allowed: [N, D]"),
        (np.ones((60, 0)), "shape (60, 0); allowed: [N, D]"),
        (
            np.where(np.arange(60)[:, None] == 7, np.nan, np.ones((60, 2))),
            "odd.npy has NaN, infinity or numbers beyond single precision at index 7: drop",
        ),
        (np.full((60, 2), 1e39), "beyond single precision"),
        (np.full((60, 2), 1j), "complex128 values; allowed: real numbers"),
        (np.full((60, 2), "a"), "allowed: real numbers"),
        (np.full((60, 2), None), "cannot be read as a .npy file of numbers"),
        (np.ones((59, 2)), "column 'label' of"),
    ],
)
def test_arrays_that_are_no_tables_of_numbers_are_one_line(values, message):
    saved(values)
    one_line(run("train", "odd.npy", "--labels-from", "y.csv", *QUICK), message)


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        (
            "features",
            np.nan,
            "has NaN, infinity or numbers beyond single precision at index 3: ",
        ),
        ("labels", np.nan, "odd.npz has no label at index 3; label"),
        ("name", " ", "odd.npz has no name at index 3; name"),
        ("name", "n5", "odd.npz has several rows of n5 at indices 3, 5; keep"),
    ],
)
def test_a_fault_in_an_array_is_named_by_its_index(array, value, message):
    rows = np.arange(60)
    names = np.array([f"n{row}" for row in rows])
    arrays = {"features": np.ones((60, 2)), "labels": rows % 3 * 1.0, "name": names}
    arrays[array][3] = value
    np.savez("odd.npz", **arrays)
    answer = run("train", "odd.npz", *QUICK)
    one_line(answer, message)
    assert "header" not in answer.err


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize(
    "values",
    [
        np.arange(120).reshape(60, 2),
        np.arange(120).reshape(60, 2) > 60,
        np.asfortranarray(np.random.default_rng(1).normal(size=(60, 3))),
        np.arange(60).reshape(60, 1).astype(np.float16),
        np.arange(120).reshape(60, 2).astype(">f8"),
        np.arange(120).reshape(60, 2).astype(np.longdouble),
        np.where(np.arange(120).reshape(60, 2) % 3 == 1, 1e38, -1e38),
        np.ones((60, 2)),
    ],
    ids=["int64", "bool", "fortran", "float16", "big endian", "longdouble", "huge", "constant"],
)
def test_real_numbers_of_every_kind_are_trained_on_as_they_are(values):
    np.savez("odd.npz", features=values, labels=np.arange(60) % 3)
    train = source_of(data="odd.npz")
    assert torch.equal(train.features, torch.tensor(values.astype(np.float32))[train.ids])
    answer = run("train", "odd.npz", *TRAIN, "--epochs", "1", "--out", "x")
    assert answer.code == 0, answer


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(60) % 3 + 1.0,
        (np.arange(60) % 3).astype(np.longdouble),
        (np.arange(60) % 3).astype(np.float16),
        (np.arange(60) % 3).astype(np.uint64),
        np.arange(60) % 2 == 0,
        np.where(np.arange(60) == 7, np.nan, np.arange(60) % 3),
    ],
    ids=["from 1", "longdouble", "float16", "uint64", "bool", "missing"],
)
def test_labels_of_every_kind_of_number_are_classes(labels):
    np.savez("odd.npz", features=np.random.default_rng(0).normal(size=(60, 2)), labels=labels)
    train = source_of(data="odd.npz", missing_labels="skip")
    known = labels[train.ids].tolist()
    names = [str(k) if isinstance(k, bool) else str(int(k)) for k in known]
    assert [train.classes[label] for label in train.labels.tolist()] == names


def test_one_held_out_row_under_batch_normalisation_is_one_line():
    alone = ["--batch-size", "8", "--controls", "none", "--seeds", "1", "--epochs", "1"]
    for teacher in ("margin-loss", "reweight"):
        answer = run("train", "both.npz", *alone, "--held-out", "1", "--teacher", teacher)
        one_line(answer, "mlp", teacher, "--held-out 1", "--held-out 2 or more", "linear")
    answer = run("train", "both.npz", *QUICK, "--batch-size", "1")
    one_line(answer, "--batch-size 1", "--batch-size 2 or more")


class Trap:
    def __reduce__(self):
        return Path.mkdir, (Path("sprung"),)


def test_nothing_is_unpickled_and_arrays_that_are_not_asked_for_do_no_harm():
    saved([Trap()] * 60)
    line = "holds Python objects, which are never unpickled"
    one_line(run("train", "odd.npy", "--labels-from", "y.csv", *QUICK), line)
    Path("odd.npy").write_bytes(pickle.dumps(Trap()))
    one_line(run("train", "odd.npy", "--labels-from", "y.csv", *QUICK), line)
    np.savez("odd.npz", **dict(np.load("both.npz")), more=np.array([Trap()], dtype=object))
    assert len(source_of(data="odd.npz")) == 48
    np.savez("odd.npz", features=np.ones((4, 2)), labels=np.array([Trap()] * 4, dtype=object))
    one_line(run("train", "odd.npz", *QUICK), "array 'labels'", line)
    assert not Path("sprung").exists()


def test_damaged_headers_are_one_line():
    whole = Path("x.npy").read_bytes()
    for damaged in (
        whole.replace(b"(60, 5)", b"(999999"),
        whole.replace(b"(60, 5), }" + b" " * 8, b"(6000000000000, 5)"),
        whole.replace(b"(60, 5), }" + b" " * 8, b"(6000000000, 5), }"),
        whole.replace(b"descr", b"DESCR"),
        whole[:40],
        whole[:400],
    ):
        Path("odd.npy").write_bytes(damaged)
        answer = run("train", "odd.npy", "--labels-from", "y.csv", *QUICK)
        one_line(answer, "odd.npy cannot be read as a .npy file of numbers")
    Path("odd.npz").write_bytes(whole)
    one_line(run("train", "odd.npz", *QUICK), "holds one array", "rename it to .npy")
    Path("odd.npy").write_bytes(Path("both.npz").read_bytes())
    answer = run("train", "odd.npy", "--labels-from", "y.csv", *QUICK)
    one_line(answer, "holds several arrays", "rename it to .npz")


def test_parquet_of_odd_vectors_and_shards_is_told_or_read():
    def odd(values: pa.Array) -> Path:
        pq.write_table(pa.table({"features": values, "label": ["a", "b"] * 30}), "odd.parquet")
        return Path("odd.parquet")

    for values in ([["a"]] * 60, [[[1.0]]] * 60, [1.0] * 60):
        one_line(
            run("train", odd(pa.array(values)), *QUICK),
            "column 'features'",
            "holds ",
            "lists of real",
        )
    assert source_of(data=str(odd(pa.array([[True, False]] * 60)))).features.sum() == 48
    whole = pq.read_table("both.parquet")
    Path("shards").mkdir()
    for place, rows in enumerate((whole.slice(0, 40), whole.slice(0, 0), whole.slice(40))):
        pq.write_table(rows, f"shards/train-{place}.parquet")
    one, other = source_of(data="shards"), source_of(data="both.parquet")
    assert all(a.equal(b) for a, b in zip(one.tensors(), other.tensors(), strict=True))
    assert one.names()[0] == "row 2 of train-0.parquet"
    numbered = whole.set_column(1, "label", pa.array(list(range(3)) * 20))
    pq.write_table(numbered, "shards/train-1.parquet")
    one_line(run("train", "shards", *QUICK), "labels are", "train-0", "train-1")
    pq.write_table(whole.slice(0, 0), "odd.parquet")
    one_line(run("train", "odd.parquet", *QUICK), "holds no rows")
    pq.write_table(whole.append_column("name", pa.array(["a", None] * 30)), "odd.parquet")
    one_line(run("train", "odd.parquet", *QUICK), "no name in row")


def test_what_is_missing_in_files_is_one_line():
    one_line(run("train", "x.npy", *QUICK), "features without labels", "--labels-from")
    one_line(run("train", "gone.npy", "--labels-from", "y.csv", *QUICK), "there is no file")
    Path("odd.npy").write_bytes(b"nothing")
    one_line(run("train", "odd.npy", "--labels-from", "y.csv", *QUICK), "cannot be read as")
    Path("odd.npz").write_bytes(b"nothing")
    one_line(run("train", "odd.npz", *QUICK), "cannot be read as")
    np.savez("odd.npz", features=np.ones((4, 2)))
    one_line(run("train", "odd.npz", *QUICK), "none of the columns label", "--label-column")
    np.savez("odd.npz", features=np.ones((4, 2)), labels=np.arange(3))
    one_line(run("train", "odd.npz", *QUICK), "3 values, but there are 4 rows")
    np.savez("odd.npz", features=np.ones((4, 2)), labels=np.full(4, None))
    one_line(run("train", "odd.npz", *QUICK), "cannot be read as")
    table = pa.table({"features": [[1.0, 2.0], [3.0]], "label": ["a", "b"]})
    pq.write_table(table, "odd.parquet")
    one_line(run("train", "odd.parquet", *QUICK), "no vector of 2 numbers in row 3")
    table = pa.table({"features": [[1.0], None], "label": ["a", "b"]})
    pq.write_table(table, "odd.parquet")
    one_line(run("train", "odd.parquet", *QUICK), "no vector of 1 numbers in row 3")
    one_line(run("train", "y.csv", "--feature-column", "z", *QUICK), "--feature-column is 'z'")


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize("algorithm", ["unroll", "implicit"])
@pytest.mark.parametrize("teacher", ["margin-loss", "internal-state", "loss", "l2t-loss"])
def test_a_commentary_is_learned_over_fresh_students(teacher, algorithm):
    others = np.random.default_rng(1).normal(size=(9, 5))
    np.savez("checked.npz", features=others, labels=np.array(CLASSES * 3))
    flags = ["--teacher", teacher, "--algorithm", algorithm, "--held-out-from", "checked.npz"]
    answer = run("commentary", "learn", "both.npz", *LEARN, *flags, "--out", "c")
    assert answer.code == 0, answer
    assert content(Path("c/commentary.json"))["learnt_on"]["student"] == "mlp"
    assert run("commentary", "show", "c").code == 0
    answer = run("train", "both.npz", *QUICK, "--commentary", "c", "--out", "used")
    assert answer.code == 0, answer


def test_vectors_with_labels_beside_them_and_what_does_not_fit_are_learned_from_or_refused():
    flags = ["--teacher", "margin-loss", "--labels-from", "y.csv"]
    answer = run("commentary", "learn", "x.npy", *LEARN, *flags, "--out", "c")
    assert answer.code == 0, answer
    assert "train x.npy --labels-from y.csv --commentary c" in answer.out
    for teacher in ("curriculum", "blending", "mask"):
        answer = run("commentary", "learn", "both.npz", "--teacher", teacher, "--out", "d")
        one_line(answer, f"{teacher} needs images", "feature vectors", "margin-loss")
    words = ["--teacher", "loss", "--student", "cnn", "--out", "d"]
    one_line(run("commentary", "learn", "both.npz", *words), "Unknown student 'cnn'")
