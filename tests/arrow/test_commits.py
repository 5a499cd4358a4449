"""``to_arrow`` as of a commit, and behind one."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.arrow.plan.request import Request
from singerlake.errors import ExpiredMessagesError, LineageChangedError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.upkeep.drop import drop_stream
from tests.arrow.test_expired import expire
from tests.atomic.lakes import SCHEMA, commit_together, decide_against, decide_on, numbers
from tests.everywhere.erasing import context_of, vacuum
from tests.lakes import FilesOf, build_stream
from tests.tables.tables import memory_lake

TAP = "t"


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def runs(lake: Lake) -> list[str]:
    """The commits of three runs: ids 0 to 5, 6 to 8 and 9 to 19 of stream ``s``, the first one without ``late``."""
    files = FilesOf(SCHEMA, member_size=4)
    return [
        commit_together(lake, TAP, {"s": numbers(0, 6)}, files=files),
        commit_together(lake, TAP, {"s": numbers(6, 9), "late": numbers(0, 2)}, files=files),
        commit_together(lake, TAP, {"s": numbers(9, 20)}, files=files),
    ]


def read(lake: Lake, stream: str = "s", **options: Any) -> list[int]:
    return lake.stream(TAP, stream).to_arrow(**options).read_all()["id"].to_pylist()


@pytest.mark.parametrize("vacuumed", [False, True], ids=["as written", "vacuumed"])
def test_as_of_each_commit_and_behind_it(lake: Lake, runs: list[str], vacuumed: bool) -> None:
    if vacuumed:
        vacuum(lake, TAP, "s")
        assert [file.offset for file in lake.stream(TAP, "s").snapshot().files] == [0]
    for commit, end in zip(runs, (6, 9, 20), strict=True):
        assert read(lake, as_of=commit) == list(range(end))
        assert read(lake, from_commit=commit) == list(range(end, 20))
        assert read(lake, from_commit=runs[0], as_of=commit) == list(range(6, end))


def test_a_stream_that_came_later_has_columns_and_no_rows(lake: Lake, runs: list[str]) -> None:
    found = lake.stream(TAP, "late").to_arrow(as_of=runs[0]).read_all()
    assert (found.column_names[0], found.num_rows) == ("id", 0)
    assert read(lake, "late", from_commit=runs[0]) == [0, 1]


def test_offsets_and_versions_go_with_it(lake: Lake, runs: list[str]) -> None:
    build_stream(lake, TAP, "s", {"type": "object", "properties": {"id": {"type": "number"}}}, numbers(20, 22))
    newest = decide_on(lake, TAP, {"s": (20, 21)})
    assert read(lake, as_of=runs[1], from_offset=4) == [4, 5, 6, 7, 8]
    assert read(lake, from_commit=runs[1], to_offset=11) == [9, 10]
    assert read(lake, as_of=newest, from_version="v2") == [20.0]
    assert read(lake, from_commit=runs[1], versions=["v2"]) == [20.0, 21.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"as_of": "c", "to_offset": 1}, "options 'as_of' and 'to_offset' exclude each other"),
        ({"from_commit": "c", "from_offset": 1}, "options 'from_offset' and 'from_commit' exclude each other"),
        ({"from_commit": "c", "from_version": "v1"}, "options 'from_version' and 'from_commit' exclude each other"),
        ({"from_commit": "c", "as_of": "b"}, r"'from_commit' \(c\) is later than 'as_of' \(b\)"),
        ({"as_of": " "}, "option 'as_of' names nothing"),
        ({"from_commit": 7}, "option 'from_commit' names nothing"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_read(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Request(**options)


def test_offsets_on_the_wrong_side_of_a_commit_are_refused(lake: Lake, runs: list[str]) -> None:
    with pytest.raises(SettingError, match=r"'from_offset' is 7, and as of commit .* the stream ends at 6"):
        read(lake, as_of=runs[0], from_offset=7)
    with pytest.raises(SettingError, match=r"'to_offset' is 5, and behind commit .* the stream begins at 6"):
        read(lake, from_commit=runs[0], to_offset=5)
    assert read(lake, as_of=runs[0], from_offset=6) == read(lake, from_commit=runs[0], to_offset=6) == []


@pytest.mark.parametrize("option", ["as_of", "from_commit"])
def test_commits_that_cannot_be_read(lake: Lake, runs: list[str], option: str) -> None:
    against = decide_against(lake, TAP)
    with pytest.raises(UnknownNameError, match="was decided against"):
        read(lake, **{option: against})
    with pytest.raises(UnknownNameError, match=r"no commit 'x'.*ls --commits"):
        read(lake, **{option: "x"})
    drop_stream(context_of(lake, TAP, "late"), dry_run=False)
    build_stream(lake, TAP, "late", SCHEMA, numbers(0, 1))
    with pytest.raises(LineageChangedError, match="'late' was dropped and captured anew after commit"):
        read(lake, "late", **{option: runs[1]})


@pytest.mark.parametrize(("option", "left"), [("as_of", []), ("from_commit", list(range(9, 20)))])
def test_what_expired_is_an_error_unless_it_is_skipped(
    lake: Lake, runs: list[str], option: str, left: list[int]
) -> None:
    expire(lake, 9)
    with pytest.raises(ExpiredMessagesError, match="set skip_expired"):
        read(lake, **{option: runs[0]})
    assert read(lake, skip_expired=True, **{option: runs[0]}) == left
