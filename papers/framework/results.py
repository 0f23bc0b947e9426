"""The result of a reproduction as plain values, from which text, page and figure are made."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from papers.framework.args import SCALES
from papers.framework.jobs import Failure, read_record
from papers.framework.paper_tables import PAPERS, notes_on, printed
from papers.framework.plan import Plan
from papers.framework.power import judged_with_power, printed_effect, seconds_per_seed
from papers.framework.recipe import Panel, Recipe
from tutelage.errors import UsageError
from tutelage.storage.json_files import write_json
from tutelage_cli.claims import RULE, UNDECIDED, combined_verdict, evaluate
from tutelage_cli.config.settings_files import to_plain
from tutelage_cli.intervals import mean_interval

WITHIN, MISSED, OPEN = "within our interval", "not reproduced", "open"
NUMBERS_RULE = (
    "A printed number is within our interval if it lies in the 95% interval of our mean, "
    "widened by the printed spread and by half a unit of the last printed decimal, and not "
    "reproduced if it lies outside; a wide interval contains many values: see ± and n. It is "
    "open with one seed, without a finite number in every seed, and at smoke scale."
)


class Row(NamedTuple):
    """One metric of one arm, and the paper's number."""

    arm: str
    metric: str
    values: tuple[float | None, ...]  # one for each seed
    paper: Mapping[str, Any] | None
    """the printed number as plain values; None if none is printed"""
    match: str  # ``WITHIN``, ``MISSED``, ``OPEN``; empty if none is printed

    @property
    def known(self) -> list[float]:
        """The finite values."""
        return [value for value in self.values if value is not None]


def result(plan: Plan, failures: Sequence[Failure]) -> dict[str, Any]:
    """The content of ``results/<scale>/<recipe>.json``."""
    recipe = plan.recipe
    names = tuple(recipe.metrics)
    records = {(job.arm, job.seed): read_record(job, names) or {} for job in plan.jobs}
    arms = {a: {m: _column(plan, records, a, "metrics", m) for m in names} for a in recipe.arms}
    finished = [record for record in records.values() if record]
    lines = sorted({name for record in finished for name in record["series"]})
    series = {
        a: {s: _column(plan, records, a, "series", s) for s in lines} for a in recipe.arms
    }
    content = {
        "recipe": recipe.name,
        "scale": plan.scale,
        **_texts(recipe),
        "seeds": list(range(plan.seeds)),
        "arms": arms,
        "claim": {},
        "claims": [],
        "failed": [failure._asdict() for failure in failures],
        "settings": to_plain(plan.settings),
        "changed": dict(plan.changed),
        "hardware": sorted({record["hardware"] for record in finished}),
        "versions": _versions(finished),
        "seconds": round(sum(record["seconds"] for record in finished), 1),
        "series": {
            a: {s: v for s, v in lines_of_arm.items() if any(v)}
            for a, lines_of_arm in series.items()
        },
        "drawings": _drawings(plan, records),
    }
    return evaluated(content, recipe)


def uninstalled_arms(content: Mapping[str, Any], recipe: Recipe) -> list[str]:
    """The arms of a stored result that the recipe lacks without some package."""
    return [arm for arm in content["arms"] if arm not in recipe.arms]


def _texts(recipe: Recipe) -> dict[str, Any]:
    # what a result says of its recipe, and no job decides
    return {
        "title": recipe.title,
        "paper": PAPERS[recipe.paper],
        "where": recipe.where,
        "metrics": dict(recipe.metrics),
        "printed": _printed(recipe),
        "notes": notes_on(recipe.name),
        "plots": [plot._asdict() for plot in recipe.plots],
    }


def _column(
    plan: Plan, records: Mapping[tuple[str, int], Any], arm: str, part: str, name: str
) -> list[Any]:
    return [records[arm, seed].get(part, {}).get(name) for seed in range(plan.seeds)]


def _drawings(plan: Plan, records: Mapping[tuple[str, int], Any]) -> dict[str, dict[str, Any]]:
    # those of the figure, of the first seed that has them: they are large
    drawings: dict[str, dict[str, Any]] = {}
    for panel in plan.recipe.plots:
        if isinstance(panel, Panel):
            seeds = [records[panel.arm, s].get("drawings", {}) for s in range(plan.seeds)]
            if stored := [seed[panel.drawing] for seed in seeds if panel.drawing in seed]:
                drawings.setdefault(panel.arm, {})[panel.drawing] = stored[0]
    return drawings


