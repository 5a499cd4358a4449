"""The moment of the last record, which a history goes on from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from singerlake.format.state.model import Manifest
from singerlake.tables.state.commit import load
from tests.tables.cases import Batch
from tests.tables.recompute import Declared
from tests.tables.tables import TABLE, capture, declaration_of, memory_lake, runner_of

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
WIDER = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
AT = "2026-01-05T00:00:00.000000Z"


@pytest.mark.parametrize("keep", ["history", "latest", "append"])
def test_a_run_with_new_columns_and_no_message_keeps_the_moment(keep: str) -> None:
    lake = memory_lake()
    line = {"type": "RECORD", "stream": "s", "record": {"id": 1}, "time_extracted": "2026-01-05T00:00:00Z"}
    capture(lake, Batch(SCHEMA, ("id",), (line,)), {})
    declaration = declaration_of(Declared(keep))
    runner_of(lake).run(declaration)
    runner = runner_of(lake)

    def declares_more(tap: str, stream: str) -> Manifest:
        """A tap sent a schema, and no record of it yet."""
        manifest = runner.manifest(tap, stream)
        (version,) = manifest.schemas.values()
        wider = structs.replace(version, schema=WIDER, first_offset=manifest.next_offset)
        return structs.replace(manifest, schemas={**manifest.schemas, "wider": wider})

    outcome = replace(runner, manifest=declares_more).run(declaration)
    assert outcome.run is not None
    assert (outcome.run.start, outcome.run.stop) == (1, 1)
    found = load(lake.storage, TABLE)
    assert found is not None
    assert "name" in [column.name for column in found.state.columns]
    assert found.state.moment == (AT if keep == "history" else None)
