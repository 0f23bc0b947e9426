"""A second table is matched by its names or ids wherever it has some, never by guess."""

import csv
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tutelage.errors import UsageError
from tutelage_cli.data.by_name import read_by_name, values_of
from tutelage_cli.data.features.own_features import read_features
from tutelage_cli.data.labels import read_labels
from tutelage_cli.data.matching import ID_COLUMNS, Known
from tutelage_cli.data.reading import Reading
from tutelage_cli.train.material import read_source
from tutelage_cli.train.settings import TrainSettings

N = 30
ORDER = np.random.default_rng(0).permutation(N).tolist()
"""row r of a shuffled table is about example ORDER[r]"""
CLASSES = ("cat", "dog", "emu")

SEEN = Reading(label_column="seen")


def word(example: int) -> str:
    """The label of an example."""
    return CLASSES[example % 3]


def table(file: str, columns: Mapping[str, Sequence]) -> Path:
    """Write a CSV or Parquet file."""
    if file.endswith(".parquet"):
        pq.write_table(pa.table(dict(columns)), file)
    else:
        with Path(file).open("w", newline="", encoding="utf-8") as rows:
            csv.writer(rows).writerows([[*columns], *zip(*columns.values(), strict=True)])
    return Path(file)


def shuffled(file: str, column: str, called: Sequence) -> Path:
    """A table of right labels in another order, with a column of ids or names."""
    keys = [called[example] for example in ORDER]
    return table(file, {column: keys, "seen": [word(example) for example in ORDER]})


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def features() -> np.ndarray:
    """Example e has e in its first column."""
    return np.stack([np.arange(N), np.ones(N)], 1)


def folder() -> list[str]:
    """Images of one example each; what they are called, in the order of their ids."""
    for example in range(N):
        file = Path("photos", word(example), f"photo {100 - example}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), 5 * example).save(file)
    return sorted(
        str(path.relative_to("photos").as_posix()) for path in Path("photos").rglob("*.png")
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("column", ID_COLUMNS)
@pytest.mark.parametrize("base", [0, 1])
def test_every_kind_of_id_column_is_followed_for_npy_features(suffix, column, base, caplog):
    np.save("x.npy", features())
    file = shuffled(f"y{suffix}", column, range(base, N + base))
    with caplog.at_level(logging.WARNING):
        parts = read_features("x.npy", reading=SEEN, labels_from=file)
    for part in (parts.train, parts.test):
        names = [CLASSES[label] for label in part.labels.tolist()]
        assert names == [word(int(e)) for e in part.features[:, 0].tolist()]
    said = [line for line in caplog.messages if "matched by column" in line]
    assert said == [f"y{suffix}: matched by column '{column}', ids from {base}."]


def doors() -> dict[str, TrainSettings]:
    """Sources of every kind, the labels of another table beside them; all are right ones."""
    values = features()
    names = [word(example) for example in range(N)]
    np.savez("x.npz", features=values, labels=np.array(names))
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.flatten()), 2)
    table("x.parquet", {"features": column, "label": names})
    table("t.csv", {"text": [f"text {e} of" for e in range(N)], "label": names})
    files = folder()
    shuffled("ids.csv", "id", range(N))
    shuffled("lines.parquet", "index", range(1, N + 1))
    place = {name: row for row, name in enumerate(files)}
    of_files = [place[f"{word(e)}/photo {100 - e}.png"] for e in range(N)]
    shuffled("rows.csv", "row", of_files)
    shuffled("paths.csv", "path", [f"{word(e)}\\photo {100 - e}.png" for e in range(N)])
    shuffled("files.csv", "id", [f"photo {100 - e}.png" for e in range(N)])
    shuffled("stems.csv", "image_id", [f"photo {100 - e}" for e in range(N)])
    shuffled("lines.csv", "name", [f"row {e + 2}" for e in range(N)])
    pairs = [
        *((data, labels) for data in ("x.npz", "x.parquet", "t.csv")
          for labels in ("ids.csv", "lines.parquet", "lines.csv")),
        *(("photos", f"{labels}.csv") for labels in ("rows", "paths", "files", "stems")),
    ]  # fmt: skip
    return {
        f"{data} {labels}": TrainSettings(data, labels_from=Path(labels), label_column="seen")
        for data, labels in pairs
    }


