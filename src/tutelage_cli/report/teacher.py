"""The section on one taught arm: weights of the training examples."""

from tutelage_cli.report import charts, distrust, elements, formats, styles
from tutelage_cli.report.content import Curve, Example, Examples, RunContent
from tutelage_cli.report.pictures import gallery
from tutelage_cli.report.styles import LineStyle

BOTH = [("right labels", styles.RIGHT), ("wrong labels", styles.WRONG)]
CLASSED = "Mean weight by given label: mean over the rows of an epoch's steps, then over seeds."
READ: tuple[str, ...] = ("Example", "Text", *distrust.HEADER[1:])
TITLE = "The examples of lowest weight, one seed"


def section(content: RunContent, name: str, *, anchor: str) -> str:
    """Weights as histogram, against loss and over epochs, and the examples of lowest weight."""
    examples = next((e for e in content.examples if e.arm == name and len(e.ids)), None)
    text = distrust.summary(examples) if examples is not None else ""
    body = elements.paragraph(text, style="summary")
    body += _charts(content, name, examples, anchor)
    body += _distrusted(content, name, examples)
    control = any(a.teacher.startswith("none") for a in content.arms if a.name == name)
    title = f"Weights of labels: {name}" if control else f"Weights by the teacher: {name}"
    return elements.section(title, body, anchor=anchor) if body else ""


def _weighs(curve: Curve) -> bool:
    return curve.weight_right is not None or curve.weight_wrong is not None


def _charts(content: RunContent, name: str, examples: Examples | None, anchor: str) -> str:
    """All charts of an arm, with one legend and one note."""
    classed = next((record for record in content.by_class if record.arm == name), None)
    arms = len(content.examples)
    drawn: list[str] = []
    entries: dict[str, LineStyle] = {}
    notes: list[str] = []
    if examples is not None:
        entries |= {kind: style for kind, style, _ in charts.kinds(examples)}
        histogram = charts.weight_histogram(examples, mark=f"{anchor}-histogram")
        points = charts.weight_against_loss(
            examples, mark=f"{anchor}-points", classes=content.classes, arms=arms
        )
        drawn.append(elements.chart("Weights, one seed", histogram))
        drawn.append(elements.chart("Weight against loss, one seed", points))
        notes.append(_note(examples, arms))
    weighing = [curve for curve in content.curves if curve.arm == name and _weighs(curve)]
    if weighing:
        entries |= dict(BOTH)
        over = charts.weight_curves(weighing, mark=f"{anchor}-weights")
        drawn.append(elements.chart("Mean weight, all seeds", over))
        notes.append("Mean weight: line and band as in the learning curves.")
    if classed is not None:
        grid = charts.class_weights(classed, content.classes, mark=f"{anchor}-classes")
        drawn.append(elements.chart("Mean weight by label, all seeds", grid))
        notes.append(CLASSED)
    if not drawn:
        return ""
    key = styles.legend(list(entries.items()))
    note = elements.paragraph(" ".join(notes), style="note")
    return f'{key}<div class="charts">{"".join(drawn)}</div>{note}'


def _note(examples: Examples, arms: int) -> str:
    size, drawn = len(examples.ids), len(charts.sample(len(examples.ids), arms))
    points = (
        f"{drawn:,} of {size:,} examples, drawn at random" if drawn < size else "all examples"
    )
    return (
        "Histogram: the shares of each kind add up to 100 %. "
        f"Weight against loss: {points}; a loss below {charts.LEAST_LOSS:g} is drawn at "
        f"{charts.LEAST_LOSS:g}."
    )


def _distrusted(content: RunContent, name: str, examples: Examples | None) -> str:
    """Show the examples that the teacher trusts least."""
    shown = next(
        (record for record in content.least_trusted if record.arm == name and record.items),
        None,
    )
    if shown is not None and isinstance(shown.items[0].shown, str):
        texts = elements.table(TITLE, READ, [_read(s) for s in shown.items], style="texts")
        return texts + elements.paragraph(_same_order(content, name), style="note")
    if shown is not None:
        known = any(picture.true is not None for picture in shown.items)
        note = "A dashed upper edge marks a wrong label. " if known else ""
        note += _same_order(content, name)
        return f"<h3>{TITLE}</h3>{gallery(shown)}{elements.paragraph(note, style='note')}"
    if examples is None:
        return ""
    rows = distrust.rows(examples, content.classes)
    return elements.table(TITLE, distrust.HEADER, rows, style="examples")


def _same_order(content: RunContent, name: str) -> str:
    seed = next(arm.seeds[0] for arm in content.arms if arm.name == name)
    return (
        f"In this order: tutelage inspect RUN --arm {name} --seed {seed} --by weight. Labels "
        "that are likely wrong, by all seeds: tutelage inspect RUN."
    )


def _read(example: Example) -> tuple[str, ...]:
    true = formats.DASH if example.true is None else example.true
    numbers = map(formats.number, (example.weight, example.loss))
    return (
        str(example.id),
        str(example.shown),
        example.given,
        example.predicted,
        true,
        *numbers,
    )
