"""Labelled texts from columns, and batches of them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from papers.data.text import TextBatches
from tutelage.errors import UsageError
from tutelage_cli.data.text.labelled import read_texts


def write(folder, train: dict, validation: dict | None = None):
    for name, columns in (("train", train), ("validation", validation or train)):
        pq.write_table(pa.table(columns), folder / f"{name}-00000-of-00001.parquet")
    return folder


def test_a_task_of_pairs_with_numbers_is_read(tmp_path) -> None:
    columns = {"sentence1": ["a", "b"], "sentence2": ["c", ""], "label": [0.5, 5.0]}
    train, held_out = read_texts(write(tmp_path, columns))
    assert train.sides == (["a", "b"], ["c", ""])
    assert train.labels.tolist() == [0.5, 5.0]
    assert train.classes == 1
    assert len(held_out) == 2
    assert train.rows(torch.tensor([1])).ids.tolist() == [1]


def test_columns_can_be_named(tmp_path) -> None:
    folder = write(tmp_path, {"review": ["a", "b"], "stars": [0, 3]})
    train = read_texts(folder, ["review"], "stars").train
    assert train.classes == 4
    with pytest.raises(UsageError, match="known to hold texts"):
        read_texts(folder, label="stars")
    with pytest.raises(UsageError, match="but not what"):
        read_texts(folder, ["what"], "stars")


def test_missing_labels_and_texts_are_told_by_row(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"row 3 .* has label -1"):
        read_texts(write(tmp_path, {"sentence": ["a", "b"], "label": [0, -1]}))
    with pytest.raises(UsageError, match=r"row 3 .* has no text"):
        read_texts(write(tmp_path, {"sentence": ["a", None], "label": [0, 1]}))


def test_a_folder_without_both_parts_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="GLUE task"):
        read_texts(tmp_path)
    with pytest.raises(UsageError, match="GLUE task"):
        read_texts(tmp_path / "nowhere")


@pytest.mark.parametrize("task", ["cola", "sst2", "mrpc", "rte", "stsb", "wnli"])
def test_every_task_at_hand_is_read(real_data, task) -> None:
    folder = real_data / "glue" / task
    if task == "sst2" or not folder.is_dir():
        pytest.skip("large, or not there")
    train, held_out = read_texts(folder)
    assert len(train) > len(held_out) > 0
    assert train.classes == (1 if task == "stsb" else 2)


def batches(count: int, size: int = 4) -> TextBatches:
    inputs = torch.zeros(count, 3, 6, dtype=torch.int32)
    for row in range(count):
        inputs[row, :, : 1 + row % 6] = 1
    device = torch.device("cpu")
    return TextBatches(inputs, torch.arange(count), torch.arange(count), size, 0, device)


def test_an_epoch_has_every_text_once_and_again_the_same() -> None:
    one, again, other = ([b.ids.tolist() for b in batches(10).epoch(n)] for n in (0, 0, 1))
    assert one == again != other
    assert sorted(n for batch in one for n in batch) == list(range(10))
    first = next(batches(10).epoch(0))
    assert first.inputs.dtype == torch.int64
    assert torch.equal(first.ids, first.targets)


def test_the_whole_goes_from_short_to_long() -> None:
    lengths = [int(b.inputs[:, 2].sum(1).max()) for b in batches(10).whole(3)]
    assert lengths == sorted(lengths)


def test_no_texts_make_no_batches() -> None:
    with pytest.raises(UsageError, match="no texts"):
        batches(0)
    with pytest.raises(UsageError, match="batch size is 0"):
        batches(3, 0)
