"""``python -m papers``: list recipes, reproduce one, or measure whether teaching pays."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Column, Table

from papers.catalogue import RECIPES, load_recipe
from papers.framework.args import Reproduce, check
from papers.framework.paper_tables import planned_hours
from tutelage.errors import UsageError, require_known
from tutelage_cli.cli import FLAT, STOPPED, exit_code_of
from tutelage_cli.config.flags import with_repeated_joined
from tutelage_cli.runner.workers import refuse_several_processes
from tutelage_cli.terminal import Output, say, say_table

LISTED = (
    "Minutes are for three seeds: smoke and mini on two CPU cores, gpu and paper on one GPU. "
    "The scale hours is for two CPU cores; a recipe has it if it decides claims that are "
    "undecided at mini. python -m papers claims shows what the others would take."
)
FAILED = 1
"""the exit code where jobs failed"""
REPRODUCE_HELP = """Check a paper's claim: run its arms with several seeds and compare.

Prints the paper's numbers, ours, and a verdict: holds, does not hold,
smaller than the paper's, undecided, cannot be decided here. A run that was
stopped goes on with what is missing when the same command is given again.

Examples:
  python -m papers list
  python -m papers reproduce gar-splits --scale mini --seeds 3
  python -m papers reproduce mmel-copies --scale hours
  python -m papers reproduce gar-splits --set epochs=5 --out shorter
  python -m papers reproduce gar-splits --backend ray"""

CLAIMS_HELP = """Print every claim of the stored results, and what would decide it.

What would decide an undecided claim: the seeds with which its test finds the
paper's effect with 80% power, and the hours that they take on two CPU cores.

Examples:
  python -m papers claims
  python -m papers claims --undecided"""
PAYS_HELP = """Compare taught students with controls that use the same checked labels.

Each cell is one run of tutelage train: a data set, its noise, and a number of
checked examples. Cells that have run are not run again.

Examples:
  python -m papers pays
  python -m papers pays --cells mnist5k-flip2-0.4-20 --seeds 5"""


@dataclass(frozen=True)
class Pays:
    """Arguments of ``python -m papers pays``."""

    cells: tuple[str, ...] = ()
    """Which cells; all if none is given."""

    seeds: int = 5
    """Students of each arm, with seeds 0, 1, ...; at least 2."""

    jobs: int | None = None
    """Students trained at the same time; the number of CPU cores if not given."""

    out: Path = Path()
    """Folder that gets results/pays/ and runs/pays/; by default the current one."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class Claims:
    """Arguments of ``python -m papers claims``."""

    undecided: bool = False
    """Only those that neither hold nor do not hold."""

    evaluate: bool = False
    """Evaluate the claims again from the stored numbers, and write results and page: after a
    change of a claim or of a rule."""

    out: Path = Path()
    """Folder of results/ and docs/results.md; by default the current one."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class List:
    """List the recipes there are."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return exit_code_of(lambda: _command(parse(words)), "papers")


def parse(words: Sequence[str]) -> Reproduce | Claims | Pays | List:
    """Parse the command line; prints help, or a mistake, and exits where needed."""
    commands = (
        Annotated[Reproduce, tyro.conf.subcommand("reproduce", description=REPRODUCE_HELP)]
        | Annotated[Claims, tyro.conf.subcommand("claims", description=CLAIMS_HELP)]
        | Annotated[Pays, tyro.conf.subcommand("pays", description=PAYS_HELP)]
        | Annotated[List, tyro.conf.subcommand("list", description=List.__doc__)]
    )
    given = with_repeated_joined(words, ("--set", "--cells"))
    return tyro.cli(commands, prog="python -m papers", args=given, config=FLAT)


def _command(args: Reproduce | Claims | Pays | List) -> int:
    if isinstance(args, Pays):
        return pays(args)
    if isinstance(args, Claims):
        return claims(args)
    return list_recipes(args) if isinstance(args, List) else reproduce(args)


