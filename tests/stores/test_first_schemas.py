"""Two writers that make one stream known by two different schemas at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.model import StreamSchema
from singerlake.upkeep.verify import verify_stream
from tests.storage.memory import Step
from tests.stores.stores import KINDS, ON_THE_LAKE, make_place
from tests.stores.test_any_writer import upload, writer

ADAS = StreamSchema(schema={"type": "object", "properties": {"a": {}}})
BOBS = StreamSchema(schema={"type": "object", "properties": {"b": {}}}, key_properties=("b",))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def between(kind: str, request: pytest.FixtureRequest, at: int, tmp_path: Path | None) -> bool:
    """Ada keeps her schema; as she comes to her step ``at``, Bob does all of his work. False where she has no such
    step. ``tmp_path``: Bob commits a file of a third schema besides."""
    place = make_place(kind, request)
    left = at

    def come_between(_: Step) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            # Another process, which sees the lake anew.
            bob = place.opened().stream("t", "s").writer(writer_id="bob", store=kind)
            bob.keep_schema(BOBS, "bobs run")
            if tmp_path is not None:
                bob.settled(bob.submit([upload(place, _made(tmp_path / str(at)))]))
            bob.finish()

    place.storage.hook = come_between
    ada = writer(place)
    known = ada.keep_schema(ADAS, "adas run")
    ada.finish()
    came = left < 0
    place.storage.hook = lambda _: None
    state = place.state()
    first = next(iter(state.versions))
    assert first in (schema_hash(ADAS.schema), schema_hash(BOBS.schema))
    assert known.schemas[first] == state.schemas[first]
    assert (state.versions[first], state.schemas[first].first_offset) == ("v1", 0)
    assert len(state.versions) == (2 if came and tmp_path is not None else 1)
    if tmp_path is None:
        assert verify_stream(place.storage, "t", "s", place.lake.stream("t", "s").state).findings == ()
    # Whoever came second is known from its own object, should the state be lost.
    kept = [entry.key for entry in place.storage.list("raw/t/s/") if entry.key.endswith("/schema.json")]
    again = place.lake.stream("t", "s").rebuilt(lineage="x")
    assert len(kept) + (came and tmp_path is not None) == len(again.versions)
    assert first in again.versions
    return came


@pytest.mark.crossed("kind", "with_a_file")
@pytest.mark.parametrize("with_a_file", [False, True], ids=["schema", "file"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_becomes_the_first_version_whatever_the_order(
    kind: str, with_a_file: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    at = 0
    while between(kind, request, at, tmp_path if with_a_file else None):
        # A new lake in a database costs more than all that Ada does.
        at += 1 if kind in ON_THE_LAKE else 3
    assert at > 8, "her steps were tried to the last one"
