"""Cases of the suite about what stands beside the data: kept schemas, the lake's id, logs that were closed."""

from __future__ import annotations

import json
from typing import Any

from singerlake.format import layout
from tools.golden_suite.cases import case, plain
from tools.golden_suite.maker import V1, V2, Maker, record

ROOT = layout.root_metadata_key()


def versions(*hashes: str) -> dict[str, Any]:
    """Versions that begin at offset 0, in the order of their labels."""
    return {f"v{at}": {"hash": version, "first_offset": 0} for at, version in enumerate(hashes, 1)}


@case
def schema_alone(maker: Maker) -> dict[str, Any]:
    maker.keep(V1)
    return maker.expected("A SCHEMA came, and no message: the stream is there and has a version.")


@case
def log_with_a_schema_alone_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    maker.keep(V1)
    maker.delete(maker.manifest_key)
    return maker.expected("A SCHEMA came, and no message; manifest.json is gone: the version is in _log.")


@case
def schema_alone_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    version = maker.keep(V1)
    maker.delete(maker.manifest_key)
    return maker.expected(
        "A SCHEMA came, and no message; manifest.json is gone: schema.json is all that there is.",
        rebuilt=True,
        versions=versions(version),
    )


@case
def schema_alone_before_records_of_another_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    first = maker.keep(V1)
    second = maker.add(V2, [record(1)]).version
    maker.delete(maker.manifest_key)
    return maker.expected(
        "A SCHEMA came without messages, then another with some; manifest.json is gone: both are versions, in the "
        "order of their times.",
        rebuilt=True,
        versions=versions(first, second),
    )


@case
def lake_id(maker: Maker) -> dict[str, Any]:
    plain(maker)
    return maker.expected("singerlake.json, manifest.json and the files name the lake.", lake_id=maker.lake.lake_id())


@case
def lake_id_without_root_metadata(maker: Maker) -> dict[str, Any]:
    plain(maker)
    own = maker.lake.lake_id()
    maker.delete(ROOT)
    return maker.expected("singerlake.json is gone: manifest.json names the lake.", lake_id=own)


@case
def lake_id_in_a_data_file_alone(maker: Maker) -> dict[str, Any]:
    plain(maker)
    own = maker.lake.lake_id()
    maker.edit(lambda manifest: manifest.pop("lake_id"))
    maker.delete(ROOT)
    return maker.expected(
        "singerlake.json is gone, and manifest.json is an early writer's: the newest file names the lake.", lake_id=own
    )


@case
def lake_id_in_a_kept_schema_alone(maker: Maker) -> dict[str, Any]:
    version = maker.keep(V1)
    own = maker.lake.lake_id()
    maker.delete(maker.manifest_key)
    maker.delete(ROOT)
    return maker.expected(
        "schema.json is all that there is: it names the lake.",
        rebuilt=True,
        lake_id=own,
        versions=versions(version),
    )


def with_a_copied_stream(maker: Maker) -> dict[str, Any]:
    """A second stream, which another lake's folder was copied in for; gives what there is."""
    plain(maker)
    copied = layout.stream_prefix(maker.tap, "copied")
    manifest = {**json.loads(maker.manifest_body()), "stream": "copied", "lake_id": "another000000000"}
    manifest |= {"files": [], "schemas": {}, "versions": {}, "next_offset": 0, "runs": []}
    maker.put(copied + "manifest.json", json.dumps(manifest).encode())
    return {"taps": {maker.tap: ["copied", maker.stream]}}


@case
def lake_id_beside_a_stream_of_another_lake(maker: Maker) -> dict[str, Any]:
    more = with_a_copied_stream(maker)
    return maker.expected(
        "A stream's folder was copied in from another lake: singerlake.json rules.",
        lake_id=maker.lake.lake_id(),
        **more,
    )


@case
def lake_ids_that_disagree(maker: Maker) -> dict[str, Any]:
    more = with_a_copied_stream(maker)
    maker.delete(ROOT)
    return maker.expected(
        "A stream's folder was copied in from another lake, and singerlake.json is gone: the streams name two ids.",
        lake_id=None,
        **more,
    )


@case
def log_with_a_record_behind_its_close(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.finish()
    before = maker.manifest_body()
    last = json.loads(before)["transaction"]["number"]
    maker.migrate("lockfile", from_kind="log")
    close = json.loads(maker.get(maker.log_key(layout.log_name(last + 1))))
    stray = json.loads(maker.get(maker.log_key(layout.log_name(last))))
    stray |= {"number": last + 2, "after": close["transaction"]["id"]}
    stray["transaction"] |= {"id": maker.ids(), "change": stray["transaction"]["change"] | {"files": []}}
    maker.put(maker.log_key(layout.log_name(last + 2)), json.dumps(stray).encode())
    maker.put(maker.manifest_key, before)
    return maker.expected(
        "manifest.json was put back from before the stream moved from log to lockfile: a reader goes as far as the "
        "close, and no further."
    )


@case
def log_moved_to_merge_and_an_older_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.finish()
    before = maker.manifest_body()
    maker.migrate("merge", from_kind="log")
    maker.add(V2, [record(8)])
    maker.put(maker.manifest_key, before)
    return maker.expected(
        "manifest.json was put back from before the stream moved from log to merge: it is older than the floor, whose "
        "snapshot is merge's."
    )
