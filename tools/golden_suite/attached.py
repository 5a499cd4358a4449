"""Cases of the suite about records with attached files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from singerlake.attached.keep import free_copy
from singerlake.attached.members import attached_members
from singerlake.format import layout
from singerlake.format.extra_fields import Provenance
from singerlake.format.state.additions import Conflict
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.transactions import Change, CollectFiles, Transaction, addition
from singerlake.singer_file import compress_member
from singerlake.stores.commit import submit_transaction
from singerlake.stores.port import Loaded
from tools.golden_suite.cases import case
from tools.golden_suite.maker import V1, V2, Maker, activate, empty_part, file_bytes, record, schema_line

Photos = Mapping[int, Sequence[Any]]
"""What is attached to records, by their ``n``: texts, which are the bytes; None where they could not be read."""


class Album:
    """Files with attached files, of one case. ``photos`` are the rows of each record by its ``n``, as a reader must
    give them."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.photos: dict[int, list[list[Any]]] = {}

    def add(self, schema: Any, *members: Sequence[bytes], photos: Photos) -> DataFile:
        """Commit a file of those members, a second after the one before; all rows behind the last one."""
        maker = self.maker
        maker.clock.sleep(1)
        id = maker.ids()
        lines = [line for member in members for line in member]
        rows = self.rows(lines, photos, maker.state() if maker.born else None)
        body = file_bytes(schema, members, maker.header(id), maker.stream) + attached_members(rows)
        return maker.commit(schema, body, id, members, tuple(rows))

    def rows(self, lines: Sequence[bytes], photos: Photos, state: Manifest | None) -> list[Attached]:
        """The rows of a file of these lines; their objects are stored."""
        made: list[Attached] = []
        for message, line in enumerate(lines):
            n = json.loads(line).get("record", {}).get("n")
            for photo in photos.get(n, ()):
                made.append(self.row(message, n, photo, state))
                self.photos.setdefault(n, []).append(told(made[-1]))
        return made

    def row(self, message: int, n: int, photo: str | None, state: Manifest | None) -> Attached:
        """One row, whose object is stored unless it is there."""
        if photo is None:
            return Attached(message, "photo", f"/photos/{n}.jpg", None, None, None, 1)
        body = photo.encode()
        sha256 = hashlib.sha256(body).hexdigest()
        copy = free_copy(state, sha256) if state is not None else 1
        self.maker.put(self.maker.prefix + layout.attached_path(sha256, copy), body)
        # A file whose bytes were in the record has no source.
        source = None if photo.startswith("inline") else f"https://example.com/{n}/ä.jpg"
        return Attached(message, "photo", source, sha256, len(body), "image/jpeg", copy)

    def expected(self, about: str, **more: Any) -> dict[str, Any]:
        """What a reader must give, rows too."""
        rows = []
        for offset, line in enumerate(self.maker.messages):
            n = json.loads(line).get("record", {}).get("n") if line is not None else None
            rows += [[offset, *row] for row in self.photos.get(n, ())] if n is not None else []
        return self.maker.expected(about, **{"attached": rows, **more})


def told(row: Attached) -> list[Any]:
    """A row as ``expected.json`` has it behind the offset."""
    return [row.property, row.source, row.sha256, row.bytes, row.media_type, row.path()]


def three(album: Album) -> list[DataFile]:
    """Three files: of three records, two of them with photos; of one without; of two with a photo of the first one."""
    return [
        album.add(V1, [record(0), record(1)], [record(2)], photos={0: ["a"], 2: ["b", "inline", None]}),
        album.add(V1, [record(3)], photos={}),
        album.add(V1, [record(4), record(5)], photos={4: ["a"], 5: ["c"]}),
    ]


