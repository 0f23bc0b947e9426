"""The few-shot example of the recipes' page learns a start in every way that it names."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "recipe-parts.md"
JOINT, ALONE = "teacher = weights  #", "teacher = Plain()  #"
EXACT, FIRST = "signal = Unrolled(K)  #", "signal = Replayed(K, product=FirstOrder())  #"


def example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if "learn_start(" in block]
    assert found.count(JOINT) == found.count(EXACT) == found.count("range(30)") == 1
    return found.replace("range(30)", "range(2)")


@pytest.mark.parametrize("teacher", [JOINT, ALONE])
@pytest.mark.parametrize("signal", [EXACT, FIRST])
def test_the_example_runs_alone_and_jointly_exact_and_to_first_order(teacher, signal, capsys):
    code = example().replace(JOINT, teacher).replace(EXACT, signal)
    exec(compile(code, str(PAGE), "exec"), {})
    *steps, accuracy = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in steps] == [0, 1]
    assert 0 <= float(accuracy) <= 1
