"""All that is simulated: each manifest store by itself, with a stream that is dropped, one from which records are
erased, one whose messages expire, one whose state has segments, one whose records have attached files, and one whose
writers send to a queue; a stream that moves between them, atomic runs, and tables."""

from __future__ import annotations

from tests.simulation.runs.kinds import RUNS
from tests.simulation.stores.attaching import ATTACHING
from tests.simulation.stores.dropping import DROPPING
from tests.simulation.stores.erasing import ERASING
from tests.simulation.stores.expiring import EXPIRING
from tests.simulation.stores.kinds import KINDS
from tests.simulation.stores.moving import MOVING
from tests.simulation.stores.queueing import QUEUEING
from tests.simulation.stores.segmenting import SEGMENTING
from tests.simulation.tables.kinds import DELTA, TABLES

_OTHERS = {MOVING.name: MOVING, RUNS.name: RUNS, TABLES.name: TABLES, DELTA.name: DELTA}
STORES = KINDS | DROPPING | ERASING | EXPIRING | ATTACHING | SEGMENTING | QUEUEING | _OTHERS
