"""Birds lie on the place of their species, and at the test on that of the one before."""

import pytest
import torch

from papers.data.published.cub import birds_on_places
from tests.cli.data.published.layouts import cub, places
from tutelage.errors import UsageError
from tutelage_cli.data.resize import Size
from tutelage_cli.data.synthetic.compositing import drawn_mapping


@pytest.mark.parametrize("pictures", [1, 3])
def test_the_place_gives_the_species_away_until_the_test(pictures, tmp_path):
    home, behind = cub(tmp_path), places(tmp_path / "p", each=6)
    made = birds_on_places(home, behind, Size(16, 16), pictures=pictures, seed=7)
    mapping = drawn_mapping(3, 5, seed=7)
    for part, moved in ((made.train, 0), (made.held_out, 0), (made.test, 1)):
        category = mapping[(part.images.labels - moved) % 3]
        assert torch.equal(part.facts["background"], category)
        corner = part.images.images[:, :, 0, 0].int()
        assert (corner[:, 0] - 40 * category).abs().max() < 6  # JPEG
        middle = part.images.images[:, :, 8, 8].int()
        assert (middle[:, 1] - 80 * part.images.labels).abs().max() < 6
    seen = [set(part.facts["background_id"].tolist()) for part in made]
    assert len(seen[0]) <= 3 * pictures
    assert not (seen[0] | seen[1]) & seen[2]
    if pictures == 1:
        assert seen[1] <= seen[0]


@pytest.mark.parametrize("pictures", [0, 2])
def test_more_pictures_of_a_place_than_there_are_are_refused(pictures, tmp_path):
    few = places(tmp_path / "p", each=3)
    with pytest.raises(UsageError, match=r"needed has 3; allowed: 1\.\.1"):
        birds_on_places(cub(tmp_path), few, Size(16, 16), pictures=pictures, seed=0)
