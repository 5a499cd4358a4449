"""All that is simulated: each manifest store by itself, and a stream that moves between them."""

from __future__ import annotations

from tests.simulation.stores.kinds import KINDS
from tests.simulation.stores.moving import MOVING

STORES = KINDS | {MOVING.name: MOVING}
