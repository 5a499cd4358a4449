"""A manifest from data files alone: repeated perhaps, lost never."""

from __future__ import annotations

import gzip
import threading
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.clock import timestamp
from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.kept_schema import kept, to_json
from singerlake.format.schema_hash import full_hash, schema_hash
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, SchemaVersion, StreamSchema
from singerlake.format.state.selection import schema_in_force, select
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.lake import Lake
from singerlake.upkeep.context import data_files, stream_objects
from singerlake.upkeep.rebuild.survey import survey
from singerlake.upkeep.result import Progress
from singerlake.upkeep.scan import scan
from singerlake.upkeep.scanned_file import content_id
from singerlake.work.engine import Threads
from singerlake.work.parallel import in_parallel
from tests.fakes import START
from tests.lakes import build_stream
from tests.storage.memory import Step
from tests.upkeep.shelf import (
    OTHER,
    PREFIX,
    SCHEMA,
    STREAM,
    TAP,
    Shelf,
    file_bytes,
    file_id,
    header,
    kinds,
    numbered,
    record,
    schema_line,
    vacuumed_bytes,
)

SIZES = {1: 2, 2: 3, 3: 1, 4: 4, 5: 2}


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def without_history(manifest: Manifest) -> Manifest:
    """What a rebuild can know: not the transactions, the runs, nor when a version was committed."""
    schemas = {version: msgspec.structs.replace(held, first_seen="f") for version, held in manifest.schemas.items()}
    return msgspec.structs.replace(
        manifest, lineage="l", created="c", transaction=fold.Position(0, "t"), runs=(), schemas=schemas
    )


def test_a_reader_without_a_manifest_reads_the_same_bytes(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(25)], file_size=10, member_size=3)
    stream = lake.stream("t", "s")

    def everything() -> bytes:
        return b"".join(block.data for part in select(stream.snapshot()) for block in stream.read(part))

    before = everything()
    lake.storage.delete(layout.manifest_key("t", "s"))
    assert everything() == before
    assert stream.snapshot().lineage is None


@given(st.permutations([1, 2, 3, 4]), st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_files_are_in_the_order_of_their_headers_whatever_else_they_are(order: list[int], threads: int) -> None:
    shelf = Shelf()
    for number in order:
        shelf.original(number)
    assert shelf.numbers(shelf.rebuild(engine=Threads(shelf.storage, threads)).manifest) == [1, 2, 3, 4]


def test_the_order_is_created_then_run_then_seq(shelf: Shelf) -> None:
    shelf.original(1, created=5, run="b", seq=0)
    shelf.original(2, created=5, run="a", seq=1)
    shelf.original(3, created=5, run="a", seq=0)
    shelf.original(4, created=4, run="z", seq=9)
    assert shelf.numbers(shelf.rebuild().manifest) == [4, 3, 2, 1]


def test_the_fold_over_the_same_files_gives_the_same_state(shelf: Shelf) -> None:
    for number, schema in ((1, SCHEMA), (2, OTHER), (3, SCHEMA), (4, OTHER)):
        shelf.original(number, schema=schema)
    made = shelf.rebuild().manifest
    state = fold.empty(tap="t", stream="s", store="lockfile", lineage="l", created="c", transaction_id="t")
    for file in made.files:
        body = shelf.storage.get(PREFIX + file.path)
        assert body is not None
        schema = scan(shelf.storage.open(PREFIX + file.path), key="k").schema
        new = msgspec.convert(msgspec.to_builtins(file), NewFile)
        change = AddFiles(files=(new,), schemas={file.version: schema})
        outcome = fold.apply(state, Transaction(id="x", at="f", change=change))
        assert isinstance(outcome, Manifest)
        state = outcome
    assert without_history(made) == without_history(state)


@given(
    st.sets(st.sampled_from([1, 2, 3, 4, 5])),
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)).filter(lambda run: run[0] <= run[1]), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_any_set_of_originals_and_vacuumed_files_loses_no_message(
    originals: set[int], vacuums: list[tuple[int, int]]
) -> None:
    shelf = Shelf()
    there = set(originals)
    for number in originals:
        shelf.original(number, SIZES[number])
    for at, (first, last) in enumerate(vacuums):
        shelf.vacuumed(100 + at, *((number, SIZES[number]) for number in range(first, last + 1)))
        there |= set(range(first, last + 1))
    made = shelf.rebuild()
    lines = [
        line
        for file in made.manifest.files
        for line in gzip.decompress(shelf.storage.read_range(PREFIX + file.path, 0, 1 << 20)).splitlines(True)
        if b'"SCHEMA"' not in line
    ]
    expected = [line for number in sorted(there) for line in numbered(number, SIZES[number])]
    assert set(lines) == set(expected)
    if "repeated" not in kinds(made.findings):
        assert lines == expected
    assert made.manifest.next_offset == len(lines)


