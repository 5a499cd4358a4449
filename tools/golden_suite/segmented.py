"""Cases of states that name segments: of two or three files each, so that the lakes stay small."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec

from singerlake.format import layout
from singerlake.format.file_id import timed_id
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.stores.commit import submit_transaction
from singerlake.stores.port import Loaded
from singerlake.stores.segments import objects, stored
from tools.golden_suite.cases import case
from tools.golden_suite.maker import V1, V2, Maker, activate, file_bytes, record

SIZES = Sizes(whole=2, segment=3, tail=1)
SEGMENTED: dict[str, Any] = {"segments": True}


@contextmanager
def in_segments(maker: Maker) -> Iterator[None]:
    """In this block, states of three files and more name segments."""
    with (
        mock.patch.object(stored, "SIZES", SIZES),
        mock.patch.multiple(objects, random_id=maker.ids, _AT_ONCE=1, _KEPT=0),
        mock.patch.object(stored, "random_id", maker.ids),
    ):
        yield


def timed(maker: Maker, schema: Any, *members: list[bytes]) -> None:
    """Commit a file whose id says when it was made."""
    maker.clock.sleep(1)
    id = timed_id(maker.clock.now(), maker.ids())
    maker.commit(schema, file_bytes(schema, members, maker.header(id)), id, members)


def several(maker: Maker) -> None:
    """Eight files of two versions, some of an hour later and some with ids that say no time, two of them joined."""
    timed(maker, V1, [record(0), record(1)])
    timed(maker, V1, [record(2, time_extracted="2026-01-01T00:00:05Z")])
    maker.add(V1, [record(3)])
    timed(maker, V2, [record(4, note="é"), activate(7)], [record(5)])
    maker.clock.sleep(3600)
    timed(maker, V1, [record(6)])
    timed(maker, V1, [record(7), record(8)])
    maker.vacuum()
    timed(maker, V2, [record(9)])
    timed(maker, V1, [record(10)])


def head_of(maker: Maker) -> dict[str, Any]:
    """What ``manifest.json`` says; it has segments."""
    head: dict[str, Any] = json.loads(maker.manifest_body())
    assert "segments" in head["features"]
    assert len(head["segments"]) > 1
    return head


def key_of(maker: Maker, place: int) -> str:
    """The object of a segment that ``manifest.json`` names."""
    return layout.segment_key(maker.tap, maker.stream, head_of(maker)["segments"][place]["name"])


def damaged(maker: Maker, damage: Callable[[], object], about: str) -> dict[str, Any]:
    """A stream whose second segment is not what it should be; a reader may have given what the first has."""
    with in_segments(maker):
        several(maker)
        given = head_of(maker)["segments"][1]["offset"]
        damage()
    return maker.refused(about, after=given)


@case
def segments(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        head_of(maker)
        bookmarks = [
            maker.resumes(5, lineage=maker.state().lineage, offset=5),
            maker.resumes(None, lineage="another", offset=5),
        ]
        return maker.expected(
            "manifest.json names segments, and lists the newest files itself.",
            bookmarks=bookmarks,
            between=[
                {"from": "2026-01-01T00:00:05Z", "to": "2026-01-01T00:00:05Z", "offsets": [2]},
                {"from": "2026-01-01T01:00:00Z", "to": "2026-01-01T02:00:00Z", "offsets": [7, 8, 9, 10, 11]},
            ],
            **SEGMENTED,
        )


@case
def log_with_segments(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        maker.finish()
        head_of(maker)
        return maker.expected("The same in the store log, with manifest.json up to date.", **SEGMENTED)


@case
def log_with_segments_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        maker.finish()
        before = maker.manifest_body()
        head_of(maker)
        timed(maker, V1, [record(11)])
        maker.vacuum()
        maker.erase(7)
        maker.expire(4)
        maker.put(maker.manifest_key, before)
        return maker.expected(
            "manifest.json is behind: what was joined, erased and expired since is in segments that it names.",
            floor=maker.state().floor,
            **SEGMENTED,
        )


@case
def log_with_segments_and_trimmed(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        maker.store().trim(keep=1, dry_run=False)
        timed(maker, V1, [record(11)])
        head_of(maker)
        maker.delete(maker.manifest_key)
        return maker.expected(
            "manifest.json is gone, and so are old records: the snapshot that floor.json names has segments.",
            **SEGMENTED,
        )


def made_anew(maker: Maker) -> None:
    """Commit a state of another lineage with the same files, as a rebuild does."""
    store = maker.store()
    base = store.load()
    assert base is not None
    state = msgspec.structs.replace(base.manifest, lineage=maker.ids())
    transaction = Transaction(id=maker.ids(), at=maker.now(), change=Rebase(manifest=state))
    outcome = maker.settled(submit_transaction(store, base, transaction, clock=maker.clock), base)
    assert isinstance(outcome, Loaded)


@case
def log_with_a_new_state_in_segments_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        maker.finish()
        before = maker.manifest_body()
        made_anew(maker)
        timed(maker, V1, [record(11)])
        maker.put(maker.manifest_key, before)
        return maker.expected(
            "manifest.json is behind: the log brings a whole new state, of another lineage, with segments of its own.",
            **SEGMENTED,
        )


@case
def log_with_a_new_state_in_segments_and_no_manifest(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        made_anew(maker)
        maker.delete(maker.manifest_key)
        return maker.expected(
            "manifest.json is gone; the state beside the log that the collector reads is no place to begin.",
            **SEGMENTED,
        )


@case
def merge_with_a_new_state_in_segments_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        maker.finish()
        before = maker.manifest_body()
        made_anew(maker)
        maker.put(maker.manifest_key, before)
        return maker.expected("The same in the store merge, whose settle record has the new state.", **SEGMENTED)


@case
def segments_that_expired_in_part(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        maker.expire(4)
        head_of(maker)
        return maker.expected("The first segment begins at the floor.", floor=maker.state().floor, **SEGMENTED)


@case
def segments_and_no_manifest(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        head_of(maker)
        maker.delete(maker.manifest_key)
        return maker.expected("A segment without a state is nothing: this one is rebuilt from files.", rebuilt=True)


@case
def segment_that_is_gone(maker: Maker) -> dict[str, Any]:
    return damaged(maker, lambda: maker.delete(key_of(maker, 1)), "The second segment is named, and not there.")


@case
def segment_that_is_cut(maker: Maker) -> dict[str, Any]:
    def cut() -> None:
        maker.put(key_of(maker, 1), maker.get(key_of(maker, 1))[:-30])

    return damaged(maker, cut, "The second segment is cut short.")


@case
def segment_with_another_checksum(maker: Maker) -> dict[str, Any]:
    def change() -> None:
        files = json.loads(gzip.decompress(maker.get(key_of(maker, 1))))
        files[0]["sha256"] = files[0]["sha256"][::-1]
        maker.put(key_of(maker, 1), gzip.compress(json.dumps(files).encode(), mtime=0))

    return damaged(maker, change, "The second segment is sound, and another one than the state says.")


@case
def segment_in_the_place_of_another(maker: Maker) -> dict[str, Any]:
    return damaged(
        maker, lambda: maker.put(key_of(maker, 1), maker.get(key_of(maker, 0))), "The second segment holds the first."
    )


@case
def segment_with_a_name_that_leads_elsewhere(maker: Maker) -> dict[str, Any]:
    def lead() -> None:
        maker.edit(lambda head: head["segments"][1].update(name=f"../_segments/{head['segments'][1]['name']}"))

    return damaged(maker, lead, "The second segment's name is none: it would lead out of its folder and back.")


@case
def segments_with_a_gap(maker: Maker) -> dict[str, Any]:
    return damaged(
        maker,
        lambda: maker.edit(lambda head: head["segments"].pop(1)),
        "A segment is left out, so that offsets are missing between two others.",
    )


@case
def segments_and_an_unknown_feature(maker: Maker) -> dict[str, Any]:
    with in_segments(maker):
        several(maker)
        head_of(maker)
        maker.edit(lambda head: head["features"].append("unheard"))
        return maker.refused("A state with segments, and with a feature that no reader knows.")
