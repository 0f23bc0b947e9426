"""Settings read from YAML are typed to the letter, and every mistake is told at once."""

import dataclasses
import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from tutelage.errors import UsageError
from tutelage_cli.config.settings_files import (
    changed,
    from_plain,
    load_settings,
    read_yaml,
    to_plain,
)


@dataclass(frozen=True)
class Teacher:
    hidden: int = 64
    kind: Literal["weights", "off", 3] = "weights"
    rates: tuple[float, ...] = ()

    def __post_init__(self):
        if self.hidden < 1:
            raise UsageError(f"hidden must be at least 1, got {self.hidden}")


@dataclass(frozen=True)
class Settings:
    lr: float = 0.1
    meta_lr: float = 0.01
    mu_clip: float = 1.0
    epochs: int = 3
    batch_size: int = 32
    seed: int = 0
    inner_steps: int = 5
    momentum: float = 0.9
    decay: float | None = None
    name: str = "run"
    nesterov: bool = False
    out: Path = Path("runs")
    sizes: tuple[int, ...] = (1, 2)
    teacher: Teacher = Teacher(hidden=8)
    rival: Teacher | None = None
    rivals: tuple[Teacher, ...] = ()
    limit: int | str = "none"
    note: Annotated[str, "shown in help"] = ""
    zz: int = field(init=False, default=0)

    def __post_init__(self):
        if self.inner_steps < 1:
            raise UsageError(f"inner_steps must be at least 1, got {self.inner_steps}")
        if self.batch_size > 1000 * self.epochs:
            raise UsageError(
                f"batch_size {self.batch_size} is too much for {self.epochs} epochs"
            )
        object.__setattr__(self, "zz", self.epochs * self.inner_steps)


@dataclass(frozen=True)
class Required:
    data: Path
    lr: float


@pytest.fixture
def load(tmp_path):
    def from_text(text, cls=Settings, base=None):
        file = tmp_path / "run.yaml"
        file.write_text(text, encoding="utf-8")
        if base is not None:
            return changed(base, read_yaml(file), str(file))
        return load_settings(cls, file)

    return from_text


@pytest.fixture
def problem(load, tmp_path):
    """The message for a text, without the file it must start with."""

    def of_text(text, cls=Settings):
        with pytest.raises(UsageError) as caught:
            load(text, cls)
        start = f"{tmp_path / 'run.yaml'}: "
        assert str(caught.value).startswith(start)
        assert "\n" not in str(caught.value)
        return str(caught.value).removeprefix(start)

    return of_text


def test_every_kind_of_field_is_read(load):
    text = """
lr: 1
decay: .5
name: fast
nesterov: true
out: some/where
sizes: [3, 4]
teacher: {hidden: 2, kind: 3, rates: [1, 0.5, 2e-5]}
rival: {kind: 'off'}
rivals: [{hidden: 1}, {}]
limit: 7
note: hello
"""
    assert load(text) == Settings(
        lr=1.0,
        decay=0.5,
        name="fast",
        nesterov=True,
        out=Path("some/where"),
        sizes=(3, 4),
        teacher=Teacher(2, 3, (1.0, 0.5, 2e-5)),
        rival=Teacher(kind="off"),
        rivals=(Teacher(1), Teacher()),
        limit=7,
        note="hello",
    )
    assert isinstance(load("lr: 1").lr, float)


def test_exponents_that_yaml_takes_for_text_are_floats(load):
    read = load("lr: 1e-4\nmeta-lr: 2e-5\nmu_clip: 1E4\nmomentum: -.5e+2\ndecay: 3.e1")
    assert (read.lr, read.meta_lr, read.mu_clip) == (1e-4, 2e-5, 1e4)
    assert (read.momentum, read.decay) == (-50, 30)


def test_wrong_types_are_told_all_at_once_and_a_refused_range_with_them(problem):
    text = """
lr: 1e-4
meta_lr: 2e-5
mu_clip: 1e4
epochs: '10'
batch_size: 32.5
seed: true
inner_steps: -1
momentum: null
"""
    assert problem(text) == (
        "epochs: '10', wanted int; batch_size: 32.5, wanted int; seed: true, wanted int;"
        " momentum: null, wanted float; inner_steps must be at least 1, got -1"
    )