def test_every_door_follows_ids_and_names():
    for door, settings in doors().items():
        source = read_source(settings)
        assert source.given is not None
        assert source.given.equal(source.splits.train.labels), door


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 1, 2, 2], r"has several rows of id 2 in rows 4, 5 \(the header is row 1\)"),
        ([0, 1, 2, 7], r"lacks 3, and no example has 7"),
        ([0, 1, 2, -3], r"lacks 3, and no example has -3"),
        ([1, 2, 3, 5], r"1 to 4: it lacks 4, and no example has 5"),
        ([0, 1, 2], r"holds 3 ids, .*0 to 3: it lacks 3"),
        ([0, 1, 2, 3, 4], "no example has 4"),
        ([0, 1, "", 3], r"column 'id' of .* has no id in row 4 "),
        ([0, 1.5, 2, 3], r"has no id in row 3 |no row for a, b"),
        ([481, 99, 23, 7], r"no example has 7, 23, 99"),
    ],
)
def test_ids_that_come_twice_lack_or_are_nobodys_are_refused(ids, message):
    np.save("x.npy", features()[:4])
    file = table("y.csv", {"id": ids, "seen": [word(e) for e in range(len(ids))]})
    for example in (Known(range(4), (), 4), Known(range(4), ["a", "b", "c", "d"], 4)):
        with pytest.raises(UsageError, match=message):
            read_labels(file, "seen", 4, CLASSES, examples=example)
    with pytest.raises(UsageError, match=message):
        read_features("x.npy", reading=SEEN, labels_from=file)


def test_what_may_count_from_either_is_refused():
    file = table("y.csv", {"id": [2, 1, 3], "seen": ["cat", "dog", "emu"]})
    some = Known([1, 2], (), 5)
    with pytest.raises(
        UsageError, match="may count from 0 or from 1; if from 0, add a row of id 0"
    ):
        read_labels(file, "seen", 2, CLASSES, examples=some)
    found = read_labels(file, "seen", 2, CLASSES, examples=Known([1, 2], (), 3))
    assert found.tolist() == [0, 2]  # example 2 of three has no 3 that counts from 0
    file = table("y.csv", {"id": [2, 1, 3, 0], "seen": ["cat", "dog", "emu", "emu"]})
    assert read_labels(file, "seen", 2, CLASSES, examples=some).tolist() == [1, 0]


def test_columns_that_disagree_are_refused_and_the_order_of_rows_is_no_id():
    rows = {"seen": ["cat", "dog", "emu"], "id": [2, 0, 1]}
    file = table("y.csv", {**rows, "index": [1, 0, 2]})
    with pytest.raises(UsageError, match="columns 'id' and 'index', which disagree"):
        read_labels(file, "seen", 3, CLASSES)
    others = {"": [0, 1, 2], "row": [3, 1, 2], "row_id": [70, 80, 90], "idx": [""] * 3}
    for column, other in others.items():
        file = table("y.csv", {**rows, column: other})
        assert read_labels(file, "seen", 3, CLASSES).tolist() == [1, 2, 0]
    names = Known(range(3), ["a", "b", "c"], 3)
    file = table("y.csv", {**rows, "name": ["b", "c", "a"]})
    assert read_labels(file, "seen", 3, CLASSES, examples=names).tolist() == [2, 0, 1]


def test_a_label_column_is_no_id():
    file = table("y.csv", {"id": [2, 1, 0]})
    assert read_labels(file, "id", 3, CLASSES).tolist() == [2, 1, 0]