def test_a_vacuumed_file_takes_the_place_of_its_originals_which_are_retired(shelf: Shelf) -> None:
    for number in (1, 2, 3, 4):
        shelf.original(number)
    shelf.vacuumed(50, (2, 2), (3, 2))
    made = shelf.rebuild()
    assert shelf.numbers(made.manifest) == [1, 50, 4]
    assert [(file.id, file.by) for file in made.manifest.retired] == [
        (file_id(2), file_id(50)),
        (file_id(3), file_id(50)),
    ]
    assert made.findings == ()


def test_a_broken_vacuumed_file_displaces_nothing(shelf: Shelf) -> None:
    for number in (1, 2):
        shelf.original(number)
    shelf.put(50, vacuumed_bytes(50, [(1, 2), (2, 2)])[:-9])
    made = shelf.rebuild()
    assert shelf.numbers(made.manifest) == [1, 2]
    assert kinds(made.findings) == ["broken"]


def test_a_vacuumed_file_cut_between_members_displaces_nothing(shelf: Shelf) -> None:
    for number in (1, 2):
        shelf.original(number)
    shelf.put(50, vacuumed_bytes(50, [(1, 2), (2, 2)])[: -len(file_bytes([numbered(2, 2)], extra=header(2)))])
    made = shelf.rebuild()
    assert shelf.numbers(made.manifest) == [1, 2]
    assert kinds(made.findings) == ["broken"]


def test_a_copy_in_another_gzip_is_the_same_file(shelf: Shelf) -> None:
    path = shelf.original(1)
    text = gzip.decompress(shelf.storage.read_range(PREFIX + path, 0, 1 << 20))
    shelf.put(1, gzip.compress(text), path=path.replace("/", "/again-"))
    assert len(shelf.rebuild().manifest.files) == 1


def test_a_cut_copy_does_not_take_the_place_of_the_whole_file(shelf: Shelf) -> None:
    whole = file_bytes([numbered(1, 2), numbered(1, 3)], extra=header(1))
    cut = file_bytes([numbered(1, 2)], extra=header(1))
    assert whole.startswith(cut)
    path = shelf.put(1, whole)
    shelf.put(1, cut, path="a/" + path.partition("/")[2])
    made = shelf.rebuild()
    assert [file.messages for file in made.manifest.files] == [5]
    assert kinds(made.findings) == ["duplicate"]


def test_other_content_under_the_same_id_is_kept_under_an_id_of_its_own(shelf: Shelf) -> None:
    shelf.original(1)
    body = file_bytes([numbered(7, 1)], extra=header(1))
    shelf.put(1, body, path="a/x.singer.gz")
    made = shelf.rebuild()
    assert kinds(made.findings) == ["clash"]
    assert {file.id for file in made.manifest.files} == {
        file_id(1),
        content_id(scan(shelf.storage.open(PREFIX + "a/x.singer.gz"), key="k").sha256),
    }


def test_files_are_in_the_order_in_which_they_were_begun(shelf: Shelf) -> None:
    for number, created in enumerate((5, 3, 3, 9, 1, 3, 7), 1):
        shelf.original(number, created=created)
    shelf.put(8, gzip.compress(schema_line() + record(8)), path="x/by-hand.singer.gz")
    files = shelf.rebuild().manifest.files
    assert [file.id for file in files[:-1]] == [file_id(number) for number in (5, 2, 3, 6, 1, 7, 4)]
    assert files[-1].path == "x/by-hand.singer.gz"


