"""Table 1's arms: of several students the best counts, and what is kept is learned first."""

from dataclasses import replace

import pytest
import torch

from papers.catalogue import load_recipe
from papers.fan2021interactions import clean
from papers.fan2021interactions.clean import learned_to_keep
from papers.fan2021interactions.reweighting import PLAIN, Inputs, train
from tutelage.errors import UsageError
from tutelage.teachers import KeepOrDrop, KeepProbability

CPU = torch.device("cpu")
DIGITS = Inputs(10, (1, 28, 28))
SMOKE = load_recipe("interactions-clean").settings["smoke"]


def fresh(seed: int) -> dict[str, torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return KeepOrDrop(KeepProbability(10)).state_dict()


def test_of_several_gammas_the_student_with_the_least_held_out_error_counts(monkeypatch):
    real = train(PLAIN, 0, SMOKE, CPU)
    held_out = iter([[40.0, 30.0], [50.0, 20.0], [25.0, 90.0]])
    tested = iter([[11.0, 12.0], [13.0, 14.0], [15.0, 16.0]])
    taught = []

    def fake(method, _seed, _settings, _device):
        taught.append(method.objective.gamma)
        return real._replace(
            series={"held-out error": next(held_out), "test error": next(tested)}
        )

    monkeypatch.setattr(clean, "train", fake)
    found = clean.run("focal", 0, SMOKE, CPU).metrics
    assert taught == [0.5, 1.0, 2.0]
    assert found == {"error": 14.0, "chosen_error": 14.0, "best_error": 13.0}


def test_what_to_keep_is_learned_from_episodes_and_then_stays():
    goal = replace(SMOKE, goal=0.01, goal_steps=4, episodes=3, keep_lr=0.1)
    method = learned_to_keep(0, goal, CPU)
    assert method.signal is None
    teacher = method.build(torch.nn.Identity(), DIGITS)
    before = {k: v.clone() for k, v in teacher.state_dict().items()}
    train(method, 0, goal, CPU)
    assert all(torch.equal(v, before[k]) for k, v in teacher.state_dict().items())
    again = learned_to_keep(0, goal, CPU).build(torch.nn.Identity(), DIGITS).state_dict()
    assert all(torch.equal(v, before[k]) for k, v in again.items())


def test_episodes_that_come_to_the_goal_at_different_steps_change_the_teacher():
    goal = replace(SMOKE, goal=0.2, goal_steps=12, episodes=4, keep_lr=0.1)
    state = learned_to_keep(0, goal, CPU).build(torch.nn.Identity(), DIGITS).state_dict()
    assert any(not torch.equal(v, fresh(0)[k]) for k, v in state.items())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"goal": 1.5}, r"goal is an accuracy in \(0, 1\], got 1.5"),
        ({"goal_every": 9}, "goal_every is 9, but an episode has 2 steps: give 2 or less"),
        ({"episodes": 0}, "episodes must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(change, said):
    with pytest.raises(UsageError, match=said):
        replace(SMOKE, **change)
