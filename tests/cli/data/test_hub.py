"""Tests of the Hub without a network."""

import datasets
import pytest

from tests.cli.data.pictures import named
from tutelage.errors import UsageError
from tutelage_cli.data import hub
from tutelage_cli.data.hub import read_hub


class Reachable:
    """A Hub that has every data set."""

    def dataset_info(self, identity, timeout):
        assert identity
        assert timeout


def test_a_hub_data_set_is_read_split_by_split(monkeypatch, tmp_path):
    asked = []

    def load_dataset(*arguments):
        asked.append(arguments)
        return datasets.DatasetDict({"train": named([2, 0, 1]), "validation": named([1])})

    monkeypatch.setattr(hub, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(hub, "HfApi", Reachable)
    monkeypatch.setattr(hub.datasets, "load_dataset", load_dataset)
    train, test = read_hub("owner/name", "small")
    assert asked == [("owner/name", "small")]
    assert train.classes == ("cat", "dog", "emu")
    assert list(train.labels) == [2, 0, 1]
    assert train.images[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert test is not None
    assert list(test.labels) == [1]


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionError("no route"),
        hub.DatasetsError("gone"),
        ValueError("bad config"),
        hub.HTTPError("no name"),
    ],
)
def test_a_hub_out_of_reach_is_one_sentence(monkeypatch, tmp_path, fault):
    class Unreachable:
        def dataset_info(self, *_, **__):
            raise fault

    monkeypatch.setattr(hub, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(hub, "HfApi", Unreachable)
    with pytest.raises(
        UsageError, match=r"'owner/name' is neither the word mnist5k, nor an "
    ) as caught:
        read_hub("owner/name", None)
    assert str(fault) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_progress_bars_are_hidden_and_then_as_before():
    before = hub.datasets_logging.is_progress_bar_enabled()
    with hub._no_progress_bars():
        assert not hub.datasets_logging.is_progress_bar_enabled()
    assert hub.datasets_logging.is_progress_bar_enabled() == before
