"""Crops are parts of the image as it is stored, of the shares and proportions asked for."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from papers.data.crops import Crops
from tests.cli.data.streams import WORKERS, same, streamed
from tutelage.errors import UsageError

HEIGHT, WIDTH = 120, 200


class Slopes:
    """Images whose red says how far down a pixel is, and whose green how far across."""

    ids = torch.tensor([7, 3, 5])

    def __len__(self) -> int:
        return 3

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        down = torch.linspace(0, 255, HEIGHT)[:, None].expand(HEIGHT, WIDTH)
        across = torch.linspace(0, 255, WIDTH).expand(HEIGHT, WIDTH)
        return torch.stack([down, across, torch.full_like(down, row)]).byte(), row


def boxes(crops: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Height, width (shares of the image's) and whether mirrored, read off the slopes."""
    down, across = crops[:, 0].double() / 255, crops[:, 1].double() / 255
    inner = crops.shape[-1] / (crops.shape[-1] - 1)  # from first to last pixel's middle
    height = (down[:, -1].mean(1) - down[:, 0].mean(1)) * inner
    width = (across[:, :, -1].mean(1) - across[:, :, 0].mean(1)) * inner
    return height, width.abs(), width < 0


def test_crops_have_the_area_and_proportions_of_torchvisions_own():
    torch.manual_seed(0)
    crops, target = Crops(Slopes(), 64, 400, original=False)[1]
    assert crops.shape == (400, 3, 64, 64)
    assert crops.dtype == torch.uint8
    assert target == 1
    height, width, mirrored = boxes(crops)
    area, ratio = height * width, width * WIDTH / (height * HEIGHT)
    assert 0.08 - 0.01 < float(area.min()) < 0.15
    assert 0.7 < float(area.max()) < 0.82  # 4:3 at most, which is 0.8 of this image
    assert float(ratio.min()) > 3 / 4 * 0.93
    assert float(ratio.max()) < 4 / 3 * 1.07
    assert 0.4 < float(mirrored.double().mean()) < 0.6
    whole = Crops(Slopes(), 64, 100, original=False, flip=False)[1][0]
    assert not boxes(whole)[2].any()


def test_the_first_is_the_middle_as_pillow_cuts_it():
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8))
    smooth = Image.fromarray(image.numpy()).resize((160, 120), Image.Resampling.BICUBIC)
    stored = torch.from_numpy(np.array(smooth)).permute(2, 0, 1)
    middle, other = Crops([(stored, 0)], 56, 2, original=True)[0][0]
    near = smooth.resize((85, 64), Image.Resampling.BILINEAR)
    right = np.asarray(near.crop((14, 4, 70, 60)), dtype=np.int16).transpose(2, 0, 1)
    assert np.abs(middle.numpy().astype(np.int16) - right).max() <= 2
    assert not middle.equal(other)


@pytest.mark.parametrize("options", WORKERS)
def test_what_is_cut_depends_on_seed_epoch_and_id_alone(options):
    crops = Crops(Slopes(), 8, 3, original=True)
    alone = streamed(crops, 1)
    assert same(streamed(crops, 1, **options).epoch(1), alone.epoch(1))
    by_id = [{int(b.ids): b.inputs for b in alone.epoch(number)} for number in (0, 1)]
    assert by_id[0].keys() == {3, 5, 7}
    for example, first in by_id[0].items():
        second = by_id[1][example]
        assert first[0, 0].equal(second[0, 0])  # the middle
        assert not first[0, 1].equal(second[0, 1])
        assert not first[0, 1].equal(first[0, 2])


def test_a_photo_smaller_than_the_crop_is_enlarged():
    file = io.BytesIO()
    Image.new("RGB", (3, 5), (10, 20, 30)).save(file, "PNG")
    tiny = torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)
    crops, _ = Crops([(tiny, 0)], 16, 4, original=True)[0]
    assert crops.flatten(2).unique(dim=2).shape == (4, 3, 1)


@pytest.mark.parametrize("odd", [{"side": 0}, {"copies": 0}])
def test_numbers_below_one_are_refused(odd):
    with pytest.raises(UsageError, match=f"{next(iter(odd))} is 0; allowed: 1 and above"):
        Crops(**({"images": Slopes(), "side": 8, "copies": 2, "original": True} | odd))
