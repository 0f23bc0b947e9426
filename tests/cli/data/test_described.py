"""Facts stay with their images."""

import pytest
import torch

from tests.cli.data.made_up import images
from tutelage.errors import UsageError
from tutelage_cli.data.images import Described, ThreeParts


def test_chosen_rows_keep_ids_and_facts():
    whole = Described(
        images(6), {"angle": torch.arange(6.0), "box": torch.arange(12).view(6, 2)}
    )
    part = whole.rows(torch.tensor([4, 1]))
    assert part.images.ids.tolist() == [104, 101]
    assert part.facts["angle"].tolist() == [4, 1]
    assert part.facts["box"].tolist() == [[8, 9], [2, 3]]
    assert part.with_ids_from(7).images.ids.tolist() == [7, 8]


def test_a_fact_of_another_length_is_refused():
    with pytest.raises(
        UsageError, match=r"fact 'angle' of toys has shape \(5,\).* its 6 images"
    ):
        Described(images(6), {"angle": torch.zeros(5)})


def test_the_splits_are_train_and_test():
    parts = [Described(images(count), {}) for count in (4, 3, 2)]
    splits = ThreeParts(*parts).splits()
    assert (len(splits.train), len(splits.test)) == (4, 2)