def _printed(recipe: Recipe) -> list[dict[str, Any]]:
    return [
        {"arm": arm, "metric": metric, **printed(recipe.paper, recipe.table, *cell)._asdict()}
        for (arm, metric), cell in recipe.printed.items()
    ]


def evaluated(content: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """A stored result with the recipe's present texts and claims, evaluated again.

    As it is stored if it has arms that need a package that is not installed.
    """
    scale = content["scale"]
    if uninstalled_arms(content, recipe):
        return dict(content)
    try:
        return {**content, **_texts(recipe), **_verdicts(recipe, content)}
    except KeyError as error:
        raise UsageError(
            f"The result of {recipe.name}, scale {scale}, has no {error}, which a claim names; "
            f"run it again: python -m papers reproduce {recipe.name} --scale {scale}."
        ) from error


def _verdicts(recipe: Recipe, content: Mapping[str, Any]) -> dict[str, Any]:
    scale, seconds, verdicts = content["scale"], seconds_per_seed(content), []
    for claim in recipe.claims:
        comparisons = []
        for comparison in claim.comparisons:
            judged = evaluate(comparison, content["arms"])
            effect = printed_effect(recipe, comparison)
            if scale == "smoke":
                unknown = {"verdict": UNDECIDED, "why": "smoke scale", "needed": None}
                comparisons.append(judged._asdict() | unknown)
            else:
                comparisons.append(judged_with_power(judged, effect, seconds))
        verdicts.append({
            "text": claim.text,
            "of_paper": claim.of_paper,
            "verdict": combined_verdict([judged["verdict"] for judged in comparisons]),
            "comparisons": comparisons,
        })
    of_paper = [claim for claim in verdicts if claim["of_paper"]] or verdicts
    overall = {
        "text": " ".join(claim["text"] for claim in of_paper),
        "rule": RULE if scale != "smoke" else f"Not decided at smoke scale: {SCALES['smoke']}.",
        "verdict": combined_verdict([claim["verdict"] for claim in of_paper]),
    }
    return {"claim": overall, "claims": verdicts}


def _versions(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    each = [record["versions"] for record in records]
    names = sorted({name for versions in each for name in versions})
    return {n: ", ".join(sorted({str(v[n]) for v in each if n in v})) for n in names}


def rows(content: Mapping[str, Any]) -> list[Row]:
    """The table of a result: every metric of every arm, with the paper's number."""
    cells = {(cell["arm"], cell["metric"]): cell for cell in content["printed"]}
    return [
        Row(arm, m, tuple(values), cell, _match(values, cell, content["scale"]))
        for arm, measured in content["arms"].items()
        for m, values in measured.items()
        for cell in [cells.get((arm, m))]
    ]


def _match(values: Sequence[float | None], cell: Mapping[str, Any] | None, scale: str) -> str:
    if cell is None:
        return ""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or len(known) < 2 or scale == "smoke":
        return OPEN
    ours = mean_interval(known, 0.95)
    tolerance = (
        ours.high - ours.mean + (cell["spread"] or 0.0) + 0.5 * 10.0 ** -cell["decimals"]
    )
    return WITHIN if abs(ours.mean - cell["value"]) <= tolerance + 1e-12 else MISSED


def store(root: Path, content: Mapping[str, Any]) -> Path:
    """Write the file of a result."""
    file = root / "results" / content["scale"] / f"{content['recipe']}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, content)
    return file


def stored_results(root: Path) -> list[dict[str, Any]]:
    """All stored results, ordered by recipe and then from the smallest scale to the largest."""
    contents = []
    for file in sorted((root / "results").glob("*/*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file} is damaged; delete it, or run that again.") from error
        if isinstance(content, dict) and {"recipe", "scale", "claims"} <= content.keys():
            if lacking := {"arms", "seeds"} - content.keys():
                raise UsageError(
                    f"{file} has no {', '.join(sorted(lacking))}; delete it, or run that again."
                )
            contents.append(content)
    order = list(SCALES)
    return sorted(contents, key=lambda c: (c["recipe"], order.index(c["scale"])))
