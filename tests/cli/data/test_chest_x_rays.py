"""The chest X-rays that may be handed on are read like any other set."""

from tutelage_cli.data.sources import load


def test_pneumoniamnist_is_read_by_name(real_data, monkeypatch):
    monkeypatch.setenv("TUTELAGE_DATA", str(real_data))
    splits = load("pneumoniamnist")
    assert splits.train.classes == ("normal", "pneumonia")
    assert splits.train.labels.bincount().tolist() == [1214, 3494]
    assert splits.test.labels.bincount().tolist() == [234, 390]
    assert splits.train.images.shape == (4708, 1, 28, 28)
