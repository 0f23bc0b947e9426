"""A learned augmentation is shown in bars, and trains students of other data."""

import pytest
import torch
from torch import nn

from tests.trained import PLAIN, run
from tutelage.commentaries import save_commentary
from tutelage.teachers import LearnedAugmentation
from tutelage.types import Batch, Observation, Progress, as_prepared
from tutelage_cli.commentary.show import show


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_a_learned_augmentation_is_shown_in_bars_and_over_time(tmp_path, steps):
    torch.manual_seed(0)
    teacher = LearnedAugmentation("standard")
    for p in teacher.parameters():
        nn.init.normal_(p)
    batch = Batch(torch.zeros(1, 1, 4, 4), torch.zeros(1).long(), torch.zeros(1).long())
    seen = as_prepared(batch), Observation(torch.zeros(1), torch.zeros(1, 2), {}, Progress())
    for _ in range(steps):
        for name, value in teacher.remember(*seen).items():
            teacher.get_buffer(name).copy_(value)
    save_commentary(teacher, tmp_path / "policy")
    told = show(tmp_path / "policy", None, tmp_path / "page.html")
    assert "its space: standard" in told
    page = (tmp_path / "page.html").read_text()
    assert "Probability to be kept, once drawn" in page
    assert "Expected level, 0 to 30" in page
    assert page.count("over training</figcaption>") == (2 if steps > 1 else 0)
    assert f"{float(teacher.policy().how_many[0]):.2f}"[:3] in page


@pytest.mark.parametrize("mean", [(), (0.9,)])
def test_a_stored_policy_trains_a_student_whatever_its_batches_are_normalised_by(
    pets, tmp_path, mean
):
    teacher = LearnedAugmentation("standard", mean=mean, std=(0.01,) * len(mean))
    save_commentary(teacher, tmp_path / "policy")
    words = [
        "--epochs",
        1,
        "--seeds",
        1,
        "--held-out",
        9,
        "--batch-size",
        8,
        "--jobs",
        1,
        *PLAIN,
    ]
    out = ["--out", tmp_path / "run"]
    answer = run("train", pets, "--commentary", tmp_path / "policy", *words, *out)
    assert answer.code == 0, answer
