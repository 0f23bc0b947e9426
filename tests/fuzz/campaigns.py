"""The campaigns there are."""

from tests.fuzz.campaign import Campaign
from tests.fuzz.engine import check, situation

CAMPAIGNS = (
    Campaign(
        "engine", situation.drawn, situation.from_spec, check.outcome, situation.simpler
    ),
)