def pays(args: Pays) -> int:
    """Run the cells that have not been run, and print all."""
    if args.seeds < 2:
        raise UsageError(f"seeds is {args.seeds}; allowed: 2 and above, better 5.")
    from papers.pays.cells import run_cells
    from papers.pays.comparison import print_table, stored, write_curves

    run_cells(args.cells, args.seeds, args.jobs, args.out)
    write_curves(args.out)
    print_table(args.output.result(), stored(args.out))
    return 0


def reproduce(args: Reproduce) -> int:
    """Run the unfinished jobs of a recipe, and print its result."""
    refuse_several_processes()
    require_known("Unknown recipe", args.recipe, RECIPES)
    check(args)
    progress = args.output.progress()
    # imports torch: after all checks that do not need it
    from papers.framework.reproduce import print_result
    from papers.framework.reproduce import reproduce as run

    try:
        reproduction = run(load_recipe(args.recipe), args, progress)
    except KeyboardInterrupt:
        say(progress, "Stopped. The same command goes on with what is missing.")
        return STOPPED
    print_result(args.output.result(), reproduction)
    args.output.document(reproduction.plain)
    return FAILED if reproduction.failures else 0


def claims(args: Claims) -> int:
    """Print the claims of the stored results, evaluated and drawn again if wanted."""
    from papers.framework.page import CLAIMS_HEADER, claim_rows, verdict_counts, write_page
    from papers.framework.power import POWER_RULE, open_claims
    from papers.framework.reproduce import store_with_figure
    from papers.framework.results import stored_results

    contents = stored_results(args.out)
    if not contents:
        raise UsageError(
            f"{args.out / 'results'} holds no result; python -m papers reproduce makes one, "
            "and --out names another folder."
        )
    if args.evaluate:
        contents = [_evaluated(content, args.output.notice()) for content in contents]
        for content in contents:
            store_with_figure(args.out, content)
        write_page(args.out)
    summary = verdict_counts(contents)
    if args.undecided:
        contents = [{**c, "claims": open_claims(c)} for c in contents]
    console = args.output.result()
    rows = [row for content in contents for row in claim_rows(content, content["recipe"])]
    say_table(console, CLAIMS_HEADER, rows)
    for line in (*summary, POWER_RULE):
        say(console, f"\n{line}")
    parts = ("recipe", "scale", "claims")
    args.output.document({"results": [{part: c[part] for part in parts} for c in contents]})
    return 0


def _evaluated(content: dict[str, Any], console: Console) -> dict[str, Any]:
    from papers.framework.results import evaluated, uninstalled_arms

    recipe = load_recipe(content["recipe"])
    if arms := uninstalled_arms(content, recipe):
        say(
            console,
            f"{recipe.name}, {content['scale']}: left as it is stored, because the "
            f"recipe has no arm {', '.join(arms)} here: is a package missing?",
        )
    return evaluated(content, recipe)


def list_recipes(args: List) -> int:
    """Print the recipes there are."""
    console, known = args.output.result(), [load_recipe(name) for name in RECIPES]
    planned = {name: planned_hours(name) for name in RECIPES}
    recipes = Table(Column("Recipe", no_wrap=True), "What it checks", "Minutes")
    for name, recipe in zip(RECIPES, known, strict=True):
        minutes = ", ".join(f"{scale} {time:g}" for scale, time in recipe.minutes.items())
        plan = planned[name]
        hours = f"\nhours: {plan.hours:g} h, {plan.seeds} seeds" if plan else ""
        recipes.add_row(name, f"{recipe.title} ({recipe.where})", minutes + hours)
    console.print(recipes)
    say(console, LISTED)
    args.output.document({
        "recipes": {
            name: {
                "title": r.title,
                "where": r.where,
                "minutes": dict(r.minutes),
                "hours": (plan := planned[name]) and {"seeds": plan.seeds, "hours": plan.hours},
            }
            for name, r in zip(RECIPES, known, strict=True)
        }
    })
    return 0


if __name__ == "__main__":
    sys.exit(main())