@pytest.mark.parametrize("created", ["2026-01-01T00:00:00.000000+05:00Z", "2026-01-01T00:00:00.00000Z0", "", "Z"])
def test_a_header_whose_time_is_none_counts_from_when_the_file_was_stored(shelf: Shelf, created: str) -> None:
    head = FileHeader(id=file_id(1), created=created, run="r", seq=1)
    shelf.put(1, file_bytes([numbered(1, 1)], extra=msgspec.json.encode(head)))
    (file,) = shelf.rebuild().manifest.files
    assert (file.first, file.last) == (timestamp(START),) * 2


def test_foreign_files_are_taken_in_by_their_name_or_their_content(shelf: Shelf) -> None:
    shelf.clock.sleep(10)
    shelf.put(1, gzip.compress(schema_line() + record(1)), path="x/by-hand.singer.gz")
    shelf.clock.sleep(10)
    shelf.put(2, gzip.compress(schema_line() + record(2)), path=f"x/s-{file_id(2)}.singer.gz")
    shelf.original(3, created=15)
    made = shelf.rebuild()
    # Behind those that say when they were begun, whenever they were stored: a copy is stored again.
    own, first, second = made.manifest.files
    assert (first.id, first.path) == (content_id(first.sha256), "x/by-hand.singer.gz")
    assert (own.id, second.id) == (file_id(3), file_id(2))
    assert (first.first, first.last) == (timestamp(START.replace(second=10)),) * 2
    assert made.findings == ()


def test_the_version_is_the_schema_lines_never_the_folders(shelf: Shelf) -> None:
    body = file_bytes([numbered(1, 1)], extra=header(1), schema=schema_line(OTHER))
    shelf.put(1, body, path=f"{layout.to_segment(schema_hash(SCHEMA))}/a.singer.gz")
    assert shelf.rebuild().manifest.files[0].version == schema_hash(OTHER)


