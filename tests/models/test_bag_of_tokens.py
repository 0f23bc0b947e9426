import pytest
import torch

from tutelage.errors import UsageError
from tutelage.models.bag_of_tokens import GAIN, BagOfTokens


def _texts(rows: list[list[int]], length: int) -> torch.Tensor:
    made = torch.zeros(len(rows), 3, length, dtype=torch.long)
    for row, words in enumerate(rows):
        made[row, 0, : len(words)] = torch.tensor(words)
        made[row, 2, : len(words)] = 1
    return made


def test_logits_are_linear_in_the_mean_embedding_of_the_tokens_that_there_are():
    student = BagOfTokens(9, 3, width=4)
    mean = GAIN * student.embedding.weight[[5, 7, 7]].mean(0)
    expected = GAIN * (student.head.weight @ mean + student.head.bias)
    torch.testing.assert_close(student(_texts([[7, 5, 7]], 3))[0], expected)


def test_neither_padding_nor_order_nor_the_rest_of_a_batch_changes_an_answer():
    student = BagOfTokens(9, 2)
    alone = student(_texts([[3, 0, 8]], 3))
    together = student(_texts([[1, 2, 4, 5, 6], [8, 3, 0]], 7))
    torch.testing.assert_close(together[1:], alone)


def test_a_text_of_no_tokens_has_the_answer_of_the_last_layer_alone():
    student = BagOfTokens(9, 2)
    torch.testing.assert_close(student(_texts([[]], 2))[0], GAIN * student.head.bias)


def test_a_size_below_one_is_refused():
    with pytest.raises(UsageError, match="words is 0; allowed: 1 and above"):
        BagOfTokens(0, 2)