@case
def attached(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    three(album)
    album.add(V2, [activate(7), record(6)], photos={6: ["d"]})
    return album.expected(
        "Records have attached files: several of one record, one that several records have, one whose bytes were in "
        "the record, and one that could not be read."
    )


@case
def attached_and_vacuumed(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    files = three(album)
    maker.replace(files[:2])
    maker.replace(maker.state().files)
    album.add(V1, [record(6)], photos={6: ["b"]})
    return album.expected("Files with attached files are joined, and joined again: rows count from the joined file.")


@case
def attached_and_erased(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    files = three(album)
    lineage = maker.state().lineage
    maker.erase(2, 4)
    return album.expected(
        "Records with attached files are erased. One of these files another record has, too. The objects of the "
        "others are still there, and no reader gives them.",
        bookmarks=[maker.resumes(5, lineage=lineage, offset=5, file=files[2].id, line=1)],
    )


def joined_erased_and_joined(album: Album) -> None:
    """Joined, a record of the first and of the last original erased, one more file, and all joined."""
    maker = album.maker
    maker.replace(three(album))
    maker.erase(0, 5)
    album.add(V1, [record(6)], [record(7)], photos={7: ["e"]})
    maker.replace(maker.state().files)
    maker.erase(6)


@case
def attached_in_joined_files_and_erased(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    joined_erased_and_joined(album)
    return album.expected(
        "Files are joined, records with attached files erased, and files joined and erased from again."
    )


@case
def attached_and_expired(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    three(album)
    maker.expire(4)
    return album.expected(
        "Messages with attached files expired. One of their files a younger record has, too.", floor=4
    )


@case
def attached_again_while_it_is_collected(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    three(album)
    maker.erase(5)
    album.add(V1, [record(6)], photos={6: ["c"]})
    maker.erase(6)
    album.add(V1, [record(7)], photos={7: ["c"]})
    return album.expected(
        "A file is attached again while its object is being collected, and once more while that of the copy is: its "
        "copies are 1, 2 and 3."
    )


@case
def attached_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    joined_erased_and_joined(album)
    album.add(V2, [record(8)], photos={8: ["a"]})
    maker.delete(maker.manifest_key)
    return album.expected("The rows are in the data files, of which the vacuumed ones count.", rebuilt=True)


@case
def attached_in_copies_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    """Copies that were cut behind the messages, before and after the whole file in the order of their names."""
    album = Album(maker)
    file = album.add(V1, [record(0)], [record(1)], photos={0: ["a"], 1: ["b"]})
    body = maker.body(file)
    cut = body[: body.rindex(b"\x1f\x8b\x08\x04")]
    folder, _, name = file.path.rpartition("/")
    for letter in "az":
        maker.put(f"{maker.prefix}{folder}/{letter}-{name}", cut)
    maker.delete(maker.manifest_key)
    return album.expected(
        "Copies of a file without its rows lie beside it: the one with the most rows counts.", rebuilt=True
    )


def odd(row: Sequence[Any]) -> bytes:
    """A member that says this row, whatever it is."""
    return empty_part(json.dumps({"attached": [row]}).encode())


@case
def attached_in_members_of_every_kind_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    maker.keep(V1)
    sha256 = hashlib.sha256(b"nobody's").hexdigest()
    maker.put(maker.prefix + layout.attached_path(sha256, 1), b"nobody's")
    good = ["photo", "x.jpg", sha256, 8, "image/jpeg", 1]
    lines = [record(0), record(1), record(2), record(3)]
    rows = album.rows(lines, {1: ["a"], 2: ["b"], 3: ["c"]}, None)
    parts = [compress_member(line + b"\n", 1) for line in lines]
    more = compress_member(record(4) + b"\n", 1, extra=json.dumps({"attached": [[4, *good]]}).encode())
    body = b"".join(
        (
            compress_member(schema_line(V1), 1, extra=maker.header("00000000000000f1")),
            odd([0, *good]),
            parts[0],
            parts[1],
            odd([2, *good]),
            odd([-1, *good]),
            odd([0, "photo", "x.jpg", sha256.upper(), 8, "image/jpeg", 1]),
            odd([0, "photo", "x.jpg", f"../{sha256}"[:64], 8, "image/jpeg", 1]),
            odd([0, "photo", "x.jpg", sha256, None, "image/jpeg", 1]),
            odd([0, "photo", "x.jpg", sha256, 8, "image/jpeg", 0]),
            odd([0, "photo", "x.jpg"]),
            empty_part(json.dumps({"attached": [[0, *good], [9, *good]]}).encode()),
            attached_members(rows[:1]),
            empty_part(b'{"other":1}'),
            parts[2],
            attached_members(rows[1:2]),
            parts[3],
            # A row of a later version may say more.
            empty_part(json.dumps({"attached": [[*msgspec.to_builtins(rows[2]), "more"]], "more": 1}).encode()),
            more,
        )
    )
    maker.put_file(V1, body, id="00000000000000f1")
    maker.messages += [*lines, record(4)]
    maker.delete(maker.manifest_key)
    return album.expected(
        "Members say rows that count, and others that do not: before the messages, beyond them, negative, without a "
        "checksum, half, of a member with text.",
        rebuilt=True,
    )


@case
def attached_out_of_order_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    """A header has a text that is empty, so it is none and begins no part."""
    album = Album(maker)
    maker.keep(V1)
    lines = [record(number) for number in range(4)]
    rows = album.rows(lines, {0: ["a"], 1: ["b"], 2: ["c", None], 3: ["a"]}, None)
    first, second, third, unread, last = rows
    parts = [compress_member(line + b"\n", 1) for line in lines]
    no_header = json.dumps({"id": "00000000000000f2", "created": "2026-01-01T00:00:02Z", "run": "", "seq": 2})
    body = b"".join(
        (
            compress_member(schema_line(V1), 1, extra=maker.header("00000000000000f1")),
            *parts[:3],
            attached_members([third, first, unread]),
            empty_part(no_header.encode()),
            parts[3],
            empty_part(json.dumps({"attached": [msgspec.to_builtins(last)[:6]]}).encode()),
            attached_members([last]),
            attached_members([second]),
        )
    )
    maker.put_file(V1, body, id="00000000000000f1")
    maker.messages += lines
    maker.delete(maker.manifest_key)
    return album.expected(
        "Members say rows out of the order of the messages: a reader puts them into it. A row of six values is none.",
        rebuilt=True,
    )


@case
def attached_in_parts_without_a_header_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    lines = [[record(0), record(1)], [record(2), record(3)]]
    maker.keep(V1)
    rows = [
        album.rows(each, photos, None) for each, photos in zip(lines, ({1: ["a"]}, {2: ["b"], 3: ["c"]}), strict=True)
    ]
    said = Provenance(
        id="00000000000000f3", lineage="x", offset=0, replaces=(("00000000000000f1", 2), ("00000000000000f2", 2))
    )
    parts = [
        file_bytes(V1, [each], head) + attached_members(row)
        for each, head, row in zip(lines, (maker.header("00000000000000f1"), None), rows, strict=True)
    ]
    maker.put_file(V1, empty_part(msgspec.json.encode(said)) + b"".join(parts), id="00000000000000f3")
    maker.messages += [line for each in lines for line in each]
    maker.delete(maker.manifest_key)
    return album.expected(
        "The second original of a vacuumed file has no header: its rows count from where it begins.", rebuilt=True
    )


@case
def attached_row_that_is_none(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    three(album)

    def spoil(manifest: dict[str, Any]) -> None:
        manifest["files"][0]["attached"][0][3] = "../../../../../../etc/passwd"

    maker.edit(spoil)
    return maker.refused("A row has no checksum where one should be: a reader must not make a key of it.")


def attached_behind_the_manifest(album: Album) -> None:
    """``manifest.json`` as it was before files were attached, and erased, in the log."""
    maker = album.maker
    maker.add(V1, [record(10)])
    maker.finish()
    before = maker.manifest_body()
    files = three(album)
    maker.replace(files)
    maker.erase(2, 4)
    album.add(V2, [record(6)], photos={6: ["b"]})
    maker.put(maker.manifest_key, before)


@case
def log_with_attached_files_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    attached_behind_the_manifest(album)
    return album.expected("manifest.json is behind: files were attached since, in _log.")


@case
def merge_with_attached_files_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    album = Album(maker)
    attached_behind_the_manifest(album)
    return album.expected("manifest.json is behind: files were attached since, in settle records.")


@case
def merge_with_an_attached_file_that_came_too_late(maker: Maker) -> dict[str, Any]:
    """A writer uses an object again whose deletion was agreed on before."""
    album = Album(maker)
    three(album)
    maker.erase(5)
    (gone,) = (file for file in maker.state().retired if len(file.id) == 64 and file.shown is None)
    since = {gone.id: gone.since}
    for change in (CollectFiles(shown=(gone.id,), since=since), CollectFiles(deleted=(gone.id,), since=since)):
        assert isinstance(committed(maker, change), Loaded)
    late = Album(maker)
    fresh = maker.state()
    void = msgspec.structs.replace(fresh, retired=())
    rows = late.rows([record(6)], {6: ["c"]}, void)
    body = file_bytes(V1, [[record(6)]], maker.header("00000000000000f6")) + attached_members(rows)
    file = maker.described(V1, body, "00000000000000f6", [[record(6)]], tuple(rows))
    maker.put(maker.prefix + file.path, body)
    schemas = {file.version: StreamSchema(schema=V1, key_properties=("n",))}
    assert isinstance(committed(maker, addition((file,), schemas)), Conflict)
    album.add(V1, [record(7)], photos={7: ["c"]})
    maker.put(maker.manifest_key, maker.born)
    return album.expected("A file is listed whose attached file was being deleted: that is void, and a copy is not.")


def committed(maker: Maker, change: Change) -> Loaded | Conflict:
    """What becomes of a change, a second after what came before."""
    maker.clock.sleep(1)
    store = maker.store()
    base = store.load()
    assert base is not None
    transaction = Transaction(id=maker.ids(), at=maker.now(), change=change)
    return maker.settled(submit_transaction(store, base, transaction, clock=maker.clock), base)