def test_unknown_keys_are_refused_with_the_nearest_name(problem, load):
    text = "lr: 0.001\nmeta_lrr: 0.01\ninner-steps: 3\nteacher:\n  hiden: 64\n"
    assert problem(text) == (
        "meta_lrr: unknown key, did you mean 'meta_lr'?;"
        " teacher.hiden: unknown key, did you mean 'teacher.hidden'?"
    )
    assert load("inner-steps: 3").inner_steps == 3
    assert problem("teacher: {zzz: 1}") == (
        "teacher.zzz: unknown key, allowed: teacher.hidden, teacher.kind, teacher.rates"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: '10'", "lr: '10', wanted float"),
        ("lr: nan", "lr: 'nan', wanted float"),
        ("lr: .nan", "lr: nan, wanted float"),
        ("lr: 1e-4x", "lr: '1e-4x', wanted float"),
        ("lr: true", "lr: true, wanted float"),
        ("epochs: 1e2", "epochs: '1e2', wanted int"),
        ("epochs: 3.0", "epochs: 3.0, wanted int"),
        ("nesterov: 1", "nesterov: 1, wanted bool"),
        ("nesterov: 'true'", "nesterov: 'true', wanted bool"),
        ("name: 10", "name: 10, wanted str in quotes"),
        ("name: no", "name: false, wanted str in quotes"),
        ("name: 2024-01-02", "name: datetime.date(2024, 1, 2), wanted str in quotes"),
        ("name: null", "name: null, wanted str"),
        ("out: 3", "out: 3, wanted path"),
        ("decay: x", "decay: 'x', wanted float or null"),
        ("limit: 0.5", "limit: 0.5, wanted int or str"),
        ("sizes: 3", "sizes: 3, wanted list of int"),
        ("sizes: [1, '2', 3.5]", "sizes[1]: '2', wanted int; sizes[2]: 3.5, wanted int"),
        ("teacher: 3", "teacher: 3, wanted mapping"),
        ("teacher: {kind: off}", "teacher.kind: false, wanted one of 'weights', 'off', 3"),
        ("teacher: {kind: 3.0}", "teacher.kind: 3.0, wanted one of 'weights', 'off', 3"),
        ("rival: []", "rival: [], wanted mapping or null"),
        ("rival: {hidden: x}", "rival.hidden: 'x', wanted int"),
        (
            "rivals: [{hiden: 1}]",
            "rivals[0].hiden: unknown key, did you mean 'rivals[0].hidden'?",
        ),
        ("rival: {hidden: 0}", "rival: hidden must be at least 1, got 0"),
        ("teacher: {hidden: -2}", "teacher: hidden must be at least 1, got -2"),
        ("inner_steps: 0", "inner_steps must be at least 1, got 0"),
        ("inner-steps: 1\ninner_steps: 2", "inner_steps: given twice, wanted once"),
        ("lr: 1" + 400 * "0", "lr: an integer of 1329 bits, wanted float"),
        ("lr: [0x" + 5000 * "f" + "]", "lr: [an integer of 20000 bits], wanted float"),
        (
            "zz: 3",
            "zz: unknown key, allowed: "
            + ", ".join(f.name for f in dataclasses.fields(Settings) if f.init),
        ),
    ],
)
def test_wrong_value_is_told_with_its_key_path_and_the_wanted_type(problem, text, message):
    assert problem(text) == message


def test_refused_value_is_not_blamed_again_through_its_stand_in(problem):
    # The default batch_size of 32 would pass, 5000 would not; '5000' is only a wrong type.
    assert problem("batch_size: '5000'\nepochs: 0") == "batch_size: '5000', wanted int"


def test_missing_fields_are_told_beside_wrong_ones(problem, load):
    assert problem("lr: x", Required) == "lr: 'x', wanted float; data: missing, wanted path"
    assert load("lr: 1\ndata: d", Required) == Required(Path("d"), 1.0)


