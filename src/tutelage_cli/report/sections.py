"""The sections of a report about all arms."""

from html import escape

from tutelage_cli.report import charts, elements, styles, table
from tutelage_cli.report.content import RunContent

NOTES = (
    "Over seeds: test accuracy is the mean ± the sample standard deviation, time relative "
    "to the untaught arm is the median, all else is the mean. Seconds: of the student's and "
    "the teacher's steps, and of all students that an arm builds on. Memory: what training "
    "added at its peak to what its process held in RAM or, on a card, to what torch had "
    "allocated there. Weight: how much the teacher lets an example count, on average over "
    "rightly and over wrongly labelled training examples; of a control, how much the given "
    "label counts: 0 where it is pruned, its share of the target where predictions are the "
    "targets. AUROC: chance that a wrongly labelled example weighs less than a rightly "
    "labelled one; 0.5 is guessing. A dash: not applicable, or not known."
)


def results(content: RunContent) -> str:
    """The table of arms, what its columns mean, the arms, and the results of every seed."""
    over = f"Arms compared. {table.caption(content.arms)}"
    shown = elements.table(over, table.HEADER, table.rows(content.arms), style="arms")
    who = "".join(
        f"<div><dt>{escape(arm.name)}</dt><dd>{escape(arm.teacher)}</dd></div>"
        for arm in content.arms
    )
    seeds = elements.table(
        "Every arm and seed", table.SEED_HEADER, table.seed_rows(content.arms), style="seeds"
    )
    body = (
        f'{shown}{elements.paragraph(NOTES, style="note")}<dl class="who">{who}</dl>'
        f"<details><summary>Every seed</summary>{seeds}</details>"
    )
    return elements.section("Results", body, anchor="results")


def learning(content: RunContent) -> str:
    """Test accuracy and training loss over epochs, for all arms."""
    if not content.curves:
        return ""
    names = [arm.name for arm in content.arms]
    key = styles.legend(list(styles.arm_styles(names).items()))
    accuracy = charts.accuracy_curves(content.curves, names, mark="accuracy")
    loss = charts.loss_curves(content.curves, names, mark="loss")
    body = (
        f'{key}<div class="charts">{elements.chart("Test accuracy", accuracy)}'
        f"{elements.chart('Training loss', loss)}</div>"
        + elements.paragraph(
            "Line: mean over seeds. Band: lowest to highest seed.", style="note"
        )
    )
    return elements.section("Learning curves", body, anchor="learning")


def repeat(content: RunContent) -> str:
    """How to run this again: the command, the settings and the environment."""
    body = (
        f'<pre tabindex="0"><code>{escape(content.command)}</code></pre>'
        f'<div class="columns">{elements.pairs("Settings", content.settings)}'
        f"{elements.pairs('Environment', content.environment)}</div>"
    )
    return elements.section("How to repeat this", body, anchor="repeat")
