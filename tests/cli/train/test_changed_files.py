"""A run is not resumed after a file that its settings name has changed."""

import shutil

import numpy as np

from tests.trained import QUICK, one_line, run
from tutelage_cli.train.file_digests import file_digests
from tutelage_cli.train.settings import TrainSettings


def stopped_run(place, *flags):
    # of two students, the second of which is still to be trained
    generator = np.random.default_rng(0)
    np.savez(place / "own.npz", x=generator.normal(size=(100, 3)), y=np.arange(100) % 2)
    begin = ("train", place / "own.npz", *QUICK, "--seeds", 2, "--controls", "none")
    assert run(*begin, "--out", place / "run", *flags).code == 0
    for folder in (place / "run" / "students").glob("*-seed1"):
        shutil.rmtree(folder)


def weights(path, value):
    path.write_text("id,weight\n" + "".join(f"{row},{value}\n" for row in range(100)))
    return path


def test_weights_that_have_changed_are_refused(tmp_path):
    file = weights(tmp_path / "w.csv", 1)
    stopped_run(tmp_path, "--weights-from", file, "--default-weight", 1)
    weights(file, 0.5)
    answer = run("train", "--resume", tmp_path / "run")
    one_line(answer, "--weights-from", "has changed since", "start a new run")
    weights(file, 1)
    assert run("train", "--resume", tmp_path / "run").code == 0


def test_a_student_s_file_and_folder_have_digests_and_names_have_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cnn").mkdir()
    (tmp_path / "own.py").write_text("x = 1")
    assert file_digests(TrainSettings(student="cnn")) == {}
    before = file_digests(TrainSettings(student=f"{tmp_path}/own.py:build"))
    (tmp_path / "own.py").write_text("x = 2")
    assert before.keys() == {"--student"}
    assert before != file_digests(TrainSettings(student=f"{tmp_path}/own.py:build"))
    weights_of_student = TrainSettings(student_weights=tmp_path / "own.py")
    assert file_digests(weights_of_student).keys() == {"--student-weights"}
    (tmp_path / "cnn" / "config.json").write_text("{}")
    assert file_digests(TrainSettings(student=str(tmp_path / "cnn"))).keys() == {"--student"}
