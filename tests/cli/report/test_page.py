"""The whole page: valid, self-contained, escaped, steady, and true to its content."""

import dataclasses
import re
from html.parser import HTMLParser
from importlib import resources
from statistics import fmean

import pytest

from tutelage_cli.report import HEADER, Curve, render, rows, write
from tutelage_cli.report.interactive import digest
from tutelage_cli.report.page import document
from tutelage_cli.runner.run_folder import sweep

VOID = {"meta", "link", "img", "br", "hr", "input"}
NASTY = '<b>&"x"'


class Reader(HTMLParser):
    """Checks that tags balance; collects ids, addresses, text and the cells of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.named: set[str] = set()
        self.tables: list[list[list[str]]] = []
        self.scopes: list[str | None] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert len(values) == len(attrs), f"{tag} repeats an attribute"
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href", "xlink:href"}]
        self.named |= {v or "" for k, v in attrs if k == "aria-labelledby"}
        self.scopes += [values.get("scope")] if tag == "th" else []
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"script", "style"}:
            return
        self.text += data
        if self.open and self.open[-1] in {"td", "th"}:
            self.tables[-1][-1][-1] += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


RUNS = {
    "three arms": {},
    "untaught only": {"arms": 1},
    "truth unknown": {"truth": False},
    "one seed, one epoch": {"seeds": 1, "epochs": 1, "examples": 30},
    "no pictures": {"pictures": 0},
    "colour pictures": {"colour": True, "examples": 100},
    "a policy": {"policy": True},
    "text": {"text": True, "examples": 50},
    "a policy, one seed": {"policy": True, "seeds": 1, "arms": 2},
}


@pytest.fixture(scope="module")
def pages(run) -> dict[str, str]:
    return {name: render(run(**options)) for name, options in RUNS.items()}


@pytest.mark.parametrize("name", RUNS)
def test_tags_balance_and_ids_are_unique(name, pages):
    reader = read(pages[name])
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.named <= set(reader.ids)


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_fetched(name, pages):
    bare = re.sub(r"<script>.*?</script>", "", pages[name], flags=re.DOTALL)
    bare = re.sub(r'xmlns(:xlink)?="[^"]*"', "", bare)
    bare = re.sub(r'"\$schema":"[^"]*"', "", bare)
    assert "http://" not in bare
    assert "https://" not in bare
    assert "@import" not in bare
    reader = read(pages[name])
    assert all(a.startswith(("#", "data:")) for a in reader.addresses)
    assert {a[1:] for a in reader.addresses if a.startswith("#")} <= set(reader.ids)
    assert all(a.startswith("#") for a in re.findall(r"url\(([^)]*)\)", bare))


@pytest.mark.parametrize("name", RUNS)
def test_every_table_heading_has_a_scope(name, pages):
    assert set(read(pages[name]).scopes) == {"col", "row"}


@pytest.mark.parametrize("name", RUNS)
def test_page_is_small(name, pages):
    assert len(pages[name].encode()) < 2_000_000


@pytest.mark.parametrize("name", RUNS)
def test_only_the_scripts_that_came_with_the_page_may_run(name, pages):
    found = re.search(r'Content-Security-Policy"\s+content="([^"]*)"', pages[name])
    assert found is not None
    rules = dict(rule.strip().split(" ", 1) for rule in found[1].split(";"))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules  # so that of default-src holds
    scripts = re.findall(r"<script>(.*?)</script>", pages[name], re.DOTALL)
    assert rules["script-src"].split() == [digest(script) for script in scripts]
    assert len(scripts) == 2


def test_a_page_without_charts_does_without_the_library():
    page = document("t", "d", ["v"], {"a": ("A", "<p>Nothing to draw.</p>")})
    assert page.count("<script>") == 1
    assert len(page) < 30_000


@pytest.mark.parametrize("name", RUNS)
def test_table_holds_the_numbers_given(name, run, pages):
    content = run(**RUNS[name])
    header, *body = read(pages[name]).tables[0]
    assert tuple(header) == HEADER
    assert [tuple(row) for row in body] == rows(content.arms)
    for arm, row in zip(content.arms, body, strict=True):
        assert float(row[1].split()[0]) == pytest.approx(
            100 * fmean(arm.test_accuracy), abs=0.005
        )


def test_a_policy_takes_the_place_of_weights_and_tells_how_seeds_differ(run, pages):
    for name in ("a policy", "a policy, one seed"):
        arm, seeds = run(**RUNS[name]).arms[-1].name, RUNS[name].get("seeds", 3)
        assert f"Which augmentations were kept: {arm}" in pages[name]
        assert f"Weights by the teacher: {arm}" not in pages[name]
        assert ("lowest to highest seed. Where all logits" in pages[name]) == (seeds > 1)
    three = run(policy=True)
    with pytest.raises(ValueError, match=r"arrays of \(4, 4, 4\) operations, expected 1"):
        dataclasses.replace(three.augmentations[0], operations=("rotate",))


def test_texts_stand_in_the_place_of_pictures(pages):
    reader = read(pages["text"])
    shown = [table for table in reader.tables if table[0][:2] == ["Example", "Text"]]
    assert len(shown) == 2
    assert shown[0][1] == ["0", "A fine film.", "bad", "good", "good", "0.100", "2.000"]
    assert "It rains <b>& it pours</b>, again" in shown[0][2][1]


def test_records_of_other_sizes_than_they_say_are_refused():
    with pytest.raises(ValueError, match="test_accuracy holds 1 values, expected 2"):
        Curve("a", 0, (1, 2), (0.5,), (1.0, 1.0))


def test_same_content_gives_the_same_bytes(run, pages):
    assert render(run()) == pages["three arms"]


def test_every_part_is_there(pages):
    reader = read(pages["three arms"])
    for said in (
        "learned weights beats untaught by 6.1 percentage points",
        "The lowest of its seeds",
        "40 % symmetric noise",
        "Weights by the teacher: learned weights",
        "Weights by the teacher: small loss",
        "keeps the 60 % of each batch",
        "The examples of lowest weight",
        "tutelage train --data noisy-digits --noise 0.4 --seeds 3",
    ):
        assert said in reader.text
    assert ["noise_rate", "0.4"] in reader.tables[-2]
    assert ["device", "cpu"] in reader.tables[-1]
    assert "Weights by the teacher: untaught" not in reader.text


def test_untaught_run_speaks_of_no_teacher(pages):
    assert "Weights by the teacher" not in pages["untaught only"]


def test_unknown_truth_is_not_made_up(pages):
    text = read(pages["truth unknown"]).text
    assert "all examples" in text
    assert "right labels" not in text.replace("Weight, right labels", "")
    assert "carry a wrong label" not in text


def test_examples_without_pictures_are_a_table(run, pages):
    tables = read(pages["no pictures"]).tables
    shown = [table for table in tables if table[0][0] == "Example"]
    assert len(shown) == 2
    lightest = run().examples[0].weights.min()
    assert float(shown[0][1][4]) == pytest.approx(lightest, abs=0.0005)


def nasty(record, **changes):
    """The record with every text replaced by one that looks like HTML."""
    texts = {
        f.name: f"{NASTY} {f.name}"
        for f in dataclasses.fields(record)
        if isinstance(getattr(record, f.name), str)
    }
    return dataclasses.replace(record, **{**texts, **changes})


def test_all_text_is_escaped(run):
    content = run(arms=2, seeds=1, epochs=1, examples=20)
    arm = f"{NASTY} $x_1$ ${{title}} \N{CJK UNIFIED IDEOGRAPH-6559}"
    mean = [
        nasty(
            content,
            arms=(content.arms[0], nasty(content.arms[1], name=arm)),
            curves=(content.curves[0], nasty(content.curves[1], arm=arm)),
            examples=(nasty(content.examples[0], arm=arm),),
            by_class=(nasty(content.by_class[0], arm=arm),),
            least_trusted=pictures,
            classes=(NASTY,) * 6,
            verdict=(NASTY, NASTY),
            settings={NASTY: NASTY},
            environment={NASTY: NASTY},
        )
        for pictures in (
            (),
            (
                nasty(
                    content.least_trusted[0],
                    arm=arm,
                    items=tuple(nasty(item) for item in content.least_trusted[0].items),
                ),
            ),
        )
    ]
    for content in mean:
        page = re.sub("<script>.*?</script>", "", render(content), flags=re.DOTALL)
        assert "<b>" not in page
        assert '&"' not in page
        assert arm in read(page).text


def test_write_replaces_the_file_and_leaves_nothing_else(run, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    content = run(arms=1, seeds=1, epochs=2)
    write(content, path)
    assert path.read_text(encoding="utf-8") == render(content)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(run, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write(run(arms=1, seeds=1, epochs=2), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_write_leaves_is_swept_up(run, tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", killed)
        patch.setattr("pathlib.Path.unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            write(run(arms=1, seeds=1, epochs=2), tmp_path / "report.html")
    assert len(list(tmp_path.iterdir())) == 1
    sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_command_with_undecodable_bytes_is_written(run, tmp_path):
    content = dataclasses.replace(run(arms=1, seeds=1, epochs=1), command="train \udcff")
    write(content, tmp_path / "report.html")
    assert "train \\udcff" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_arms_of_one_name_are_refused(run):
    content = run(arms=1)
    with pytest.raises(ValueError, match="must differ"):
        dataclasses.replace(content, arms=content.arms * 2)


def test_records_of_unknown_arms_are_refused(run):
    content = run(arms=2)
    with pytest.raises(ValueError, match="Curve of unknown arm"):
        dataclasses.replace(content, arms=content.arms[:1])


def test_two_records_of_examples_in_one_arm_are_refused(run):
    content = run(arms=2)
    with pytest.raises(ValueError, match="at most one"):
        dataclasses.replace(content, examples=content.examples * 2)


def test_report_needs_neither_torch_nor_the_rest_of_the_library():
    allowed = re.compile(
        r"tutelage_cli\.report|tutelage\.(errors|storage\.(atomic_files|cache_folder))"
    )
    for file in resources.files("tutelage_cli.report").iterdir():
        if file.name.endswith(".py"):
            imports = re.findall(
                r"^(?:from|import) (\S+)", file.read_text("utf-8"), re.MULTILINE
            )
            assert "pyplot" not in " ".join(imports)
            assert not [name for name in imports if name.startswith("torch")]
            assert all(allowed.match(name) for name in imports if name.startswith("tutelage"))