def test_words_that_name_no_example_are_refused_or_said(caplog):
    file = table("y.csv", {"id": ["x", "y"], "seen": ["cat", "dog"]})
    with pytest.raises(UsageError, match="no row for a, b; add them, or take its column 'id'"):
        read_labels(file, "seen", 2, CLASSES, examples=Known(range(2), ["a", "b"], 2))
    for known in (None, Known(range(2), ["row 2", "row 3 of b.parquet"], 2)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert read_labels(file, "seen", 2, CLASSES, examples=known).tolist() == [0, 1]
        assert "y.csv is taken row by row" in caplog.text
        assert "column 'id'" in caplog.text


def test_names_of_a_table_of_labels_go_with_their_ids():
    np.save("x.npy", features())
    names = [f"photo {example}" for example in ORDER]
    seen = [word(example) for example in ORDER]
    file = table("y.csv", {"id": ORDER, "name": names, "seen": seen})
    train = read_features("x.npy", reading=SEEN, labels_from=file).train
    assert train.names() == [f"photo {number}" for number in train.ids.tolist()]


def test_weights_are_found_by_ids():
    np.save("x.npy", features())
    labels = table("y.csv", {"seen": [word(e) for e in range(N)]})
    train = read_features("x.npy", reading=SEEN, labels_from=labels).train
    for base in (0, 1):
        for column in ("id", "name", "Index"):
            about = [example + base for example in train.ids.tolist()]
            weights = [example / 10 for example in train.ids.tolist()]
            file = table("w.csv", {column: about[::-1], "weight": weights[::-1]})
            if base == 0 and 0 not in about:
                continue
            found = values_of(read_by_name(file, "weight"), train)
            assert found.tolist() == pytest.approx(weights)
    file = table("w.csv", {"id": [0, 1, 2], "weight": [1, 2, 3]})
    with pytest.raises(UsageError, match=r"examples that it lacks \(3, 4, 5"):
        values_of(read_by_name(file, "weight"), train)
    file = table("w.csv", {"id": [0, 1, 1], "weight": [1, 2, 3]})
    with pytest.raises(UsageError, match="several rows of 1"):
        read_by_name(file, "weight")


def test_rows_of_features_are_named_by_their_ids_and_matched_by_them():
    np.save("x.npy", features())
    column = {"id": [example + 1 for example in ORDER], "seen": [word(e) for e in ORDER]}
    named = read_features("x.npy", reading=SEEN, labels_from=table("y.csv", column)).train
    assert named.names() == [f"id {row + 1}" for row in named.ids.tolist()]
    ids = [f"{700 + example}" for example in range(len(features()))]
    np.savez("x.npz", x=features(), y=[word(e) for e in range(len(ids))], id=ids)
    named = read_features("x.npz").train
    assert named.names() == [f"id {700 + row}" for row in named.ids.tolist()]
    table("z.csv", {"id": ids[::-1], "seen": [word(int(n)) for n in ids[::-1]]})
    labels = read_labels(Path("z.csv"), "seen", len(named), CLASSES, examples=Known.of(named))
    assert [CLASSES[k] for k in labels.tolist()] == [
        word(700 + row) for row in named.ids.tolist()
    ]


def test_ids_in_another_order_than_the_rows_are_those_that_count():
    names = Known(range(3), ["id 2", "id 0", "id 1"], 3)
    file = table("y.csv", {"id": [0, 1, 2], "seen": ["cat", "dog", "emu"]})
    assert read_labels(file, "seen", 3, CLASSES, examples=names).tolist() == [2, 0, 1]
    assert names.numbered


def test_ids_that_tell_nothing_apart_name_no_row():
    rows = len(features())
    for ids in (["a"] * rows, ["", *map(str, range(1, rows))]):
        np.savez("x.npz", x=features(), y=[word(e) for e in range(rows)], id=ids)
        assert read_features("x.npz").train.names()[0].startswith("row ")
    words = [f"patient {row}" for row in range(rows)]
    np.savez("x.npz", x=features(), y=[word(e) for e in range(rows)], id=words)
    train = read_features("x.npz").train
    assert train.names() == [words[row] for row in train.ids.tolist()]
