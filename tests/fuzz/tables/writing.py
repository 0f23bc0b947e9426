"""Writes the files of a situation, as a user would have them."""

import csv
import io
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.fuzz.tables.content import Content, Row, colour_of, name_of
from tests.fuzz.tables.situation import ENDINGS, Files

SIDE = 4
LABELS = "labels.csv"
"""of the rows of a .npy file, beside the source"""


def written(f: Files, content: Content, root: Path) -> str:
    """The source that is to be loaded."""
    place = root / "source"
    place.mkdir()
    if f.door.startswith("np"):
        return str(_numpy(f, content, place))
    parts = {"train": content.train}
    if f.parts != "one":
        parts[f.parts] = content.test
    for part, rows in parts.items():
        if f.door == "folder":
            _folder(f, place / part if f.parts != "one" else place, rows)
        elif f.door.startswith("parquet"):
            _parquet(f, place, part, rows)
        else:
            _csv(f, place, part, rows)
    if f.door == "folder":
        _beside(f, place)
    alone = f.parts == "one" and f.shards == "one" and f.door != "folder"
    return str(next(p for p in place.iterdir() if p.is_file())) if alone else str(place)


def _numpy(f: Files, content: Content, place: Path) -> Path:
    file = place / f"rows.{f.door[:3]}"
    if file.suffix == ".npz":
        np.savez(file, **_arrays(content.train), **_arrays(content.test, "test_"))
        return file
    np.save(file, _vectors(content.train))
    _labels(f, content.train, place.parent / LABELS)
    return file


def _vectors(rows: list[Row]) -> np.ndarray:
    return np.array([[row.number, 1.0] for row in rows])


def _arrays(rows: list[Row], before: str = "") -> dict[str, Any]:
    if not rows:
        return {}
    values = [row.label for row in rows]
    if {type(value) for value in values} - {int, float, type(None)}:
        labels = np.array(["" if value is None else name_of(value) for value in values])
    elif None in values:
        labels = np.array([np.nan if value is None else value for value in values], float)
    else:
        labels = np.array(values)
    return {before + "features": _vectors(rows), before + "label": labels}


def _labels(f: Files, rows: list[Row], file: Path) -> None:
    blank = "  " if f.missing == "blanks" else ""
    words = [blank if row.label is None else name_of(row.label) for row in rows]
    ids = list(range(len(rows)))
    called: list[object] = [n + 1 if f.keys == "index from 1" else n for n in ids]
    if f.keys == "twice":
        called[3] = called[2]
    if f.keys == "extra":
        called[3] = len(rows) + 7
    order = random.Random(f.seed).sample(ids, len(ids)) if f.keys != "none" else ids
    order = [n for n in order if n != 3] if f.keys == "lacking" else order
    name = {"index from 1": "Index", "name": "name", "": ""}.get(f.keys, "id")
    table = [[called[n], words[n]] if f.keys != "none" else [words[n]] for n in order]
    with file.open("w", newline="", encoding="utf-8") as out:
        head = [name, "label"] if f.keys != "none" else ["label"]
        csv.writer(out).writerows([head, *table])


def image(number: int) -> Image.Image:
    """One colour."""
    return Image.new("RGB", (SIDE, SIDE), colour_of(number))


def path_of(row: Row) -> str:
    """Of a row's image, below the csv file."""
    return f"images/{row.number}.png"


def _csv(f: Files, place: Path, part: str, rows: list[Row]) -> None:
    (place / "images").mkdir(exist_ok=True)
    first = "path" if f.door == "csv of images" else "text"
    header, table = [first, "label"], []
    for row in rows:
        if first == "path":
            image(row.number).save(place / path_of(row))
        shown = path_of(row) if first == "path" else f"text number {row.number}"
        label = row.label
        blank = "  " if f.missing == "blanks" else ""
        table.append([shown, blank if label is None else str(label)])
    header, table = _formed(f, header, table)
    text = _text(f, header, table)
    if f.form == "empty file":
        text = ""
    encoding = {"byte-order mark": "utf-8-sig", "UTF-16": "utf-16"}.get(f.form, "utf-8")
    (place / f"{part}.csv").write_text(text, encoding=encoding, newline="")


