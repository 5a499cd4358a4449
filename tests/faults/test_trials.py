"""Eight writers on storage as it is in the field: what one of them was told is committed is there, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.conftest import through
from tests.faults.support.network import Network
from tests.faults.support.trial import ALONE, AT_ONCE, FILES, WRITERS, Road, Trouble, run
from tests.servers.fault_proxy.proxy import FaultProxy

TROUBLES = ALONE if FILES else AT_ONCE


@pytest.fixture
def road(bucket: Network, database_proxy: FaultProxy | None) -> Road:
    # Writers find out for themselves what the storage honours.
    reached = replace(bucket.reached, honoured=None)
    if database_proxy is not None:
        reached = through(reached, database_proxy)
    return Road(bucket.crew, reached, bucket.proxy, database_proxy)


@pytest.mark.in_turn("kind", "trouble")
@pytest.mark.timeout(1800 if FILES else 300)
@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_nothing_that_was_acknowledged_is_lost_or_there_twice(
    road: Road, trouble: Trouble, request: pytest.FixtureRequest
) -> None:
    files = FILES or 2
    outcome = run(road, trouble, files=files)
    print(f"{request.node.name}: {outcome}")
    assert (outcome.lost, outcome.listed_twice) == (0, 0), outcome
    assert outcome.acknowledged == WRITERS * files
    assert outcome.failures or not outcome.resent
    road.crew.check(orphans=None)
