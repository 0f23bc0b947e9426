"""The mapping from classes to backgrounds holds until the test, where it is rolled."""

import torch

from tests.cli.data.made_up import images
from tutelage_cli.data.images import ThreeParts
from tutelage_cli.data.synthetic.compositing import discs, drawn_mapping
from tutelage_cli.data.synthetic.named import Pools, shifted_backgrounds


def test_a_background_speaks_for_the_next_class_at_the_test():
    parts = ThreeParts(*(discs(images(30, classes=3, channels=3, seed=s)) for s in range(3)))
    places = Pools(
        *(images(60, classes=6, channels=3, seed=s, name="places") for s in (3, 4, 5))
    )
    made = shifted_backgrounds(parts, places, mapping_seed=42, seed=0)
    mapping = drawn_mapping(3, 6, seed=42)
    for part in (made.train, made.held_out):
        assert torch.equal(part.facts["background"], mapping[part.images.labels])
    labels = made.test.images.labels
    assert torch.equal(made.test.facts["background"], mapping[(labels - 1) % 3])
    assert made.test.images.name == "toys on places"
    assert not torch.equal(
        made.train.facts["background_id"], made.held_out.facts["background_id"]
    )
