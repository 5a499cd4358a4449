"""The cases of the suite, each a function that makes a stream and says what a reader must give of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from singerlake.format import layout
from singerlake.format.state.manifest import to_json
from singerlake.format.state.transactions import ReplaceFiles, Transaction
from singerlake.stores.commit import submit_transaction
from singerlake.stores.port import Loaded
from tools.golden_suite.maker import V1, V2, Maker, activate, empty_part, file_bytes, provenance, record

Case = Callable[[Maker], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(made: Case) -> Case:
    """One case, which is called what the function is."""
    CASES[made.__name__.replace("_", "-")] = made
    return made


def plain(maker: Maker) -> None:
    """Offsets 0 to 2 of v1 in two files, 3 to 5 of v2 with lines that are no strict JSON, and 6 of v1 again."""
    maker.add(V1, [record(1), record(2)])
    maker.add(V1, [record(3)])
    odd = b'{"type":"RECORD","stream":"s","record":{"n":5,"x":NaN},"n":1}\r'
    maker.add(V2, [record(4, note="é"), activate(7)], [odd])
    maker.add(V1, [b'{"type": "RECORD", "stream": "s", "record": {"n": 6, "n": 7, "note": "\\ud800 \\"SCHEMA\\""}}'])


@case
def lockfile(maker: Maker) -> dict[str, Any]:
    plain(maker)
    return maker.expected("A stream of two versions, the first of which comes back.")


@case
def log(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.finish()
    return maker.expected("The same in the store log, with manifest.json up to date.")


@case
def log_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1), record(2)])
    before = maker.manifest_body()
    maker.add(V2, [record(3)])
    maker.add(V1, [record(4)])
    maker.vacuum()
    maker.put(maker.manifest_key, before)
    return maker.expected("manifest.json is behind: the rest is in _log.")


@case
def log_without_its_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.delete(maker.manifest_key)
    return maker.expected("manifest.json is gone: all of it is in _log, from the birth on.")


@case
def log_trimmed(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.store().trim(keep=1, dry_run=False)
    maker.add(V1, [record(8)])
    maker.delete(maker.manifest_key)
    return maker.expected("manifest.json is gone, and so are old records: floor.json names a snapshot.")


@case
def log_trimmed_below_an_older_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.store().trim(keep=1, dry_run=False)
    maker.add(V1, [record(8)])
    maker.put(maker.manifest_key, maker.born)
    return maker.expected("manifest.json was put back from a backup that is older than the oldest record.")


@case
def log_with_a_gap(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.put(maker.manifest_key, maker.born)
    maker.delete(maker.log_key(layout.log_name(2)))
    return maker.refused("Transaction 2 is missing in _log, which is an error for whoever follows the log.")


@case
def merge(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.finish()
    return maker.expected("The same in the store merge.")


@case
def merge_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1), record(2)])
    maker.add(V1, [record(3)])
    maker.add(V2, [record(4)])
    first, second, _ = maker.state().files
    # Two writers join the same files at once: what is settled first takes effect, the other is void.
    base = maker.store().load()
    assert base is not None
    commits = []
    for _ in range(2):
        store = maker.store()
        change = ReplaceFiles(old=(first.id, second.id), new=(maker.joined([first, second]),))
        transaction = Transaction(id=maker.ids(), at=maker.now(), change=change)
        commits.append(submit_transaction(store, base, transaction, clock=maker.clock))
    assert all(commit.outcome is None for commit in commits)
    outcomes = [maker.settled(commit, base) for commit in commits]
    assert sorted(isinstance(each, Loaded) for each in outcomes) == [False, True]
    maker.add(V1, [record(5)])
    maker.put(maker.manifest_key, maker.born)
    return maker.expected("manifest.json is that of the birth: the rest is in settle records, and one change is void.")


@case
def dynamodb(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.store().trim(keep=1, dry_run=False)
    maker.finish()
    return maker.expected("The log is in DynamoDB: manifest.json is all that a reader sees of it.")


@case
def postgres(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.finish()
    return maker.expected("The log is in PostgreSQL: manifest.json is all that a reader sees of it.")


@case
def migrated(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.migrate("log")
    maker.add(V2, [record(8)])
    return maker.expected("Moved from lockfile to log: the log begins with a whole state.")


@case
def migrated_to_merge_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.migrate("merge", from_kind="log")
    maker.add(V2, [record(8)])
    maker.delete(maker.manifest_key)
    return maker.expected("Moved from log to merge, in the same folder; manifest.json is gone.")


@case
def migrated_to_a_database_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.migrate("postgres", from_kind="log")
    maker.add(V2, [record(8)])
    maker.delete(maker.manifest_key)
    return maker.expected("Moved from log to postgres; manifest.json is gone, _log ends where it moved.", rebuilt=True)


@case
def log_without_any_metadata(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.delete(maker.manifest_key)
    maker.delete(layout.root_metadata_key())
    return maker.expected("manifest.json and singerlake.json are gone: the log says itself whose it is.")


@case
def log_closed_for_lockfile_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    plain(maker)
    root = maker.get(layout.root_metadata_key())
    maker.migrate("lockfile", from_kind="log")
    maker.add(V2, [record(8)])
    maker.delete(maker.manifest_key)
    maker.put(layout.root_metadata_key(), root)
    return maker.expected(
        "Moved from log to lockfile, alone of its lake; manifest.json, which held the state since then, is gone.",
        rebuilt=True,
    )


@case
def vacuumed(maker: Maker) -> dict[str, Any]:
    for n in range(6):
        maker.add(V1, [record(10 * n), record(10 * n + 1)])
    files = maker.state().files
    between = maker.replace(files[0:2])
    maker.replace(files[2:4])
    made = maker.replace(maker.state().files[0:2])
    lineage = maker.state().lineage
    return maker.expected(
        "Joined, and joined again. The files that were replaced are still there.",
        bookmarks=[
            maker.resumes(8, lineage=lineage, offset=8),
            maker.resumes(3, lineage="another", offset=77, file=files[1].id, line=1),
            maker.resumes(7, lineage="another", offset=0, file=files[3].id, line=1),
            maker.resumes(2, lineage="another", offset=0, file=between.id, line=2),
            maker.resumes(5, lineage=None, offset=0, file=made.id, line=5),
            maker.resumes(9, lineage=lineage, offset=9, file="gone000000000000", line=1),
            maker.resumes(None, lineage="another", offset=9, file="gone000000000000", line=1),
        ],
    )


@case
def vacuumed_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    for n in range(6):
        maker.add(V1, [record(10 * n), record(10 * n + 1)])
    files = maker.state().files
    maker.replace(files[0:2])
    maker.replace(files[2:4])
    maker.replace(maker.state().files[0:2])
    maker.add(V2, [record(70)])
    maker.delete(maker.manifest_key)
    return maker.expected(
        "All files are there, the joined ones and what they were made of: each message counts once.",
        rebuilt=True,
        bookmarks=[maker.resumes(3, lineage="another", offset=77, file=files[1].id, line=1)],
    )


@case
def joined_from_another_number_of_messages(maker: Maker) -> dict[str, Any]:
    first = maker.add(V1, [record(1), record(2)])
    second = maker.add(V1, [record(3), record(4)])
    front = empty_part(provenance(maker.ids(), [(first.id, 2), (second.id, 2)]))
    maker.put_file(V1, front + maker.body(first), id="00000000000000j1")
    maker.delete(maker.manifest_key)
    return maker.expected(
        "A joined file says 4 messages and holds 2: it is damaged, and its originals count.", rebuilt=True
    )


@case
def listed_join_from_another_number_of_messages(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(2 * n), record(2 * n + 1)]) for n in range(2)]
    made = maker.replace(files)
    front = empty_part(provenance(made.id, [(files[0].id, 1), (files[1].id, 2)]))
    body = front + maker.body(files[0]) + maker.body(files[1])
    maker.put(maker.prefix + made.path, body)
    maker.relist(made, body)
    return maker.expected(
        "A listed joined file says 3 messages and holds 4: its messages are read by the manifest, and no bookmark is "
        "found by what it says.",
        bookmarks=[
            maker.resumes(None, lineage="another", offset=9, file=files[1].id, line=1),
            maker.resumes(3, lineage="another", offset=9, file=made.id, line=3),
        ],
    )


@case
def only_an_exact_cover_has_each_message_once(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(n)]) for n in range(6)]
    for begin, end in ((0, 3), (3, 6), (1, 5)):
        maker.joined(files[begin:end])
    for file in files:
        maker.delete(maker.prefix + file.path)
    maker.delete(maker.manifest_key)
    return maker.expected("Files of 3, 3 and 4 originals: the largest first gives some messages twice.", rebuilt=True)


@case
def messages_that_must_come_twice(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(n)]) for n in range(3)]
    maker.joined(files[0:2])
    maker.joined(files[1:3])
    for file in files:
        maker.delete(maker.prefix + file.path)
    maker.delete(maker.manifest_key)
    maker.messages = [record(0), record(1), record(1), record(2)]
    return maker.expected("No choice of files has the second message once: twice is better than never.", rebuilt=True)


@case
def copies_and_clashes(maker: Maker) -> dict[str, Any]:
    first = maker.add(V1, [record(1), record(2)], [record(3)])
    second = maker.add(V1, [record(4)])
    body = maker.body(first)
    maker.put(maker.prefix + first.path.replace(first.id, "copy000000000000"), body)
    cut = first.members[1][0]
    maker.put(maker.prefix + first.path.replace(first.id, "cut0000000000000"), body[:cut])
    # Another content under the id of the second file.
    maker.clock.sleep(1)
    maker.put_file(V1, file_bytes(V1, [[record(5), record(6)]], maker.header(second.id)), id="clash00000000000")
    maker.put_file(V1, b"\x1f\x8b\x08 damaged", id="damaged000000000")
    maker.put_file(V1, file_bytes(V1, [[record(7)]], None), id="silent0000000000")
    maker.delete(maker.manifest_key)
    maker.messages = [record(n) for n in (1, 2, 3, 4, 5, 6, 7)]
    return maker.expected(
        "A copy, a copy cut between two members, two contents under one id, a damaged file, and one that says "
        "nothing of itself, which comes last.",
        rebuilt=True,
    )


@case
def unlisted_files(maker: Maker) -> dict[str, Any]:
    first = maker.add(V1, [record(1)])
    second = maker.add(V1, [record(2)])
    maker.joined([first, second])
    maker.put_file(V1, file_bytes(V1, [[record(3)]], maker.header(maker.ids())), id="orphan0000000000")
    return maker.expected("Files that nothing lists: only those of manifest.json count.")


@case
def times_that_are_unknown(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1, time_extracted="2026-01-01T00:00:05Z"), record(2)])
    maker.add(V1, [record(3), record(4, time_extracted="2026-02-01T00:00:00.5+01:00")])
    maker.add(V1, [record(5)])
    files = maker.state().files
    wrong = [
        msgspec.structs.replace(files[1], first="2026-03-01T00:00:00.000000Z", last="2026-01-31T23:00:00.500000Z"),
        msgspec.structs.replace(files[2], first="soon", last="soon"),
    ]
    state = msgspec.structs.replace(maker.state(), files=(files[0], *wrong))
    maker.put(maker.manifest_key, to_json(state))
    return maker.expected(
        "The second file's first is later than its last, the third's are none: nothing may be left out by them.",
        between=[
            {"from": "2026-01-31T00:00:00Z", "to": "2026-02-28T00:00:00Z", "offsets": [3]},
            {"from": "2026-01-01T00:00:05Z", "to": "2026-01-01T00:00:05Z", "offsets": [0]},
        ],
        unknown_times=[file.id for file in wrong],
    )


@case
def shapes(maker: Maker) -> dict[str, Any]:
    maker.foreign([[record(1), record(2)]], own_member=False)
    # A name, a comment and a checksum in the header.
    maker.foreign([[record(3)], [record(4)]], flags=2 | 8 | 16)
    maker.foreign([[record(5)]], twice=True)
    maker.foreign([[record(6)], [], [record(7)]], front=2)
    maker.foreign([[record(8)]], own=False)
    return maker.expected("Files of every shape that the format allows.")


@case
def names(maker: Maker) -> dict[str, Any]:
    maker.tap, maker.stream = "../tap é", "a b/ü.catalogue.json?%"
    maker.add(V1, [record(1, stream=maker.stream)])
    maker.put("raw/not%20a%2ename/x", b"no part of the lake")
    return maker.expected("Names that have to be written otherwise, and a folder that is no name's.")


@case
def newer_format(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.edit(lambda manifest: manifest.update(format=99))
    return maker.refused("The manifest's format is newer than any reader.")


@case
def older_format(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.edit(lambda manifest: manifest.update(format=2))
    return maker.refused("The manifest's format is one that was never released.")


@case
def unknown_feature(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.edit(lambda manifest: manifest.update(features=["unheard"]))
    return maker.refused("The manifest needs a feature that no reader knows.")


@case
def manifest_of_another_stream(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.edit(lambda manifest: manifest.update(stream="S"))
    return maker.refused("The manifest says that it is of another stream, as on a disk that is blind to case.")


@case
def fields_that_are_not_known(maker: Maker) -> dict[str, Any]:
    plain(maker)
    maker.edit(lambda manifest: (manifest.update(later={"x": 1}), manifest["files"][0].update(later=[1])))
    return maker.expected("The manifest has fields that no reader knows.")


@case
def file_cut_between_two_members(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1)])
    cut = maker.add(V1, [record(2)], [record(3)])
    maker.add(V1, [record(4)])
    maker.put(maker.prefix + cut.path, maker.body(cut)[: cut.members[1][0]])
    return maker.refused("The second file lacks its last member: it is sound gzip with too few messages.", after=2)


@case
def file_with_a_flipped_bit(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1)])
    bad = maker.add(V1, [record(2)])
    body = bytearray(maker.body(bad))
    body[-6] ^= 1
    maker.put(maker.prefix + bad.path, bytes(body))
    return maker.refused("The second file's checksum is wrong.", after=1)


@case
def file_that_is_gone(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(1)])
    gone = maker.add(V1, [record(2)])
    maker.delete(maker.prefix + gone.path)
    return maker.refused("The second file is listed, and not there.", after=1)