def test_two_schemas_under_one_short_hash_are_two_versions(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {full_hash(SCHEMA): "aaaaaaa000", full_hash(OTHER): "aaaaaaa111"}
    shelf.original(1)
    shelf.original(2, schema=OTHER)
    shelf.original(3)
    monkeypatch.setattr("singerlake.format.schema_hash.full_hash", lambda schema: whole[full_hash(schema)])
    made = shelf.rebuild().manifest
    assert made.versions == {"aaaaaaa": "v1", "aaaaaaa111": "v2"}
    assert [file.version for file in made.files] == ["aaaaaaa", "aaaaaaa111", "aaaaaaa"]


@pytest.mark.parametrize("kept", [None, 1, 2, 3])
def test_the_latest_schema_message_of_a_version_rules(shelf: Shelf, kept: int | None) -> None:
    """Also one that is kept, where it stands among the files."""
    for number in (1, 2, 3):
        shelf.keyed(number, *["n"] * (number == 3), kept=number == kept)
    made = shelf.rebuild().manifest
    (schema,) = made.schemas.values()
    assert schema.key_properties == ("n",)
    assert (schema.first_offset, schema.first_seen) == (0, "2026-01-01T00:00:01.000000Z")


@pytest.mark.parametrize("said", [["n"], "n"])
def test_so_do_its_lists_of_properties_however_they_are_written(shelf: Shelf, said: list[str] | str) -> None:
    for number, keys in ((1, []), (2, said)):
        line = schema_line(key_properties=keys, bookmark_properties=keys)
        shelf.put(number, file_bytes([numbered(number, 1)], extra=header(number), schema=line))
    made = shelf.rebuild().manifest
    (schema,) = made.schemas.values()
    assert schema.key_properties == schema.bookmark_properties == ("n",)
    assert (schema.first_offset, schema.first_seen) == (0, "2026-01-01T00:00:01.000000Z")


def test_a_kept_schema_behind_all_messages_is_the_newest(shelf: Shelf) -> None:
    shelf.original(1)
    created = timestamp(START + timedelta(seconds=2))
    later = kept(StreamSchema(schema=OTHER, key_properties=("n",)), tap=TAP, stream=STREAM, created=created, run="r")
    shelf.storage.put(f"{PREFIX}{layout.to_segment(schema_hash(OTHER))}/schema.json", to_json(later))
    assert schema_in_force(shelf.rebuild().manifest) == SchemaVersion(
        schema=OTHER, key_properties=("n",), first_offset=2, first_seen=created
    )


def test_a_file_without_messages_is_left_out_with_a_note(shelf: Shelf) -> None:
    shelf.put(1, file_bytes([], extra=header(1)))
    made = shelf.rebuild()
    assert made.manifest.files == ()
    assert [(finding.kind, finding.problem) for finding in made.findings] == [("empty", False)]


def test_a_file_that_goes_away_while_it_is_looked_for_is_named(shelf: Shelf) -> None:
    path = PREFIX + shelf.original(1)

    def vanish(step: Step) -> None:
        if step.operation == "list" and step.done:
            shelf.storage.hook = lambda _: None
            shelf.storage.delete(path)

    shelf.storage.hook = vanish
    assert kinds(shelf.rebuild().findings) == ["vanished"]


@pytest.mark.parametrize(
    "path",
    [
        "manifest.json",
        "x/singerlake.lock",
        "x/._s-0000000000000001.singer.gz",
        "x/_s.singer.gz",
        "s.singer.gz",
        "x/y/s.singer.gz",
        "_log/s.singer.gz",
        "x/s.singer.gz.part",
    ],
)
def test_what_does_not_lie_where_data_files_lie_is_none(shelf: Shelf, path: str) -> None:
    shelf.storage.put(PREFIX + path, b"?")
    shelf.original(1)
    assert [entry.key for entry in data_files(shelf.storage, "t", "s")] == [PREFIX + shelf.path(1)]


def test_an_empty_folder_is_a_state_without_files(shelf: Shelf) -> None:
    made = shelf.rebuild()
    assert (made.manifest.files, made.manifest.next_offset, made.findings) == ((), 0, ())


def test_hostile_names_come_back(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    for name in ("../../etc", "a/b", "catalogue.json", "[bold]x[/]", "\x1b[31mred", "n\u0308", "\u202egpj"):
        build_stream(lake, name, name, SCHEMA, [record(1, stream=name)[:-1]])
        lake.storage.delete(layout.manifest_key(name, name))
        assert lake.stream(name, name).rebuilt(lineage="l").next_offset == 1


def test_progress_adds_up_to_the_stored_bytes_on_the_callers_thread(shelf: Shelf) -> None:
    for number in range(1, 6):
        shelf.original(number)
    seen: list[tuple[int, str]] = []
    noted = Progress(advance=lambda count: seen.append((count, threading.current_thread().name)))
    survey(shelf.storage, TAP, STREAM, stream_objects(shelf.storage, TAP, STREAM), progress=noted)
    made = shelf.rebuild()
    assert sum(count for count, _ in seen) == sum(file.bytes for file in made.manifest.files)
    assert {name for _, name in seen} == {threading.current_thread().name}


def test_an_unavailable_storage_ends_a_rebuild(shelf: Shelf) -> None:
    for number in range(1, 40):
        shelf.original(number)

    def fail(step: Step) -> None:
        if step.operation == "open" and file_id(7) in step.key:
            raise StorageUnavailableError("no answer")

    shelf.storage.hook = fail
    with pytest.raises(StorageUnavailableError):
        shelf.rebuild()


def test_no_more_work_is_begun_than_the_threads_can_soon_do() -> None:
    begun: list[int] = []

    def items() -> list[int]:
        return list(range(1000))

    answers = in_parallel(lambda item: begun.append(item) or item, items(), threads=2)
    assert next(answers) == 0
    assert len(begun) <= 4
    assert list(answers) == list(range(1, 1000))
