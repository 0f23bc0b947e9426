"""``python -m tests.fuzz``: random situations against slow oracles, for as long as is said."""

import argparse
import itertools
import logging
import sys
import time

import torch

from tests.fuzz.campaign import Campaign, Failure, run, summary, told, tried
from tests.fuzz.campaigns import CAMPAIGNS


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit code says whether anything failed."""
    options = _options().parse_args(arguments)
    torch.set_num_threads(1)
    logging.getLogger("tutelage").setLevel(logging.ERROR)
    chosen = [c for c in CAMPAIGNS if options.only in (None, c.name)]
    if options.situation is not None:
        return _one(chosen[0], options.situation)
    failed, share = 0, options.minutes * 60 / len(chosen)
    for campaign in chosen:
        first = options.seed * 1_000_000
        seeds = itertools.islice(itertools.count(first), options.situations)
        tally = run(campaign, seeds, time.monotonic() + share, _say)
        _say(summary(campaign.name, tally, tally.alike))
        failed += tally.words["failed"]
    return int(failed > 0)


def _one(campaign: Campaign, spec: str) -> int:
    situation = campaign.from_spec(spec)
    outcome = tried(campaign, situation)
    _say(repr(situation))
    if outcome.word == "failed":
        _say(told(campaign, Failure(situation.spec, situation.spec, outcome)))
    else:
        _say(f"{outcome.word} {outcome.about} {outcome.detail}")
    return int(outcome.word == "failed")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options() -> argparse.ArgumentParser:
    names = [campaign.name for campaign in CAMPAIGNS]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first situation")
    parser.add_argument("--situations", type=int, default=None, help="how many at most")
    parser.add_argument("--only", choices=names, default=None)
    parser.add_argument("--situation", default=None, help="one alone: a seed, or as printed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
