"""Situations one after the other: what became of them, and the smallest that fail."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from tests.fuzz.outcomes import Outcome


class Shown(Protocol):
    """A situation of any campaign."""

    @property
    def spec(self) -> str:
        """What repeats it."""
        ...


S = TypeVar("S", bound=Shown)


class Campaign(NamedTuple):
    """What a campaign tries."""

    name: str
    drawn: Callable[[int], Shown]
    """the situation of a seed"""
    from_spec: Callable[[str], Shown]
    outcome: Callable[..., Outcome]
    simpler: Callable[..., Iterator[Shown]]
    """the same without one awkwardness"""


class Failure(NamedTuple):
    """A situation that failed, and the smallest like it."""

    first: str
    smallest: str
    outcome: Outcome


@dataclass
class RunningLoss:
    """What a campaign found."""

    words: Counter = field(default_factory=Counter)
    refusals: Counter = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    """one for each smallest situation"""
    alike: Counter = field(default_factory=Counter)
    """how many more failed as each of these"""

    @property
    def tried(self) -> int:
        """Situations in all."""
        return self.words.total()


def tried(campaign: Campaign, situation: Shown) -> Outcome:
    """What becomes of a situation; an error of the fuzz itself is told as such."""
    try:
        return campaign.outcome(situation)
    except Exception as error:  # noqa: BLE001 - one situation must not end the campaign
        return Outcome("failed", f"oracle: {type(error).__name__}", str(error)[:200])


def shrunk(campaign: Campaign, situation: Shown, about: str) -> tuple[Shown, Outcome]:
    """The smallest situation that fails alike, an awkwardness left out at a time."""
    found, last = situation, tried(campaign, situation)
    again = True
    while again:
        again = False
        for simpler in campaign.simpler(found):
            outcome = tried(campaign, simpler)
            if outcome.word == "failed" and outcome.about == about:
                found, last, again = simpler, outcome, True
                break
    return found, last


def parts_of(spec: str) -> set[str]:
    """The awkward things of a situation, its seed aside."""
    return {part for part in spec.split("; ") if not part.startswith("seed=")}


def run(
    campaign: Campaign,
    seeds: Iterator[int],
    until: float,
    tell: Callable[[str], None],
) -> RunningLoss:
    """Try situations until there are no more or time is up.

    Args:
        campaign: What is tried.
        seeds: Of the situations.
        until: By ``time.monotonic``.
        tell: Where failures are told as they come.

    Returns:
        What was found.
    """
    tally, seen = RunningLoss(), Counter()
    for seed in seeds:
        if time.monotonic() >= until:
            break
        situation = campaign.drawn(seed)
        outcome = tried(campaign, situation)
        tally.words[outcome.word] += 1
        if outcome.word == "refused":
            tally.refusals[outcome.about] += 1
        if outcome.word != "failed":
            continue
        seen[outcome.about] += 1
        known = _known(tally, situation.spec, outcome)
        if known is not None:
            tally.alike[known.smallest] += 1
            continue
        small, last = shrunk(campaign, situation, outcome.about)
        if _known(tally, small.spec, last) is None:
            failure = Failure(situation.spec, small.spec, last)
            tally.failures.append(failure)
            tell(told(campaign, failure))
        else:
            tally.alike[small.spec] += 1
    return tally


def _known(tally: RunningLoss, spec: str, outcome: Outcome) -> Failure | None:
    for failure in tally.failures:
        same = failure.outcome.about == outcome.about
        if same and parts_of(failure.smallest) <= parts_of(spec):
            return failure
    return None


def told(campaign: Campaign, failure: Failure) -> str:
    """A failure in words."""
    how = f"python -m tests.fuzz --only {campaign.name} --situation"
    return (
        f"FAILED {failure.outcome.about}: {failure.outcome.detail}\n"
        f"  smallest: {how} '{failure.smallest}'\n"
        f"  first:    {how} '{failure.first}'"
    )


def summary(name: str, tally: RunningLoss, alike: Mapping[str, int]) -> str:
    """What a campaign found, in words."""
    words = ", ".join(f"{n} {word}" for word, n in sorted(tally.words.items()))
    lines = [f"{name}: {tally.tried} tried: {words}"]
    lines += [f"  refused {n:5d}  {about}" for about, n in tally.refusals.most_common()]
    for failure in tally.failures:
        more = alike.get(failure.smallest, 0)
        lines.append(f"  FAILED  {1 + more:5d}  {failure.outcome.about}: {failure.smallest}")
    return "\n".join(lines)
