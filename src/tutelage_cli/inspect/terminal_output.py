"""The terminal output of an inspection."""

from collections.abc import Iterator

import numpy as np
from rich.console import Console

from tutelage_cli.inspect.combined import LEVEL, Labels
from tutelage_cli.inspect.findings import Inspection
from tutelage_cli.report import formats
from tutelage_cli.terminal import say, say_table

TEXT_SHOWN = 60
"""letters of a sentence that are shown"""


def print_inspection(console: Console, result: Inspection, top: int) -> None:
    """Print the most suspect labels, and what holds for all of them."""
    labels = result.labels
    header = columns(labels)
    rows = [cells(labels, row, TEXT_SHOWN) for row in range(min(top, len(labels)))]
    title = f"{headline(result)}"
    say(console, title)
    say_table(console, header, rows, spare=("Epochs",))
    say(console, legend(labels))
    for line in sentences(result):
        say(console, line)


def headline(result: Inspection) -> str:
    """What the table shows."""
    if result.labels.wrong is not None:
        return (
            f"The {len(result.labels):,} labels by the probability that they are wrong, by "
            f"students that were not trained on them ({'; '.join(result.students)})"
        )
    whose = f"by {result.arm}" if result.arm else f"in {result.students[0]}"
    seeds = len(result.students)
    over = f", mean over {seeds} students" if seeds > 1 else ""
    return (
        f"The most suspect of {len(result.labels):,} labels {whose}, by "
        f"{result.labels.by}{over}"
    )


def columns(labels: Labels) -> list[str]:
    """The header of the table."""
    names = ["Text" if labels.texts is not None else "Example", "Given", "Predicted"]
    names += ["True"] if labels.true is not None else []
    names += ["P(wrong)" if labels.wrong is not None else "Weight", "Loss"]
    if labels.epochs:
        names.append(f"Epochs {', '.join(str(labels.epochs[n]) for n in _few(labels))}")
    names += ["Flagged"] if labels.flagged is not None else []
    return [*names, "By"] if labels.students.max() > 1 else names


def legend(labels: Labels) -> str:
    """What the columns mean."""
    if labels.wrong is not None:
        parts = [
            "P(wrong): probability that the label is wrong",
            "Loss: of the given label, nats",
        ]
        parts += ["Flagged: more probably wrong than right"]
        parts += ["By: of the seeds that have the label, those that flag it"]
        return f"{'; '.join(parts if labels.students.max() > 1 else parts[:-1])}."
    parts = ["Weight: the teacher's, at the end", "Loss: the student's, nats"]
    parts += ["Epochs: the training loss in these epochs"] if labels.epochs else []
    parts += ["Flagged: likely wrong, see below"] if labels.flagged is not None else []
    parts += ["By: of the students trained on it, those that flag it"]
    return f"{'; '.join(parts if labels.students.max() > 1 else parts[:-1])}."


def cells(labels: Labels, row: int, most: int | None = None) -> list[str]:
    """One label as texts."""
    what = labels.names[row] if labels.texts is None else labels.texts[row]
    what = " ".join(what.split()) if labels.texts is not None else what
    if most is not None and labels.texts is not None and len(what) > most:
        what = f"{what[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
    texts = [what, labels.given[row], labels.predicted[row]]
    texts += [labels.true[row]] if labels.true is not None else []
    first = labels.weights if labels.wrong is None else labels.wrong.mean(1)
    texts += [formats.number(float(v[row])) for v in (first, labels.losses)]
    if labels.past_losses is not None:
        past = labels.past_losses[row, _few(labels)]
        texts.append(" ".join(f"{value:.2g}" for value in past))
    if labels.flagged is not None:
        texts.append("yes" if labels.flagged[row] else "no")
    by = f"{labels.distrusted[row]} of {labels.students[row]}"
    return [*texts, by] if labels.students.max() > 1 else texts


def sentences(result: Inspection) -> Iterator[str]:
    """Sentences on all labels together."""
    total, by = len(result.labels), result.labels.by
    if result.labels.wrong is not None:
        yield from _by_probability(result.labels)
    elif result.labels.flagged is not None:
        beyond = "below" if by == "weight" else "above"
        limits = ", ".join(map(formats.number, result.limits))
        share = f"{100 * result.max_fpr:g}%"
        majority = ", in more than half of its students" if len(result.students) > 1 else ""
        yield (
            f"Likely wrong: {result.flagged:,} of {total:,} labels, those with a {by} {beyond} "
            f"that of all but {share} of {result.clean[0]:,} held-out examples{majority} "
            f"(limit: {limits})."
        )
        most = result.max_fpr * total
        yield (
            f"False positives: where held-out labels are right and held-out examples like the "
            f"others, about {share} of the right labels are flagged, or fewer: "
            f"{most:,.0f} if all of the {total:,} were right."
        )
        if result.flagged > most:
            yield (
                f"So of these {result.flagged:,} about {most:,.0f} or fewer are right, and "
                f"{result.flagged - most:,.0f} or more wrong."
            )
    if (q := result.quality) is not None and q.wrong:
        yield (
            f"Known: {q.wrong:,} labels are wrong. Of the flagged {_percent(q.precision)} are "
            f"(precision); of the wrong {_percent(q.recall)} are flagged (recall); F1 "
            f"{formats.number(q.f1)}. Right labels flagged: {_percent(q.false_positive_rate)}."
        )
    elif q is not None:
        rate = _percent(q.false_positive_rate)
        yield f"Known: no label is wrong. Right labels flagged: {rate}."
    if np.isfinite(result.auroc):
        yield f"Chance that a wrong label ranks before a right one (AUROC): {result.auroc:.3f}."
    yield from result.notes


def _by_probability(labels: Labels) -> Iterator[str]:
    assert labels.wrong is not None
    assert labels.flagged is not None
    low, high = labels.error_count_interval(labels.flagged)
    least, most = labels.error_count_interval()
    count, total, sure = int(labels.flagged.sum()), len(labels), f"{100 * LEVEL:g}%"
    yield (
        f"Likely wrong: {count:,} of {total:,} labels, those that are more probably wrong than "
        "right."
    )
    if count:
        yield (
            f"Of these {count:,} between {low:,} and {high:,} are wrong, and between "
            f"{count - high:,} and {count - low:,} right ({sure} probability)."
        )
    yield f"Of all {total:,} labels between {least:,} and {most:,} are wrong, likewise."


def _percent(share: float) -> str:
    text = formats.percent(share)
    return text if text == formats.DASH else f"{text}%"


def _few(labels: Labels) -> list[int]:
    last = len(labels.epochs) - 1
    return list(dict.fromkeys([0, last // 2, last]))
