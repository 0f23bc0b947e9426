"""Sentence pairs are read in both forms, and what does not match is refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from papers.data.text import lines, numbered, read_pairs
from tutelage.errors import UsageError


def written(folder, **files):
    for name, text in files.items():
        stem, _, language = name.rpartition("_")
        (folder / f"{stem}.{language}").write_text(text, encoding="utf-8")
    return folder


def test_parquet_columns_become_pairs(tmp_path):
    for split, texts in {"train": ["ein Hund", ""], "validation": ["zwei"]}.items():
        table = pa.table({"de": texts, "en": [text.upper() for text in texts]})
        pq.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    parts = read_pairs(tmp_path, "de", "en")
    assert parts.train.sources == ("ein Hund", "")
    assert parts.train.targets == ("EIN HUND", "")
    assert parts.train.ids.tolist() == [0, 1]
    assert parts.held_out is not None
    assert parts.held_out.targets == ("ZWEI",)
    assert parts.test is None


def test_a_column_of_translations_becomes_pairs(tmp_path):
    table = pa.table({"translation": [{"de": "ja", "en": "yes"}]})
    pq.write_table(table, tmp_path / "train.parquet")
    assert read_pairs(tmp_path, "en", "de").train.sources == ("yes",)
    with pytest.raises(UsageError, match="translations in de, en, not in fr"):
        read_pairs(tmp_path, "de", "fr")


def test_text_files_become_pairs(tmp_path):
    written(tmp_path, train_de="a\nb c\n", train_en="A\nB C\n", dev_de="d", dev_en="D")
    parts = read_pairs(tmp_path, "de", "en")
    assert parts.train.targets == ("A", "B C")
    assert parts.held_out is not None
    assert parts.held_out.sources == ("d",)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train_de": "a\nb\n", "train_en": "A\n"},
            "train has 2 sentences",
        ),
        ({"train_de": "a\n"}, r"train.de has no train.en beside it"),
        ({"test_de": "a\n", "test_en": "A\n"}, "neither parquet files nor train.de"),
    ],
)
def test_files_that_do_not_match_are_refused(tmp_path, files, message):
    with pytest.raises(UsageError, match=message):
        read_pairs(written(tmp_path, **files), "de", "en")


def test_a_missing_side_or_column_or_folder_is_refused(tmp_path):
    pq.write_table(pa.table({"de": ["a", "b"], "en": ["A", None]}), tmp_path / "train.parquet")
    with pytest.raises(UsageError, match="row 1 has None in place of a sentence"):
        read_pairs(tmp_path, "de", "en")
    with pytest.raises(UsageError, match=r"no column 'dee'.*Did you mean 'de'"):
        read_pairs(tmp_path, "dee", "en")
    with pytest.raises(UsageError, match="is no folder"):
        read_pairs(tmp_path / "nowhere", "de", "en")


def test_lines_end_at_line_feeds_alone(tmp_path):
    file = tmp_path / "text"
    file.write_bytes("one\u2028still one\x0bstill\ntwo\n".encode())
    assert lines(file) == ["one\u2028still one\x0bstill", "two"]
    file.write_bytes(b"")
    assert lines(file) == []
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        lines(file)


def test_rows_keep_their_ids():
    pairs = numbered(["a", "b", "c"], ["A", "B", "C"], "letters").rows(torch.tensor([2, 0]))
    assert (pairs.sources, pairs.targets) == (["c", "a"], ["C", "A"])
    assert pairs.ids.tolist() == [2, 0]


def test_multi30k_is_read(real_data):
    parts = read_pairs(real_data / "multi30k", "de", "en")
    assert parts.held_out is not None
    assert parts.test is not None
    assert [len(parts.train), len(parts.held_out), len(parts.test)] == [29_000, 1014, 1000]
    assert parts.train.targets[0].startswith("Two young, White males")
