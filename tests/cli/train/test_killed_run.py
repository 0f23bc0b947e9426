"""A run that is killed at random moments ends like one that never was."""

from tests.cli.train.killing import main
from tests.trained import unchecked
from tutelage_cli import report


def test_killed_at_random_moments_and_resumed_is_the_unbroken_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(report, "write", report.write)  # which is replaced
    with unchecked():
        main([str(tmp_path / "it"), "--kills", "4", "--epochs", "2"])
    assert "4 kills" in capsys.readouterr().out.splitlines()[-1]
