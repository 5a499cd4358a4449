"""Rows of attached files: what is one, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import CorruptObjectError
from singerlake.format.state.attached import Attached, AttachedRows, in_order, objects_of, shifted
from singerlake.format.state.attached_objects import fewer_rows, rows_in_a_row, same_rows
from singerlake.format.state.manifest import from_json, to_json
from tests.format.state.test_attach_files import with_rows
from tests.format.state.test_fold import add, born, done, new_file

A, B = "a" * 64, "0123456789abcdef" * 4


def row(message: int = 0, sha256: str | None = A, copy: int = 1, source: str | None = "x.jpg") -> Attached:
    return Attached(message, "photo", source, sha256, sha256 and 5, sha256 and "image/jpeg", copy)  # type: ignore[arg-type]


def test_a_row_is_an_array_as_the_format_document_says() -> None:
    assert msgspec.json.encode(row(3)) == b'[3,"photo","x.jpg","%b",5,"image/jpeg",1]' % A.encode()
    assert msgspec.json.encode(row(3, None)) == b'[3,"photo","x.jpg",null,null,null,1]'


def test_a_row_of_a_later_version_may_have_more_values() -> None:
    text = msgspec.json.encode([*msgspec.to_builtins(row()), "more"])
    assert msgspec.json.decode(text, type=Attached) == row()


BAD: list[tuple[Any, ...]] = [
    (),
    (0, "p", None, A, 5),
    (0, "p", None, A, 5, "t"),
    (0, "p", None, None, None, None),
    (-1, "p", None, A, 5, "t", 1),
    ("0", "p", None, A, 5, "t", 1),
    (0.5, "p", None, A, 5, "t", 1),
    (True, "p", None, A, 5, "t", 1),
    (0, None, None, A, 5, "t", 1),
    (0, "p", 7, A, 5, "t", 1),
    (0, "p", None, A.upper(), 5, "t", 1),
    (0, "p", None, A[:-1], 5, "t", 1),
    (0, "p", None, A + "a", 5, "t", 1),
    (0, "p", None, A + "\n", 5, "t", 1),
    (0, "p", None, "../" * 21 + "a", 5, "t", 1),
    (0, "p", None, "", 5, "t", 1),
    (0, "p", None, A, -1, "t", 1),
    (0, "p", None, A, "5", "t", 1),
    (0, "p", None, A, None, "t", 1),
    (0, "p", None, A, 5, None, 1),
    (0, "p", None, None, 5, None, 1),
    (0, "p", None, None, None, "t", 1),
    (0, "p", None, None, None, None, 2),
    (0, "p", None, A, 5, "t", 0),
    (0, "p", None, A, 5, "t", 1_000_000_000),
    (0, "p", None, A, 5, "t", "2"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:60])
def test_what_is_no_row_is_refused_in_a_data_file_and_in_a_manifest(bad: tuple[Any, ...]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"attached": [bad]}), type=AttachedRows)
    held = msgspec.json.decode(to_json(done(born(), add(with_rows(new_file("a"), row())))))
    held["files"][0]["attached"] = [bad]
    with pytest.raises(CorruptObjectError):
        from_json(msgspec.json.encode(held), key="k")


@pytest.mark.parametrize("values", [(A, None, "t"), (A, 5, None), (None, 5, None), (None, None, "t")])
def test_half_a_row_is_not_made(values: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="none of them"):
        Attached(0, "p", None, *values, 1)
    with pytest.raises(ValueError, match="the copy 1"):
        Attached(0, "p", None, None, None, None, 2)


def test_rows_of_one_object_name_it_once_and_rows_of_none_name_nothing() -> None:
    rows = [row(0), row(4), row(4, B), row(5, A, 2), row(6, None)]
    assert objects_of(rows) == {
        A: f"_files/aa/{A}",
        B: f"_files/01/{B}",
        f"{A}.2": f"_files/aa/{A}.2",
    }
    assert [each.path() for each in rows[2:]] == [f"_files/01/{B}", f"_files/aa/{A}.2", None]


def test_rows_move_with_the_messages_before_them() -> None:
    assert shifted([row(0), row(3)], 0) == (row(0), row(3))
    assert shifted([row(0), row(3, None)], 4) == (row(4), row(7, None))


def test_rows_in_order_of_their_messages_stay_as_they_are_within_one() -> None:
    rows = [row(2, B), row(0), row(2, A), row(1, None), row(2, None)]
    assert in_order(rows) == (row(0), row(1, None), row(2, B), row(2, A), row(2, None))
    assert in_order([]) == ()


ROWS = st.lists(
    st.builds(row, st.integers(0, 9), st.sampled_from([A, B, None]), source=st.sampled_from(["x", "y", None])),
    max_size=8,
).map(lambda rows: sorted(rows, key=lambda each: each.message))


@given(ROWS, ROWS, st.data())
def test_rows_that_are_left_are_fewer_and_no_others_are(one: list[Attached], two: list[Attached], data: Any) -> None:
    files = [with_rows(new_file("a", 10), *one), with_rows(new_file("b", 10), *two)]
    whole = with_rows(new_file("ab", 20), *one, *shifted(two, 10))
    assert rows_in_a_row(files) == whole.attached
    assert same_rows(files, [whole])
    assert fewer_rows(files, [whole])
    kept = data.draw(st.lists(st.booleans(), min_size=len(whole.attached), max_size=len(whole.attached)))
    rows = [each for each, keep in zip(whole.attached, kept, strict=True) if keep]
    left = with_rows(new_file("ab", 20), *rows)
    assert fewer_rows(files, [left])
    assert same_rows(files, [left]) is all(kept)
    more = with_rows(new_file("ab", 20), *rows, row(19, source="another"))
    assert not fewer_rows(files, [more])
    twice = with_rows(new_file("ab", 20), *whole.attached, *whole.attached[-1:])
    assert fewer_rows(files, [twice]) is not bool(whole.attached)
