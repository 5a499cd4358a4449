"""A segment that is gone or damaged is named by whoever needs it, overwritten by nobody, and mended by a rebuild."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.stores.segments.stored import named_in, read_manifest
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from singerlake.upkeep.verify import verify_stream
from tests.stores.segments.sizes import few_files_make_segments  # noqa: F401
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place, make_place
from tests.stores.test_any_writer import upload, writer

KEY = layout.manifest_key("t", "s")
Damage = Callable[[Place, str], object]
DAMAGES: list[Damage] = [
    lambda place, key: place.storage.delete(key),
    lambda place, key: place.storage.put(key, b"no gzip"),
]


def begun(place: Place, folder: Path) -> list[str]:
    """A stream of six files, which ``manifest.json`` shows by two segments."""
    own, ids = writer(place), []
    for _ in range(6):
        each = upload(place, folder)
        own.settled(own.submit([each]))
        ids.append(each.file.id)
    own.finish()
    return ids


def first_segment(place: Place) -> str:
    stored = place.storage.get(KEY)
    assert stored is not None
    return layout.segment_key("t", "s", named_in(stored.body)[0].name)


def repair(place: Place, **wish: bool) -> Repair:
    return repair_stream(place.context(), RepairOptions(**wish))


def objects(place: Place) -> dict[str, bytes]:
    found = {entry.key: place.storage.get(entry.key) for entry in place.storage.list("")}
    return {key: stored.body for key, stored in found.items() if stored is not None}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_reader_and_a_check_name_it(place: Place, damage: Damage, tmp_path: Path) -> None:
    begun(place, tmp_path)
    key = first_segment(place)
    damage(place, key)
    stream = place.opened().stream("t", "s")
    with pytest.raises(CorruptObjectError) as caught:
        list(stream.snapshot().files)
    assert caught.value.context["key"] == key
    [finding] = verify_stream(place.storage, "t", "s", stream.state).findings
    assert (finding.kind, finding.key) == ("manifest", key)
    assert "singerlake rebuild --discard-manifest" in finding.message


@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_rebuild_overwrites_nothing_unasked_and_mends_it_on_request(
    kind: str, damage: Damage, tmp_path: Path
) -> None:
    place = Place(kind)
    ids = begun(place, tmp_path)
    before = place.state()
    number = before.transaction.number
    damage(place, first_segment(place))
    there = objects(place)
    with pytest.raises(CorruptObjectError, match="segment of the stream's state"):
        repair(place)
    assert objects(place) == there
    repair(place, discard=True)
    after = place.state()
    assert [file.id for file in after.files] == ids
    assert after.transaction.number > number
    assert after.lineage != before.lineage
    stored = place.storage.get(KEY)
    assert stored is not None
    assert read_manifest(stored.body, key=KEY, storage=place.storage).files == after.files


@pytest.mark.parametrize("kind", IN_A_DATABASE)
@pytest.mark.parametrize("damage", DAMAGES)
def test_where_the_database_has_the_files_a_rebuild_shows_them_again(
    kind: str, damage: Damage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = make_place(kind, request)
    ids = begun(place, tmp_path)
    damage(place, first_segment(place))
    assert place.listed() == ids
    there = objects(place)
    repair(place, dry_run=True)
    assert objects(place) == there
    assert not repair(place).needed
    assert [file.id for file in place.opened().stream("t", "s").snapshot().files] == ids
