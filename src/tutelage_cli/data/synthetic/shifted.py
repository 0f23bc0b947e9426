"""Three parts of objects on backgrounds, whose mapping holds until the test."""

from tutelage.randomness import mixed_seed
from tutelage_cli.data.described import ThreeParts
from tutelage_cli.data.synthetic.compositing import drawn_mapping, on_backgrounds, rolled
from tutelage_cli.data.synthetic.pools import Pools


def shifted_backgrounds(
    foregrounds: ThreeParts, backgrounds: Pools, *, mapping_seed: int, seed: int
) -> ThreeParts:
    """Objects on the backgrounds of their class; at the test, on those of the class before.

    Train and held-out part share one mapping from classes to categories; at the test it is
    rolled by one, so that the background speaks for another class.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 5.2; Koh et al., 2020.
    """
    classes = len(foregrounds.train.images.classes)
    categories = len(backgrounds.train.classes)
    mapping = drawn_mapping(classes, categories, seed=mapping_seed)
    mappings = (mapping, mapping, rolled(mapping))
    return ThreeParts(
        *(
            on_backgrounds(front, behind, known, seed=mixed_seed(seed, place))
            for place, (front, behind, known) in enumerate(
                zip(foregrounds, backgrounds, mappings, strict=True)
            )
        )
    )
