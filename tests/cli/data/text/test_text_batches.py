import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.text.text_set import TextSet, collate_texts

CPU = torch.device("cpu")


@pytest.fixture
def texts() -> TextSet:
    """Seven texts, the n-th of n tokens, all of them n."""
    tokens = torch.zeros(7, 3, 9, dtype=torch.int32)
    for n in range(7):
        tokens[n, 0, :n], tokens[n, 2, :n] = n, 1
    sides = (tuple("x " * n for n in range(7)),)
    return TextSet(sides, tokens, torch.arange(7) % 2, torch.arange(7) + 10, ("a", "b"), "made")


def test_an_epoch_has_every_text_once_each_beside_its_own_label_and_id(texts):
    seen = list(Batches(texts, 3, 0, collate_texts, CPU).epoch(0))
    assert [len(batch.ids) for batch in seen] == [3, 4]
    assert sorted(torch.cat([batch.ids for batch in seen]).tolist()) == list(range(10, 17))
    for batch in seen:
        lengths = batch.inputs[:, 2].sum(1)
        assert lengths.tolist() == (batch.ids - 10).tolist()
        assert batch.inputs.shape[2] == max(1, int(lengths.max()))
        assert batch.targets.tolist() == ((batch.ids - 10) % 2).tolist()


def test_a_batch_is_the_same_again_wherever_the_epoch_is_entered(texts):
    batches = Batches(texts, 2, 5, collate_texts, CPU)
    first, again = list(batches.epoch(3))[1:], list(batches.epoch(3, 1))
    assert [b.ids.tolist() for b in first] == [b.ids.tolist() for b in again]
    assert [b.seed for b in first] == [b.seed for b in again]
    other = next(batches.epoch(4))
    assert next(batches.epoch(3)).seed != other.seed
    assert batches.draw(2).ids.tolist() == batches.draw(2).ids.tolist()


def test_the_whole_set_comes_in_its_own_order(texts):
    ids = torch.cat([batch.ids for batch in Batches(texts, 3, 0, collate_texts, CPU).whole(4)])
    assert ids.tolist() == list(range(10, 17))


def test_no_texts_and_no_size_are_refused(texts):
    with pytest.raises(UsageError, match="no texts left"):
        Batches(texts.rows(torch.tensor([], dtype=torch.long)), 3, 0, collate_texts, CPU)
    with pytest.raises(UsageError, match="batch size is 0"):
        Batches(texts, 0, 0, collate_texts, CPU)


def test_a_set_whose_columns_do_not_fit_is_refused(texts):
    with pytest.raises(UsageError, match=r"columns of \[6, 7\] rows"):
        texts.with_labels(torch.zeros(6, dtype=torch.long))
    with pytest.raises(UsageError, match=r"row 2 of made has label 2; allowed: 0\.\.1"):
        texts.with_labels(torch.tensor([0, 1, 2, 0, 0, 0, 0]))
