"""What a request means in a stream whose first messages expired."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.arrow.plan.request import Request
from singerlake.arrow.plan.snapshot import pin, selected
from singerlake.errors import ExpiredMessagesError, SettingError
from singerlake.format.state.model import Manifest
from tests.format.state.test_expire import expire, three
from tests.format.state.test_fold import add, done, new_file


def floor_of_5() -> Manifest:
    """Offsets 5 to 8 of nine are left."""
    return done(three(), expire(5))


def pinned(**options: Any) -> tuple[int, int]:
    found = pin(floor_of_5(), Request(**options))
    return found.first, found.stop


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (5, 9)),
        ({"from_version": "v1"}, (5, 9)),
        ({"from_version": "v2"}, (5, 9)),
        ({"from_offset": 5}, (5, 9)),
        ({"from_offset": 9}, (9, 9)),
        ({"to_offset": 7}, (5, 7)),
        ({"to_offset": 0}, (5, 5)),
        ({"from_offset": 6, "to_offset": 8}, (6, 8)),
        ({"from_offset": 0, "skip_expired": True}, (5, 9)),
        ({"from_offset": 0, "to_offset": 3, "skip_expired": True}, (5, 5)),
        ({"to_offset": 3, "skip_expired": True}, (5, 5)),
        ({"from_offset": 7, "skip_expired": True}, (7, 9)),
    ],
)
def test_what_is_left_is_read_from_the_floor_on(options: dict[str, Any], expected: tuple[int, int]) -> None:
    assert pinned(**options) == expected
    manifest = floor_of_5()
    assert [file.offset for file in selected(manifest, pin(manifest, Request(**options)))] == (
        [5] if expected[0] < expected[1] else []
    )


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"from_offset": 0}, 0),
        ({"from_offset": 4}, 4),
        ({"from_offset": 4, "to_offset": 9}, 4),
        ({"from_offset": 2, "to_offset": 3}, 2),
        ({"to_offset": 3}, 2),
        ({"to_offset": 5}, 4),
        ({"from_version": "v1", "to_offset": 3}, 2),
    ],
)
def test_offsets_that_name_nothing_but_expired_messages_are_refused(options: dict[str, Any], wanted: int) -> None:
    with pytest.raises(ExpiredMessagesError, match=rf"from offset {wanted} to 4 expired before .* set skip_expired"):
        pinned(**options)


def test_a_stream_whose_messages_all_expired_is_empty_up_to_its_end() -> None:
    manifest = done(three(), expire(9))
    for request in (Request(), Request(to_offset=9)):
        found = pin(manifest, request)
        assert (found.first, found.stop, selected(manifest, found)) == (9, 9, [])
    with pytest.raises(ExpiredMessagesError, match="from offset 7 to 8 expired"):
        pin(manifest, Request(to_offset=8))


def test_an_offset_beyond_the_end_is_told_first() -> None:
    with pytest.raises(SettingError, match="option 'from_offset' is 10, the stream ends at 9"):
        pinned(from_offset=10, skip_expired=True)


@pytest.mark.parametrize("before", [3, 5, 9])
def test_what_was_pinned_before_its_first_messages_expired_is_refused(before: int) -> None:
    whole = three()
    everything, later = pin(whole, Request()), pin(whole, Request(from_offset=before))
    none = pin(whole, Request(from_offset=2, to_offset=2))
    after = done(whole, expire(before))
    with pytest.raises(ExpiredMessagesError, match="expired after this DataFrame or table was made; load it again"):
        selected(after, everything)
    assert [file.id for file in selected(after, later)] == [file.id for file in whole.files if file.offset >= before]
    assert selected(after, none) == []


def test_what_was_pinned_to_an_end_below_the_floor_is_refused_too() -> None:
    whole = three()
    early = pin(whole, Request(to_offset=3))
    after = done(whole, expire(9))
    with pytest.raises(ExpiredMessagesError):
        selected(after, early)


def test_a_stream_of_which_all_expired_is_empty_and_goes_on() -> None:
    empty = done(three(), expire(9))
    found = pin(empty, Request())
    assert (found.first, found.stop, selected(empty, found)) == (9, 9, [])
    after = done(empty, add(new_file("d", 2)))
    assert selected(after, found) == []
    assert [file.id for file in selected(after, pin(after, Request()))] == ["d"]
