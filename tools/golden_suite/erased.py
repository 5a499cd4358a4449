"""Cases of the suite about erased records."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.clock import timestamp
from singerlake.format.extra_fields import Provenance
from singerlake.format.state.transactions import EraseFiles, ReplaceFiles, Transaction
from singerlake.stores.commit import submit_transaction
from singerlake.stores.port import Loaded
from tools.golden_suite.cases import case
from tools.golden_suite.maker import V1, V2, Maker, activate, empty_part, file_bytes, record

HOLE = b'{"type":"ERASED"}'
BESIDE = b'{"type": "RECORD", "stream": "s", "record": {"n": 4, "note": "{\\"type\\":\\"ERASED\\"}"}}'
"""A record that is none, though it says so."""


@case
def erased(maker: Maker) -> dict[str, Any]:
    first = maker.add(V1, [record(1), record(2), activate(7)], [record(3), BESIDE])
    maker.add(V2, [record(5)])
    lineage = maker.state().lineage
    maker.erase(2)
    made = maker.state().files[0]
    return maker.expected(
        "A record of a file is erased. The file that held it is still there, and no part of the stream.",
        bookmarks=[
            maker.resumes(1, lineage=lineage, offset=1, file=first.id, line=1),
            maker.resumes(2, lineage=lineage, offset=2, file=first.id, line=2),
            maker.resumes(2, lineage="another", offset=77, file=first.id, line=2),
            maker.resumes(3, lineage="another", offset=0, file=made.id, line=3),
            maker.resumes(None, lineage="another", offset=2, file="gone000000000000", line=1),
        ],
    )


def joined_and_erased(maker: Maker) -> dict[str, Any]:
    """Three files of two records joined, a record of the first and of the second one erased, and another file."""
    files = [maker.add(V1, [record(10 * n)], [record(10 * n + 1)]) for n in range(3)]
    between = maker.replace(files)
    maker.erase(1, 10)
    made = maker.state().files[0]
    maker.add(V2, [record(30)])
    return {"files": files, "between": between, "made": made}


@case
def erased_in_a_joined_file(maker: Maker) -> dict[str, Any]:
    had = joined_and_erased(maker)
    return maker.expected(
        "Files are joined, and then records of two of them erased: the new file replaces the originals.",
        bookmarks=[
            maker.resumes(1, lineage="another", offset=9, file=had["files"][0].id, line=1),
            maker.resumes(3, lineage="another", offset=9, file=had["files"][1].id, line=1),
            maker.resumes(4, lineage="another", offset=9, file=had["between"].id, line=4),
            maker.resumes(5, lineage="another", offset=9, file=had["made"].id, line=5),
        ],
    )


@case
def erased_twice_and_joined(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(10 * n), record(10 * n + 1)]) for n in range(3)]
    maker.erase(0, 20)
    maker.erase(21)
    once = maker.state().files[2]
    maker.replace(maker.state().files)
    maker.erase(11)
    return maker.expected(
        "Records of one file are erased twice, the files joined, and one more record erased.",
        bookmarks=[
            maker.resumes(3, lineage="another", offset=9, file=files[1].id, line=1),
            maker.resumes(5, lineage="another", offset=9, file=once.id, line=1),
        ],
    )


@case
def erased_entirely(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    gone = maker.add(V1, [record(1), record(2)], [record(3)])
    maker.add(V1, [record(4)])
    last = maker.add(V1, [record(5)])
    maker.erase(1, 2, 3, 5)
    return maker.expected(
        "All messages of two files are erased, the newest file among them: the offsets stay.",
        bookmarks=[
            maker.resumes(2, lineage="another", offset=9, file=gone.id, line=1),
            maker.resumes(6, lineage="another", offset=9, file=last.id, line=1),
        ],
    )


@case
def erased_at_the_borders_of_members(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0), record(1)], [record(2), record(3)], [record(4)], [record(5), record(6)])
    maker.foreign([[record(7), record(8)], [], [record(9), record(10)]], own_member=False, front=1)
    maker.erase(0, 3, 4, 6, 7, 8, 10)
    return maker.expected(
        "Holes are the first and the last messages of members and of files, and all of a member; one member begins "
        "with a SCHEMA message.",
    )


@case
def erased_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    had = joined_and_erased(maker)
    single = maker.add(V1, [record(40), record(41)])
    maker.erase(40)
    maker.erase(41)
    maker.delete(maker.manifest_key)
    return maker.expected(
        "All files are there, with and without the erased records: of each original the one counts from which most "
        "was erased.",
        rebuilt=True,
        bookmarks=[
            maker.resumes(3, lineage="another", offset=9, file=had["files"][1].id, line=1),
            maker.resumes(8, lineage="another", offset=9, file=single.id, line=1),
        ],
    )


@case
def other_holes_than_a_file_says_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    one = maker.add(V1, [record(1), record(2)])
    two = maker.add(V1, [record(3), record(4)])
    for id, source, count in (("00000000000000e1", one, 2), ("00000000000000e2", two, 0)):
        rows = ((source.id, count, timestamp(maker.clock.now()), "suite"),) if count else ()
        said = Provenance(id=id, lineage="x", offset=0, replaces=((source.id, 2),), erased=rows)
        body = empty_part(msgspec.json.encode(said)) + file_bytes(V1, [[record(9), HOLE]], maker.header(source.id))
        maker.put_file(V1, body, id=id)
    maker.delete(maker.manifest_key)
    return maker.expected(
        "One file has fewer holes than it says, another one says nothing of its own: both are damaged, and the "
        "originals count.",
        rebuilt=True,
    )


def erased_behind_the_manifest(maker: Maker) -> None:
    """``manifest.json`` as it was before records were erased, and the erasure in the log."""
    maker.add(V1, [record(1), record(2)])
    maker.add(V1, [record(3)])
    maker.finish()
    before = maker.manifest_body()
    maker.erase(2, 3)
    maker.add(V2, [record(4)])
    maker.put(maker.manifest_key, before)


@case
def log_with_an_erasure_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    erased_behind_the_manifest(maker)
    return maker.expected("manifest.json is behind: records were erased since, in _log.")


@case
def log_with_an_erasure_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    erased_behind_the_manifest(maker)
    maker.delete(maker.manifest_key)
    return maker.expected("manifest.json is gone: the erasure is in _log.")


@case
def merge_with_an_erasure_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    erased_behind_the_manifest(maker)
    return maker.expected(
        "manifest.json is behind: records were erased since, in settle records.",
    )


@case
def merge_with_an_erasure_that_came_too_late(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(2 * n), record(2 * n + 1)]) for n in range(2)]
    maker.erase(1)
    first, second = maker.state().files
    base = maker.store().load()
    assert base is not None
    joined = maker.joined([first, second])
    # A join and an erasure of the same file at once: what is settled first takes effect, the other is void.
    hidden = msgspec.structs.replace(first, id=maker.ids(), path=files[0].path, records=0, erased=2)
    changes = (ReplaceFiles(old=(first.id, second.id), new=(joined,)), EraseFiles(old=(first.id,), new=(hidden,)))
    commits = []
    for change in changes:
        store = maker.store()
        transaction = Transaction(id=maker.ids(), at=maker.now(), change=change)
        commits.append(submit_transaction(store, base, transaction, clock=maker.clock))
        maker.clock.sleep(0.01)
    assert all(commit.outcome is None for commit in commits)
    outcomes = [maker.settled(commit, base) for commit in commits]
    assert [isinstance(each, Loaded) for each in outcomes] == [True, False]
    maker.put(maker.manifest_key, maker.born)
    return maker.expected("Files are joined, and a record of one erased at once: the erasure is void.")
