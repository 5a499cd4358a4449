"""JSON merge patches, and transactions as such."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.exact_json import decode, encode
from singerlake.format.merge.patch import MergeEntry, to_entry, to_transaction
from singerlake.format.state import additions, fold
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import Run, StreamSchema
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    Close,
    CollectFiles,
    EraseFiles,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
    file_ids,
)
from tests.format.state.test_fold import add, born, done, new_file, with_holes


def merge(target: Any, patch: Any) -> Any:
    """``target`` with ``patch`` applied, as RFC 7386, section 2, has it."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


APPENDIX_A: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("original", "patch", "result"), APPENDIX_A)
def test_the_cases_of_rfc_7386_appendix_a(original: Any, patch: Any, result: Any) -> None:
    before = json.dumps([original, patch])
    assert merge(original, patch) == result
    assert json.dumps([original, patch]) == before


TEXT = st.text(max_size=6) | st.sampled_from(["\ud800", "null", "\udfff x", "\u0000", "{}", "ü€𝄞"])
"""Every text a JSON text can carry, lone surrogates too."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53 + 1, 2**64, -(2**70), 10**40])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 5e-324, 1.7976931348623157e308, 1e22, 0.1])
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers(0, 2**63 - 1)
FILES = st.builds(
    NewFile,
    id=TEXT,
    path=TEXT,
    version=TEXT,
    messages=NUMBERS,
    records=NUMBERS,
    bytes=NUMBERS,
    raw_bytes=NUMBERS,
    sha256=TEXT,
    first=TEXT,
    last=TEXT,
    members=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2).map(tuple),
    erased=st.just(0) | NUMBERS,
)
ROWS = st.lists(FILES, max_size=4, unique_by=lambda file: file.id).map(tuple)
SCHEMAS = st.builds(
    StreamSchema,
    schema=JSON,
    key_properties=st.lists(TEXT, max_size=2).map(tuple),
    bookmark_properties=st.lists(TEXT, max_size=2).map(tuple),
)
RUNS = st.builds(Run, id=TEXT, writer=TEXT, started=TEXT, updated=TEXT, status=TEXT, files=NUMBERS, bytes=NUMBERS)


@st.composite
def replacements(draw: st.DrawFn) -> ReplaceFiles:
    files = draw(ROWS)
    cut = draw(st.integers(0, len(files)))
    kind = draw(st.sampled_from([ReplaceFiles, EraseFiles]))
    return kind(old=tuple(file.id for file in files[:cut]), new=files[cut:])


@st.composite
def steps(draw: st.DrawFn) -> CollectFiles:
    ids = draw(st.lists(TEXT, max_size=5, unique=True))
    one, two = sorted((draw(st.integers(0, len(ids))), draw(st.integers(0, len(ids)))))
    return CollectFiles(shown=tuple(ids[:one]), deleted=tuple(ids[one:two]), forgotten=tuple(ids[two:]))


def rebase(schema: Any, name: str) -> Rebase:
    manifest = done(born(), add(new_file("a"), new_file("b")))
    manifest = done(done(manifest, RetireFiles(files=((name + "o", name),))), Close(successor=name))
    held = {version: msgspec.structs.replace(each, schema=schema) for version, each in manifest.schemas.items()}
    return Rebase(manifest=msgspec.structs.replace(manifest, schemas=held, lineage=None))


CHANGES: st.SearchStrategy[Change] = (
    st.builds(AddFiles, files=ROWS, schemas=st.dictionaries(TEXT, SCHEMAS, max_size=2), run=st.none() | RUNS)
    | replacements()
    | st.builds(
        RetireFiles, files=st.lists(st.tuples(TEXT, TEXT), max_size=3, unique_by=lambda pair: pair[0]).map(tuple)
    )
    | steps()
    | st.builds(RecordRun, run=RUNS)
    | st.builds(Close, successor=TEXT)
    | st.builds(rebase, JSON, TEXT)
)


def exactly(value: Any) -> str:
    """What tells 1 from 1.0 and from true, and -0.0 from 0.0."""
    return json.dumps(msgspec.to_builtins(value, enc_hook=list), sort_keys=True)


@given(st.builds(Transaction, id=TEXT, at=TEXT, change=CHANGES), st.none() | TEXT)
def test_a_transaction_comes_back_from_its_entry_as_it_was(transaction: Transaction, after: str | None) -> None:
    body = encode(to_entry(transaction, after=after))
    entry = decode(body, MergeEntry)
    back = to_transaction(entry)
    assert back == transaction
    assert exactly(back) == exactly(transaction)
    assert entry.after == after


def nulls(value: Any) -> list[list[str]]:
    """The ways to every null in a JSON value."""
    if value is None:
        return [[]]
    if isinstance(value, dict):
        return [[name, *way] for name, inner in value.items() for way in nulls(inner)]
    return []


@given(CHANGES)
def test_a_patch_has_null_only_for_a_file_that_goes(change: Change) -> None:
    patch = decode(encode(to_entry(Transaction(id="t", at="", change=change))), MergeEntry).patch
    ways = nulls(patch)
    gone = set(change.old) if isinstance(change, ReplaceFiles) else set()
    name = "erased" if isinstance(change, EraseFiles) else "files"
    assert {tuple(way) for way in ways} == {(name, id) for id in gone}


@pytest.mark.parametrize(
    ("change", "patch"),
    [
        (ReplaceFiles(old=("a", "b"), new=()), {"files": {"a": None, "b": None}}),
        (EraseFiles(old=("a", "b"), new=()), {"erased": {"a": None, "b": None}}),
        (RetireFiles(files=(("o", "v/o"),)), {"retired": {"o": "v/o"}}),
        (
            CollectFiles(shown=("s",), deleted=("d",), forgotten=("f",)),
            {"collected": {"s": "shown", "d": "deleted", "f": "forgotten"}},
        ),
        (Close(successor="log"), {"closed": "log"}),
        (
            AddFiles(files=(), schemas={"h": StreamSchema(schema={"a": None}, key_properties=("k",))}),
            {
                "files": {},
                "schemas": {"h": {"schema": '{"a":null}', "key_properties": ["k"], "bookmark_properties": []}},
            },
        ),
    ],
)
def test_what_patches_look_like(change: Change, patch: dict[str, Any]) -> None:
    entry = to_entry(Transaction(id="t", at="2026", change=change))
    assert json.loads(encode(entry))["patch"] == patch


def test_a_patch_is_true_of_the_files_as_a_document() -> None:
    """Merged into a document of the files by id, patches do what the fold does to the listing."""
    document: dict[str, Any] = {"files": {}}
    manifest = born()
    changes: list[Change] = [
        add(new_file("a"), new_file("b"), new_file("c")),
        ReplaceFiles(old=("a", "b"), new=(new_file("ab", 6),)),
        add(new_file("d")),
    ]
    for change in changes:
        document = merge(document, to_entry(Transaction(id="t", at="", change=change)).patch)
        manifest = done(manifest, change)
    assert set(document["files"]) == {file.id for file in manifest.files} == {"ab", "c", "d"}


ERASURE = EraseFiles(old=("a",), new=(with_holes(new_file("b"), 1),))


def test_an_erasure_is_no_replacement_to_a_program_that_knows_only_that() -> None:
    """The names that such a program looks for are not in the patch, so that it refuses the entry and does not list a
    file with holes in a state of format 1."""
    patch = json.loads(encode(to_entry(Transaction(id="t", at="", change=ERASURE))))["patch"]
    assert list(patch) == ["erased"]
    assert not {"files", "schemas", "runs", "retired", "collected", "closed", "manifest"} & patch.keys()
    kinds = AddFiles | ReplaceFiles | RetireFiles | CollectFiles | RecordRun | Rebase | Close
    with pytest.raises(msgspec.ValidationError, match="erase_files"):
        msgspec.json.decode(msgspec.json.encode(ERASURE), type=kinds)


def test_only_a_file_with_holes_says_how_many() -> None:
    patch = to_entry(Transaction(id="t", at="", change=ERASURE)).patch
    assert patch["erased"]["b"]["erased"] == 1
    plain = to_entry(Transaction(id="t", at="", change=ReplaceFiles(old=("a",), new=(new_file("b"),)))).patch
    assert "erased" not in plain["files"]["b"]


def test_an_erasure_and_a_replacement_of_the_same_files_are_told_apart() -> None:
    plain = ReplaceFiles(old=ERASURE.old, new=ERASURE.new)
    back = [to_transaction(to_entry(Transaction(id="t", at="", change=change))).change for change in (ERASURE, plain)]
    assert [type(change) for change in back] == [EraseFiles, ReplaceFiles]


def test_the_order_of_files_does_not_rest_on_the_order_of_an_object_s_keys() -> None:
    names = ["z", "a", "m", "b"]
    body = encode(to_entry(Transaction(id="t", at="", change=add(*(new_file(name) for name in names)))))
    shuffled = json.dumps(json.loads(body), sort_keys=True).encode()
    change = to_transaction(decode(shuffled, MergeEntry)).change
    assert list(file_ids(change)) == names


def test_a_listed_file_is_written_as_the_new_file_it_was() -> None:
    listed = done(born(), add(new_file("a"))).files[0]
    assert isinstance(listed, DataFile)
    change = to_transaction(to_entry(Transaction(id="t", at="", change=add(listed)))).change
    assert isinstance(change, AddFiles)
    assert change.files == (new_file("a"),)


@pytest.mark.parametrize(
    "entry",
    [
        {"patch": {}},
        {"patch": {"unknown": {}}},
        {"patch": {"files": []}},
        {"patch": {"files": {"a": None}}, "order": ["a", "b"]},
        {"patch": {"files": {"a": None, "b": None}}, "order": ["a"]},
        {"patch": {"files": {"a": None}}, "order": ["a", "a"]},
        {"patch": {"files": {"a": None}, "schemas": {}}, "order": ["a"]},
        {"patch": {"files": {"a": {"path": "p"}}}, "order": ["a"]},
        {"patch": {"files": {"a": 1}}, "order": ["a"]},
        {"patch": {"erased": []}},
        {"patch": {"erased": {"a": None}}, "order": ["a", "b"]},
        {"patch": {"erased": {"a": {"path": "p"}}}, "order": ["a"]},
        {"patch": {"erased": {"a": 1}}, "order": ["a"]},
        {"patch": {"files": {}, "schemas": {"h": {"schema": {"type": "object"}}}}},
        {"patch": {"files": {}, "schemas": {"h": {"schema": "{"}}}},
        {"patch": {"files": {}, "schemas": {"h": {}}}},
        {"patch": {"files": {}, "schemas": {"h": 1}}},
        {"patch": {"retired": {"a": None}}, "order": ["a"]},
        {"patch": {"retired": {"a": "p"}}},
        {"patch": {"runs": {}}},
        {"patch": {"runs": {"r": {}, "s": {}}}},
        {"patch": {"runs": {"r": 1}}},
        {"patch": {"closed": 1}},
        {"patch": {"manifest": {}}},
        {"patch": {"manifest": "{}"}},
    ],
    ids=lambda entry: json.dumps(entry)[:60],
)
def test_what_is_no_transaction_is_refused(entry: dict[str, Any]) -> None:
    read = decode(json.dumps({"id": "t", "at": "", **entry}).encode(), MergeEntry)
    with pytest.raises(msgspec.DecodeError):
        to_transaction(read)


def test_the_fold_of_a_translated_log_is_the_fold_of_the_log() -> None:
    changes: list[Change] = [
        add(new_file("a"), new_file("b")),
        ReplaceFiles(old=("a", "b"), new=(new_file("ab", 6),)),
        EraseFiles(old=("ab",), new=(with_holes(new_file("ab1", 6), 2),)),
        RetireFiles(files=(("o", "v/o"),)),
        RecordRun(run=Run(id="r", writer="w", started="2026")),
        RecordRun(run=Run(id="r", writer="w", started="2026", table_version=7, activated=6)),
        RecordRun(run=Run(id="r", writer="w", started="2026", activated=7)),
        Close(successor="log"),
    ]
    straight = translated = born()
    for number, change in enumerate(changes):
        transaction = Transaction(id=f"t{number}", at="2026", change=change)
        there_and_back = to_transaction(decode(encode(to_entry(transaction)), MergeEntry))
        after, other = fold.apply(straight, transaction), fold.apply(translated, there_and_back)
        assert not isinstance(after, additions.Conflict)
        assert not isinstance(other, additions.Conflict)
        straight, translated = after, other
    assert straight == translated
    assert (straight.runs[0].table_version, straight.runs[0].activated) == (7, 7)
