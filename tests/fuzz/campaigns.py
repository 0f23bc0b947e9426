"""The campaigns there are."""

from tests.fuzz.campaign import Campaign
from tests.fuzz.engine import check, situation
from tests.fuzz.tables import check as files
from tests.fuzz.tables import situation as filed

CAMPAIGNS = (
    Campaign("engine", situation.drawn, situation.from_spec, check.outcome, situation.simpler),
    Campaign("tables", filed.drawn, filed.from_spec, files.outcome, filed.simpler),
)
