"""How often the simulated writers make snapshots."""

from __future__ import annotations

from singerlake.stores.publish import SnapshotSettings
from tests.simulation.world.world import World

_TRANSACTIONS = (4, 1, 100)
"""A run is too short for the product's own number, so that as a rule it is less."""


def snapshot_settings(world: World) -> SnapshotSettings:
    """What all writers of a run have."""
    known = world.shared.get("snapshots")
    if not isinstance(known, SnapshotSettings):
        known = world.shared["snapshots"] = SnapshotSettings(transactions=world.choices.one_of(_TRANSACTIONS))
    return known
