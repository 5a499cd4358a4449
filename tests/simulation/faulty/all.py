"""Stores with a known hole each, as published designs and their defect reports have them, so that the simulation can be
seen to find what it is there to find. Nothing here is for use."""

from __future__ import annotations

from tests.simulation.faulty.collect import COLLECTIONS
from tests.simulation.faulty.commits import COMMITS
from tests.simulation.faulty.dynamodb import DYNAMODBS
from tests.simulation.faulty.log import LOGS
from tests.simulation.faulty.merge import MERGES
from tests.simulation.faulty.messages.attach import ATTACHMENTS
from tests.simulation.faulty.messages.drop import DROPS
from tests.simulation.faulty.messages.erase import ERASURES
from tests.simulation.faulty.messages.expire import EXPIRIES
from tests.simulation.faulty.queue import QUEUES
from tests.simulation.faulty.runs import RUNS_WITH_HOLES
from tests.simulation.faulty.segments import SEGMENTS
from tests.simulation.tables.kinds import FAULTY_TABLES

_ALL = (
    *FAULTY_TABLES,
    *COMMITS,
    *LOGS,
    *DYNAMODBS,
    *MERGES,
    *COLLECTIONS,
    *DROPS,
    *ERASURES,
    *EXPIRIES,
    *ATTACHMENTS,
    *SEGMENTS,
    *QUEUES,
    *RUNS_WITH_HOLES,
)
FAULTY = {kind.name: kind for kind in _ALL}
