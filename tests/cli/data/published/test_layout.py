"""Lists are read strictly, and what is missing is named with the way out."""

import pytest
import torch

from papers.data.published.layout import found, held_out_share, listed_rows, numbers
from tests.cli.data.published.layouts import lines
from tutelage.errors import UsageError


def test_the_first_place_that_exists_is_taken(tmp_path):
    lines(tmp_path / "Anno" / "list.txt", ["a"])
    asked = ("list.txt", "Anno/list.txt")
    assert found(tmp_path, *asked, dataset="Faces", hint="x") == tmp_path / "Anno/list.txt"
    lines(tmp_path / "list.txt", ["a"])
    assert found(tmp_path, *asked, dataset="Faces", hint="x") == tmp_path / "list.txt"
    with pytest.raises(
        UsageError, match=r"holds no b or c, so it is not the folder of Faces; unpack it\.$"
    ):
        found(tmp_path, "b", "c", dataset="Faces", hint="unpack it")


def test_the_last_column_takes_the_rest(tmp_path):
    lines(tmp_path / "list.txt", ["1 a b", "", "2  c"])
    assert listed_rows(tmp_path / "list.txt", columns=2) == [["1", "a b"], ["2", "c"]]


def test_broken_lists_are_refused(tmp_path):
    lines(tmp_path / "short.txt", ["1 a", "2"])
    with pytest.raises(UsageError, match=r"line 2 of .*short.txt is '2'; allowed: 2 values"):
        listed_rows(tmp_path / "short.txt", columns=2)
    lines(tmp_path / "empty.txt", [])
    with pytest.raises(UsageError, match=r"empty.txt is empty"):
        listed_rows(tmp_path / "empty.txt", columns=2)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    for name in ("bytes.txt", "nowhere.txt"):
        with pytest.raises(UsageError, match=rf"{name} cannot be read"):
            listed_rows(tmp_path / name, columns=2)


def test_only_whole_numbers_count(tmp_path):
    assert numbers(["3", "60.0"], where=tmp_path) == [3, 60]
    for text in ("a", "0.5", "nan", "inf"):
        with pytest.raises(UsageError, match=f"{tmp_path} has"):
            numbers([text], where=tmp_path)


def test_no_group_is_in_both_parts():
    groups = torch.arange(300) // 3
    kept, held_out = held_out_share(groups, 0.2, seed=0)
    assert len(held_out) == 60
    assert sorted(torch.cat([kept, held_out]).tolist()) == list(range(300))
    assert not set(groups[kept].tolist()) & set(groups[held_out].tolist())
    assert torch.equal(held_out_share(groups, 0.2, seed=0)[1], held_out)
    assert not torch.equal(held_out_share(groups, 0.2, seed=1)[1], held_out)
    for share in (0.0, 1.0):
        with pytest.raises(UsageError, match=r"of 100 groups out; allowed: at least one"):
            held_out_share(groups, share, seed=0)
