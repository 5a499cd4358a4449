"""Cases of the suite about what is legal and seldom written: spellings of JSON, headers, logs at their ends."""

from __future__ import annotations

import json
from typing import Any

from singerlake.format import layout
from singerlake.interpreter.process import READING, make_room
from tools.golden_suite.cases import case, plain
from tools.golden_suite.maker import V1, V2, Maker, empty_part, file_bytes, record


@case
def merge_closed_for_lockfile_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.migrate("lockfile", from_kind="merge")
    maker.add(V2, [record(8)])
    maker.delete(maker.manifest_key)
    return maker.expected(
        "Moved from merge to lockfile; manifest.json is gone, and the newest settle record holds the close.",
        rebuilt=True,
    )


@case
def log_trimmed_to_its_close_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.finish()
    closed = {**json.loads(maker.manifest_body()), "closed": "lockfile"}
    maker.migrate("lockfile", from_kind="log")
    maker.add(V2, [record(8)])
    number = closed["transaction"]["number"] = closed["transaction"]["number"] + 1
    close = json.loads(maker.get(maker.log_key(layout.log_name(number))))
    closed["transaction"]["id"] = close["transaction"]["id"]
    snapshot = f"_log/{number:020}.snapshot.json"
    maker.put(maker.prefix + snapshot, json.dumps(closed).encode())
    floor = {"floor": number, "snapshot": snapshot, "nonce": maker.ids()}
    maker.put(maker.log_key(layout.LOG_FLOOR), json.dumps(floor).encode())
    for each in range(number + 1):
        maker.delete(maker.log_key(layout.log_name(each)))
    maker.delete(maker.manifest_key)
    return maker.expected(
        "Moved from log to lockfile, and all records are trimmed; manifest.json is gone, and the snapshot is closed.",
        rebuilt=True,
    )


@case
def merge_with_a_rebase_that_came_too_late(maker: Maker) -> dict[str, Any]:
    plain(maker)
    before = maker.state()
    older = {**json.loads(maker.born), "lineage": maker.ids()}
    number, last = before.transaction.number, before.transaction.id
    late = {"id": maker.ids(), "at": maker.now(), "change": {"kind": "rebase", "manifest": older}}
    entry = {"key": "manifest.json@000000000_0000000000000000_00", "transaction": late, "after": maker.ids()}
    record_ = {"number": number + 1, "after": last, "id": maker.ids(), "at": maker.now(), "since": 0, "until": 0}
    maker.put(maker.log_key(layout.log_name(number + 1)), json.dumps({**record_, "entries": [entry]}).encode())
    return maker.expected(
        "A settle record has a whole state that was to take the place of another one than it came upon: it is void."
    )


@case
def manifest_that_leaves_an_offset_out(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1)])
    maker.add(V1, [record(2)])
    maker.add(V1, [record(3)])
    maker.edit(lambda manifest: manifest["files"].pop(1))
    return maker.refused("The second file is not in the list, and the offsets of the others are as they were.", after=1)


@case
def manifest_spelled_otherwise(maker: Maker) -> dict[str, Any]:
    plain(maker)
    text = json.dumps(json.loads(maker.manifest_body()), indent="\t").replace("\n", "\r\n")
    text = text.replace('"files": [', '"files": [{"later": true}],\r\n"f\\u0069les": [', 1)
    text = text.replace("/s-", "\\/s\\u002d").replace('"runs"', '"later": [1e400, -0, "\\ud800"], "runs"', 1)
    maker.put(maker.manifest_key, (text + "\r\n").encode())
    return maker.expected(
        "White space, escapes, numbers beyond a double, and a key twice, the last one of which counts."
    )


@case
def lines_of_every_kind(maker: Maker) -> dict[str, Any]:
    make_room(READING)
    lines = [
        b'\t{ "record" : {"n":1} , "stream" : "s" , "type" : "RECORD" } \r',
        b'{"\\u0074ype":"\\u0052ECORD","str\\u0065am":"\\u0073","recor\\u0064":{"n":2}}',
        b'{"type":"SCHEMA","stream":"x","type":"RECORD","stream":"s","record":{"n":0},"record":{"n":3}}',
        b'{"type":"RECORD","stream":"s","record":{"n":4,"note":"\\"SCHEMA\\"","SCHEMA":{"type":"SCHEMA","stream":"s"}}}',
        b'{"type":"RECORD","stream":"s","record":{"n":[NaN,Infinity,-Infinity,1e400,-0,-0.0,1E5,%s]}}' % (b"9" * 400),
        '{"type":"RECORD","stream":"s","record":{"note":"a\u2028b\x85c\x7f\\u0000\\ud800\\udc00\\ud83d"}}'.encode(),
        b'{"type":"RECORD","stream":"s","record":{"n":{"":1,"":2,"__proto__":3}},"time_extracted":"soon","x":null}',
        b'{"type":"ACTIVATE_VERSION","stream":"s","version":123456789012345678901234567890}',
        b'{"type":"ACTIVATE_VERSION","stream":"s"}',
        b'{"type":"RECORD","stream":"s","record":{"n":%s1%s}}' % (b"[" * 3_000, b"]" * 3_000),
    ]
    maker.add(V2, lines[:4], lines[4:])
    return maker.expected("Lines that are spelled as few taps do, and one that is nested 3,000 levels.")


@case
def headers_of_every_kind_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(2)])

    def put(n: int, front: bytes, **words: Any) -> None:
        maker.clock.sleep(1)
        said = {"id": maker.ids(), "created": maker.now(), "run": "r", "seq": n, **words}
        maker.put_file(V1, front + file_bytes(V1, [[record(n)]], json.dumps(said).encode()), id=f"header000000000{n}")

    put(1, b"", created="2026-01-01T01:00:00.5+01:00", later=[1])
    put(3, empty_part(b'{"id":"partly0000000000","created":"2020-01-01T00:00:00Z"}'))
    put(4, b"", created="2020-01-01T00:00:00Z", seq="4")
    maker.delete(maker.manifest_key)
    maker.messages = [record(n) for n in (1, 2, 3, 4)]
    return maker.expected(
        "A moment that is not in UTC, a field that no reader knows, a member that says a part of a header before the "
        "one that says all, and a number that is a text: that file has no header, and comes last.",
        rebuilt=True,
    )


@case
def join_that_has_more_than_a_cut_original_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    first = maker.add(V1, [record(1)], [record(2)])
    second = maker.add(V1, [record(3)])
    whole = maker.body(first)
    maker.joined([first, second])
    maker.put(maker.prefix + first.path, whole[: first.members[1][0]])
    maker.delete(maker.manifest_key)
    maker.messages = [record(1), record(2), record(3)]
    return maker.expected(
        "An original is there only as a copy that was cut between two members: the joined file has all of it.",
        rebuilt=True,
    )
