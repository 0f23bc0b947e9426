"""``python -m papers``: list the recipes there are, and reproduce a table or figure by one."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.table import Column, Table

from papers.catalogue import RECIPES, load_recipe
from papers.framework.args import Reproduce, check, check_word
from tutelage_cli.cli import FLAT, STOPPED, exit_code_of
from tutelage_cli.terminal import Speech, say

FAILED = 1
"""the exit code where jobs failed"""
REPRODUCE_HELP = """Check a paper's claim: run its arms with several seeds and compare.

Prints the paper's numbers, ours, and a verdict: holds, does not hold,
undecided. A run that was stopped goes on with what is missing when the same
command is given again.

Examples:
  python -m papers list
  python -m papers reproduce gar-splits --scale mini --seeds 3
  python -m papers reproduce gar-splits --set epochs=5 --out shorter
  python -m papers reproduce gar-splits --backend ray"""


@dataclass(frozen=True)
class List:
    """List the recipes there are."""

    speech: Annotated[Speech, tyro.conf.arg(name="")] = field(default_factory=Speech)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return exit_code_of(lambda: _command(_parse(words)), "papers")


def _parse(words: Sequence[str]) -> Reproduce | List:
    commands = (
        Annotated[Reproduce, tyro.conf.subcommand("reproduce", description=REPRODUCE_HELP)]
        | Annotated[List, tyro.conf.subcommand("list", description=List.__doc__)]
    )
    return tyro.cli(commands, prog="python -m papers", args=words, config=FLAT)


def _command(args: Reproduce | List) -> int:
    return list_recipes(args) if isinstance(args, List) else reproduce(args)


def reproduce(args: Reproduce) -> int:
    """Run a recipe, or what is missing of it, and print its result."""
    check_word("recipe", args.recipe, RECIPES)
    check(args)
    progress = args.speech.progress()
    # torch comes in here, after everything that can be refused without it
    from papers.framework.reproduce import reproduce as run
    from papers.framework.terminal import tell

    try:
        found = run(load_recipe(args.recipe), args, progress)
    except KeyboardInterrupt:
        say(progress, "Stopped. The same command goes on with what is missing.")
        return STOPPED
    tell(args.speech.result(), found)
    args.speech.document(found.plain)
    return FAILED if found.failures else 0


def list_recipes(args: List) -> int:
    """Print the recipes there are."""
    console, known = args.speech.result(), [load_recipe(name) for name in RECIPES]
    recipes = Table(Column("Recipe", no_wrap=True), "What it checks", "Minutes")
    for name, recipe in zip(RECIPES, known, strict=True):
        minutes = ", ".join(f"{scale} {time:g}" for scale, time in recipe.minutes.items())
        recipes.add_row(name, f"{recipe.title} ({recipe.where})", minutes)
    console.print(recipes)
    args.speech.document({
        "recipes": {
            name: {"title": r.title, "where": r.where, "minutes": dict(r.minutes)}
            for name, r in zip(RECIPES, known, strict=True)
        }
    })
    return 0


if __name__ == "__main__":
    sys.exit(main())