def test_base_gives_what_the_file_leaves_out(load):
    base = Settings(lr=3.0, teacher=Teacher(hidden=5, rates=(1.0,)), rival=Teacher(7))
    read = load("epochs: 9\nteacher: {kind: 'off'}\nrival: {kind: 3}", base=base)
    assert read == dataclasses.replace(
        base, epochs=9, teacher=Teacher(5, "off", (1.0,)), rival=Teacher(7, 3)
    )
    assert load("teacher: {kind: 'off'}").teacher == Teacher(8, "off")
    assert load("lr: 2", Required, Required(Path("d"), 1.0)) == Required(Path("d"), 2.0)
    assert load("rival: null", base=base).rival is None
    assert load("{}", base=base) == base


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "null, wanted a mapping of settings at the top level, such as 'lr: 0.1'"),
        ("- 1", "[1], wanted a mapping of settings at the top level, such as 'lr: 0.1'"),
        ("lr: 1\nepochs: [", "not valid YAML in line 2: "),
        ("lr: 1\nlr: 2", "not valid YAML in line 2: the key 'lr' is given twice"),
        ("lr: 1\n---\nlr: 2", "not valid YAML in line 2: but found another document"),
        ("name: 2024-13-45", "not valid YAML: month must be in 1..12"),
        ("name: \x00", "not valid YAML: unacceptable character #x0000"),
        ("lr: " + 3000 * "[", "not valid YAML: maximum recursion depth exceeded"),
        ("lr: !!python/object:os.system {}", "not valid YAML in line 1: could not determine"),
    ],
)
def test_broken_file_is_told_with_its_line(problem, text, message):
    assert problem(text).startswith(message)


def test_missing_or_unreadable_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"gone\.yaml: cannot be read \(No such file"):
        load_settings(Settings, tmp_path / "gone.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(Settings, tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(UsageError, match="not valid YAML: 'utf-8' codec"):
        load_settings(Settings, tmp_path / "latin.yaml")


def test_anchors_that_blow_up_make_a_short_message(problem):
    lines = ["a0: &a0 [x, x]"] + [
        f"a{i}: &a{i} [{', '.join(9 * [f'*a{i - 1}'])}]" for i in range(1, 12)
    ]
    assert len(problem("\n".join([*lines, "lr: *a11"]))) < 10_000


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(decay=0.5, sizes=(), rival=Teacher(3, "off", (0.1, 1e-30)), limit=4),
        Settings(rivals=(Teacher(1), Teacher(2, 3)), out=Path("/a/b c"), mu_clip=float("inf")),
    ],
)
def test_settings_survive_the_round_trip_through_json(settings):
    plain = to_plain(settings)
    assert "zz" not in plain
    assert json.loads(json.dumps(plain)) == plain
    assert from_plain(Settings, json.loads(json.dumps(plain))) == settings


def test_plain_values_are_checked_like_a_files():
    with pytest.raises(UsageError) as caught:
        from_plain(Settings, {"lr": "x", "teacher": {"hiden": 3}})
    assert str(caught.value) == (
        "Settings: lr: 'x', wanted float;"
        " teacher.hiden: unknown key, did you mean 'teacher.hidden'?"
    )


def test_value_that_json_cannot_hold_is_refused():
    @dataclass(frozen=True)
    class Odd:
        value: object

    with pytest.raises(TypeError, match="to_plain knows no set"):
        to_plain(Odd({1}))


FUZZED = """
lr: 1e-4
sizes: [3, 4]
name: 'fast'
out: some/where
decay: null
teacher: &t {hidden: 2, kind: 'off', rates: [1, 0.5, 2e-5]}
rival: *t
rivals:
  - hidden: 1
  - {}
inner-steps: 0x10
"""
SPLICES = [
    *"[]{}:,-&*!|>'\"%@`#?\n\t 0123456789.e~_\x00é\ud7ff",
    *("!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!set ", "!!binary ", "!!null "),
    *(
        "<<: *t",
        "? ",
        "---\n",
        "2024-02-31",
        "null",
        ".nan",
        "-.inf",
        "yes",
        "1:99",
        "0b",
        "0x",
    ),
    *("9" * 5000, "0x" + "f" * 5000, "- - - ", "&t ", "*t", "[" * 2000, "=", "key: "),
]


def mutated(text, draw):
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(text) + 1)
        cut = at + draw.choice([0, 0, 1, 2, 10])
        text = text[:at] + draw.choice(SPLICES) + text[cut:]
    return text


def test_no_mutation_of_a_file_raises_anything_but_a_usage_error(load):
    assert load(FUZZED).teacher == Teacher(2, "off", (1.0, 0.5, 2e-5))
    draw = random.Random(0)
    refused = 0
    for _ in range(300):
        try:
            assert isinstance(load(mutated(FUZZED, draw)), Settings)
        except UsageError:
            refused += 1
    assert 100 < refused < 300


def test_reading_settings_does_not_import_torch():
    code = "import sys, tutelage_cli.config.settings_files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
