"""All that is simulated: each manifest store by itself, and a stream that moves between them."""

from __future__ import annotations

from tests.simulation.kinds import KINDS
from tests.simulation.moving import MOVING

STORES = KINDS | {MOVING.name: MOVING}