Table = tuple[list[str], list[list]]
"""header and rows"""
FORMED: Mapping[str, Callable[[list[str], list[list]], Table]] = {
    "header in capitals": lambda header, rows: ([name.upper() for name in header], rows),
    "header with spaces": lambda header, rows: ([f" {name} " for name in header], rows),
    "label twice": lambda header, rows: ([*header, "label"], _beside_each(rows, "a", "b")),
    "label twice in another case": lambda header, rows: (
        [*header, "Label"],
        _beside_each(rows, "a", "b"),
    ),
    "path twice": lambda header, rows: (
        [*header, header[0]],
        _beside_each(rows, *[row[0] for row in rows][::-1]),
    ),
    "unnamed index": lambda header, rows: (
        ["", *header],
        [[n, *row] for n, row in enumerate(rows)],
    ),
    "other columns": lambda header, rows: (
        ["id", *header, "note"],
        [[7, *row, "a, b"] for row in rows],
    ),
    "label first": lambda header, rows: (header[::-1], [row[::-1] for row in rows]),
    "a row too short": lambda header, rows: (
        header,
        [row[: 1 if n == 3 else None] for n, row in enumerate(rows)],
    ),
}


def _formed(f: Files, header: list[str], table: list[list]) -> Table:
    form = FORMED.get(f.form)
    return (header, table) if form is None else form(header, table)


def _beside_each(table: list[list], *values: str) -> list[list]:
    return [[*row, values[n % len(values)]] for n, row in enumerate(table)]


def _text(f: Files, header: list[str], table: list[list]) -> str:
    out = io.StringIO()
    separator = {"semicolons": ";", "tabs": "\t"}.get(f.form, ",")
    quoting = csv.QUOTE_ALL if f.form == "quoted" else csv.QUOTE_MINIMAL
    end = "\r\n" if f.form == "CRLF" else "\n"
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator=end)
    writer.writerow(header)
    for number, row in enumerate(table):
        if f.form == "blank lines" and number in (2, 5):
            out.write(end)
        writer.writerow(row)
    text = out.getvalue()
    return text.rstrip("\n") if f.form == "no newline at the end" else text


def _parquet(f: Files, place: Path, part: str, rows: list[Row]) -> None:
    count = 1 if f.shards == "one" else 3
    for shard in range(count):
        own = rows[shard::count] if count == 1 else _share(rows, shard, count)
        words = f.shards == "words in the last" and shard == count - 1
        columns = {"label": _column(f, own, rows, words=words)}
        if f.door == "parquet of images":
            columns |= {"image": [{"bytes": _png(row.number), "path": None} for row in own]}
        elif f.door == "parquet of features":
            columns |= {"features": [[float(row.number), 1.0] for row in own]}
        else:
            columns |= {"text": [f"text number {row.number}" for row in own]}
        name = part if count == 1 else f"{part}-{shard:05d}-of-{count:05d}"
        pq.write_table(pa.table(columns), place / f"{name}.parquet")
    if f.shards == "odd ones beside":
        (place / "README.md").write_text("about", encoding="utf-8")
        (place / ".hidden.txt").write_text("about", encoding="utf-8")


def _share(rows: list[Row], shard: int, count: int) -> list[Row]:
    size = -(-len(rows) // count)
    return rows[shard * size : (shard + 1) * size]


def _png(number: int) -> bytes:
    out = io.BytesIO()
    image(number).save(out, "PNG")
    return out.getvalue()


def _column(f: Files, rows: list[Row], part: list[Row], *, words: bool) -> pa.Array:
    values = [row.label for row in rows]
    kinds = {type(row.label) for row in part if row.label is not None}
    mixed = len(kinds) > 1
    if words or mixed or f.stored == "words":
        return pa.array([None if v is None else name_of(v) for v in values], pa.string())
    if kinds <= {int} and f.stored in ("small", "float"):
        kind = pa.int32() if f.stored == "small" else pa.float64()
        return pa.array(values, kind)
    if kinds <= {str} and f.stored == "large string":
        return pa.array(values, pa.large_string())
    array = pa.array(values)
    return array.dictionary_encode() if f.stored == "dictionary" else array


def _folder(f: Files, place: Path, rows: list[Row]) -> None:
    endings = ENDINGS[f.endings]
    for row in rows:
        folder = place / name_of(row.label)
        folder = folder / "deeper" if f.beside == "deeper" and row.number % 2 else folder
        folder.mkdir(parents=True, exist_ok=True)
        ending = endings[row.number % len(endings)]
        kind = {"": "PNG", ".txt": "PNG", ".pgm": "PPM", ".jfif": "JPEG", ".jpe": "JPEG"}
        image(row.number).save(folder / f"{row.number}{ending}", kind.get(ending))


def _beside(f: Files, place: Path) -> None:
    at = place / "train" if (place / "train").is_dir() else place
    some = next(p for p in sorted(at.iterdir()) if p.is_dir())
    if f.beside == "hidden files":
        image(99).save(some / "._1.png")
        (some / ".DS_Store").write_bytes(b"x")
    if f.beside == "hidden folder":
        (at / ".git").mkdir()
        image(99).save(at / ".git" / "1.png")
    if f.beside == "notes":
        (at / "README.md").write_text("about", encoding="utf-8")
    if f.beside == "thumbs":
        (some / "Thumbs.db").write_bytes(b"x")
