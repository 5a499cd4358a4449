"""Finding a stream's state beside writers that begin it."""

from __future__ import annotations

import dataclasses
import itertools

import msgspec
import pytest

from singerlake.errors import LostStateError, StreamClosedError
from singerlake.format.layout import manifest_key
from singerlake.format.state.manifest import to_json
from tests.storage.memory import Step
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.gc.test_stores import orphan
from tests.upkeep.vacuum.test_stores import begun


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_stream_that_is_born_at_any_step_has_no_state_or_its_own_and_is_never_lost(kind: str) -> None:
    found = 0
    for number in itertools.count():
        place, left, met = Place(kind), itertools.count(), list[Step]()

        def hook(step: Step, place: Place = place, left: itertools.count[int] = left, met: list[Step] = met) -> None:
            if not met and next(left) == number:  # noqa: B023
                met.append(step)
                begun(place, 1)

        place.storage.hook = hook
        loaded = place.context().load()
        if not met:
            break
        found += loaded is not None
    assert found
    assert number > 2


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_data_files_alone_mean_that_the_state_was_lost(kind: str) -> None:
    place = Place(kind)
    assert place.context().load() is None
    orphan(place)
    with pytest.raises(LostStateError, match="data files and no state; run 'singerlake rebuild' first"):
        place.context().load()


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_stream_that_is_still_on_its_way_to_this_store_is_not_lost(kind: str) -> None:
    """Its hint would be to rebuild what the migration is about to write."""
    place = Place("log" if kind == "lockfile" else "lockfile")
    closed = msgspec.structs.replace(begun(place, 1), closed=kind)
    place.storage.put(manifest_key("t", "s"), to_json(closed))
    context = dataclasses.replace(place.context(), store=place.store(kind=kind))
    with pytest.raises(StreamClosedError, match=f"new manifest store is '{kind}'; finish it with .*store migrate"):
        context.load()
