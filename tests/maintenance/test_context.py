"""Finding a stream's state beside writers that begin it."""

from __future__ import annotations

import itertools

import pytest

from singerlake.errors import LostStateError
from tests.maintenance.gc.test_stores import orphan
from tests.maintenance.vacuum.test_stores import begun
from tests.manifests.stores import ON_THE_LAKE, Place
from tests.storage.memory import Step


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
