"""A manifest decoded in pieces is the one that is decoded at once, whatever its names and schemas hold, or none."""

from __future__ import annotations

import json
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format.exact_json import decode, encode
from singerlake.format.state import manifest as manifests
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.large_manifest import in_pieces
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest, Retired, SchemaVersion
from tests.format.state.test_fold import born

KEY = "raw/t/s/manifest.json"
MARKS = ['],"retired":[', '},{"id":"', ',"files":[{"id":"', '"', "\\", "\ud800", "é", "a", "b"]
NAMES = st.lists(st.sampled_from(MARKS), max_size=3).map("".join)
NUMBERS = st.integers(0, 3) | st.integers(0, 2**63 - 1)
FILES = st.builds(
    DataFile,
    id=NAMES,
    path=NAMES,
    version=NAMES,
    messages=NUMBERS,
    records=NUMBERS,
    bytes=NUMBERS,
    raw_bytes=NUMBERS,
    sha256=NAMES,
    first=NAMES,
    last=NAMES,
    members=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3).map(tuple),
    offset=NUMBERS,
    erased=st.just(0) | NUMBERS,
)
RETIRED = st.builds(Retired, id=NAMES, path=NAMES, by=st.none() | NAMES, since=NAMES)


def listed(number: int, name: str = "f") -> DataFile:
    return DataFile(
        id=f"{name}{number}",
        path=f"x/{name}{number}",
        version="v",
        messages=1000,
        records=1000,
        bytes=5,
        raw_bytes=6,
        sha256="0" * 64,
        first="2026-01-01",
        last="2026-01-01",
        members=((10, 1000),),
        offset=number * 1000,
    )


def state(*files: DataFile) -> Manifest:
    return msgspec.structs.replace(born(), files=files)


# Values of a schema that look like the list of files, and like its end.
LOOKS_ALIKE = [
    {"files": [json.loads(encode(listed(1)))], "retired": []},
    {"a": 1, "files": [{"id": "x"}, {"id": "y"}], "retired": [{"files": [{"id": "z"}]}]},
    {"enum": ['],"retired":[', ',"files":[{"id":"']},
    [[{"id": "a"}, {"id": "b"}]],
]
SCHEMAS = st.dictionaries(
    NAMES,
    st.builds(SchemaVersion, schema=st.sampled_from(LOOKS_ALIKE), first_offset=NUMBERS, first_seen=NAMES),
    max_size=2,
)
STATES = st.builds(
    partial(msgspec.structs.replace, born()),
    schemas=SCHEMAS,
    versions=st.dictionaries(NAMES, NAMES, max_size=2),
    files=st.lists(FILES, max_size=8),
    retired=st.lists(RETIRED, max_size=3),
)


@given(STATES, st.lists(FILES, max_size=4), st.integers(1, 600), st.data())
def test_it_is_what_is_decoded_at_once(
    whole: Manifest, others: list[DataFile], piece: int, data: st.DataObject
) -> None:
    known = data.draw(st.lists(st.sampled_from([*whole.files, *others]), max_size=10)) if whole.files else others
    found = in_pieces(to_json(whole), FileList(known), piece=piece)
    assert found == (whole if whole.files else None)


@given(STATES, st.integers(1, 600), st.data())
def test_of_a_damaged_one_it_says_nothing_that_decoding_all_of_it_does_not(
    whole: Manifest, piece: int, data: st.DataObject
) -> None:
    body = to_json(whole)
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, len(body)))
    parts = [b"", b",", b"]", b"}", b"[", b"{", b'"', b"\\", b"0", b'},{"id":"', b'],"retired":[', body[start:end] * 2]
    damaged = body[:start] + data.draw(st.sampled_from(parts)) + body[end:]
    found = in_pieces(damaged, FileList(), piece=piece)
    if found is not None:
        assert found == decode(damaged, Manifest)


def test_what_both_states_list_is_one_object() -> None:
    before = state(*map(listed, range(20)))
    replaced = [*before.files[:4], listed(4, "new"), *before.files[6:], listed(20, "more")]
    after = in_pieces(to_json(state(*replaced)), before.files, piece=500)
    assert after is not None
    assert list(after.files) == replaced
    known = {id(file) for file in before.files}
    assert [file.id for file in after.files if id(file) not in known] == ["new4", "more20"]


def test_what_is_the_same_in_every_file_is_one_object() -> None:
    whole = msgspec.structs.replace(state(*map(listed, range(20))), versions={"v": "v1"})
    found = in_pieces(to_json(whole), FileList(), piece=500)
    assert found is not None
    assert {id(file.version) for file in found.files} == {id(next(iter(found.versions)))}
    for file in found.files:
        assert file.first is file.last
        assert file.messages is file.records is file.members[0][1]


def twice(first: list[object], second: list[object]) -> bytes:
    """A manifest with two lists of files."""
    return to_json(state())[:-1] + b',"files":%b,"retired":[],"files":%b,"retired":[]}' % (
        encode(first),
        encode(second),
    )


@pytest.mark.parametrize(
    "body",
    [
        twice([listed(1)], [listed(2)]),
        twice([listed(1)], []),
        twice([], [listed(2)]),
        twice([listed(1)], [{"id": "only"}]),
        twice([{"id": "only"}], [listed(1)]),
        msgspec.json.format(to_json(state(listed(1), listed(2)))),
        to_json(state(listed(1), listed(2))).replace(b'"id":"f2"', b'"id":"f2","id":"f3"'),
        to_json(state(listed(1), listed(2))).replace(b'"id":"f2"', b'"later":[{"a":1},{"id":"x"}],"id":"f2"'),
        to_json(state(listed(1), listed(2))).replace(b'"offset":2000', b'"offset":2000,"later":[[1],{"id":"x"}]'),
        to_json(state(listed(1), listed(2))).replace(b'"offset":2000', b'"offset":"2000"'),
        to_json(state(listed(1), listed(2)))[:-40],
        to_json(state(listed(1), listed(2))) + b"}",
        to_json(state(listed(1))).replace(b'{"format":1', b'{"format":2'),
        to_json(state(listed(1))).replace(b'{"format":1', b'{"format":3'),
    ],
)
@pytest.mark.parametrize("piece", [1, 100, 400])
def test_what_others_wrote_is_read_or_refused_as_at_once(
    body: bytes, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> Manifest | str:
        try:
            return from_json(body, key=KEY)
        except (CorruptObjectError, UnsupportedFormatError) as error:
            return f"{type(error).__name__}: {error.message}"

    at_once = read()
    monkeypatch.setattr(manifests, "LARGE", 0)
    monkeypatch.setattr(manifests, "in_pieces", lambda body, known: in_pieces(body, known, piece=piece))
    assert read() == at_once


def test_a_cut_list_is_not_a_shorter_one() -> None:
    body = to_json(state(*map(listed, range(20))))
    for cut in range(0, len(body), 7):
        assert in_pieces(body[:cut], FileList(), piece=300) is None
