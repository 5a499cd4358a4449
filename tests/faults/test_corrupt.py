"""Objects that are not what they should be, named loudly and never overwritten (cases 15 and 16), and objects that are
not from when they should be (24)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.format import layout
from tests.faults.conftest import Hire
from tests.faults.support.crew import Crew
from tests.faults.support.places import Kind, Place, of_kinds
from tests.faults.support.worker import Point

pytestmark = pytest.mark.in_turn("kind")

Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "empty": lambda _: b"",
    "cut": lambda body: body[: len(body) // 2],
    "no-json": lambda body: b"\x1f\x8b" + body,
    "other-json": lambda _: b'["elsewhere"]',
    "newer-format": lambda body: body.replace(b'"format": 1', b'"format": 99').replace(b'"format":1', b'"format":99'),
    "other-stream": lambda body: body.replace(b'"stream":"s"', b'"stream":"S"').replace(
        b'"stream": "s"', b'"stream": "S"'
    ),
}
ANYWHERE = {name: DAMAGES[name] for name in ("empty", "cut", "no-json", "other-json")}
"""Those of objects without a format or a stream in them."""


def refused(crew: Crew, key: str, damages: dict[str, Damage]) -> None:
    """Damage one object in several ways; each time a writer says which object it is, and changes nothing."""
    path = crew.place.path / key
    whole = path.read_bytes()
    told = {}
    for name, damage in damages.items():
        path.write_bytes(damage(whole))
        assert path.read_bytes() != whole
        before = crew.place.objects()
        said = crew.start(f"eve{len(crew.workers)}", files=1).failed().splitlines()[0]
        told[name] = said.partition(":")[0], key in said
        assert crew.place.objects() == before
    path.write_bytes(whole)
    kinds = {"newer-format": "UnsupportedFormatError", "other-stream": "ForeignManifestError"}
    assert told == {name: (kinds.get(name, "CorruptObjectError"), True) for name in damages}
    crew.publish(f"whole{len(crew.workers)}", files=1)
    crew.check()


@of_kinds(lambda kind: kind.on == "lake")
def test_15_a_manifest_that_cannot_be_read_is_named_and_left(crew: Crew) -> None:
    crew.publish("ada")
    refused(crew, layout.manifest_key("t", "s"), DAMAGES)


@of_kinds(lambda kind: kind.locks)
def test_15_a_lock_that_cannot_be_read_is_named_and_left(crew: Crew) -> None:
    crew.publish("ada", files=1)
    crew.start("bea", Point(r"^storage\.upload ", "kill")).killed()
    (key,) = crew.place.keys_with(layout.LOCK)
    refused(crew, key, ANYWHERE)


@of_kinds(lambda kind: kind.on == "lake" and bool(kind.tail))
def test_15_a_record_that_cannot_be_read_is_named_and_left(place: Place, hire: Hire) -> None:
    # No snapshot, so that the record is read.
    crew = hire(replace(place, stores=replace(place.stores, snapshot_transactions=100)))
    crew.publish("before", files=1)
    # Killed before it brings manifest.json up to what it did, so that the record is still to be read.
    crew.start("ada", Point(r"^store\.publish", "kill", nth=2)).killed()
    records = [key for key in crew.place.keys_with("/_log/") if layout.log_number(key.rpartition("/")[2]) is not None]
    other = crew.place.objects()[records[-2]]
    refused(crew, records[-1], {**ANYWHERE, "other-record": lambda _: other})


@of_kinds(lambda kind: kind.on == "lake" and bool(kind.tail))
def test_15_a_floor_and_a_snapshot_that_cannot_be_read_are_named_and_left(crew: Crew) -> None:
    crew.publish("ada")
    crew.trim()
    crew.check()
    refused(crew, f"{layout.log_prefix('t', 's')}{layout.LOG_FLOOR}", ANYWHERE)
    snapshot = max(crew.place.keys_with(".snapshot.json"))
    (crew.place.path / layout.manifest_key("t", "s")).unlink()
    refused(crew, snapshot, DAMAGES)


def end_members(body: bytes) -> bytes:
    """The file without its last gzip member: whole, for every program that reads gzip."""
    return body[: body.rindex(b"\x1f\x8b\x08")]


@pytest.mark.crossed("kind", "damage")
@pytest.mark.parametrize(
    "damage",
    [end_members, lambda body: body[:-5], lambda body: body[:-8] + b"\0\0\0\0" + body[-4:]],
    ids=["cut-between-members", "cut-in-a-member", "wrong-checksum"],
)
def test_16_a_damaged_data_file_is_found_by_verify(crew: Crew, tmp_path: Path, damage: Damage) -> None:
    crew.publish("ada", files=3)
    state = crew.check()
    key = f"raw/t/s/{state.files[1].path}"
    path = tmp_path / "lake" / key
    path.write_bytes(damage(path.read_bytes()))
    result = CliRunner().invoke(main, ["verify", crew.place.root])
    assert result.exit_code == 1
    assert key in result.stdout
    assert [line for line in result.stdout.splitlines() if line.startswith(("broken: ", "differs: "))]


@of_kinds(lambda kind: kind.on == "lake")
def test_24_a_lake_that_was_restored_with_new_times_is_whole_and_loses_nothing(crew: Crew, kind: Kind) -> None:
    crew.publish("ada", files=3)
    crew.start("bea", Point(r"^store\.commit", "kill", after=True), files=1).killed()
    waiting = set(crew.place.keys_with("manifest.json@"))
    for path in crew.place.path.rglob("*"):
        if path.is_file():
            later = path.stat().st_mtime + 5
            os.utime(path, (later, later))
    crew.trim()
    assert crew.count(orphans=None) == (3 if kind.settles else 4)
    left = set(crew.place.keys_with("manifest.json@"))
    assert len(waiting & left) == (1 if kind.settles else 0)
    crew.rerun("bea").wait()
    crew.publish("cleo", files=2)
    assert crew.count() == 6
