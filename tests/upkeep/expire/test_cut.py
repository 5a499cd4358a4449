"""Up to where messages expire: by an offset, by age, by versions. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from singerlake.clock import timestamp
from singerlake.errors import SettingError
from singerlake.format.metadata.retention import Retention
from singerlake.format.state.model import Manifest
from singerlake.upkeep.gc.expire import Cut, cut_offset, plan_expiry
from singerlake.upkeep.result import Tally
from tests.format.state.test_expire import expire
from tests.format.state.test_fold import add, born, done, new_file

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
UNKNOWN = "not a time"


def aged(*ages: timedelta | None) -> Manifest:
    """Files of two messages, the last of each captured so long before now; None: nobody knows when."""
    files = []
    for number, age in enumerate(ages):
        moment = UNKNOWN if age is None else timestamp(NOW - age)
        first = UNKNOWN if age is None else timestamp(NOW - age - DAY)
        files.append(msgspec.structs.replace(new_file(f"f{number}", 2), first=first, last=moment))
    return done(born(), add(*files))


def by_age(manifest: Manifest, older_than: str, now: datetime | None = NOW) -> tuple[int, str | None]:
    return cut_offset(manifest, Cut(retention=Retention(older_than=older_than), now=now))


def by_versions(manifest: Manifest, keep: int) -> int:
    return cut_offset(manifest, Cut(retention=Retention(keep_versions=keep), now=NOW))[0]


MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("ages", "before"),
    [
        ([10 * DAY + MOMENT], 2),
        ([10 * DAY], 0),
        ([10 * DAY - MOMENT], 0),
        ([12 * DAY, 11 * DAY, 9 * DAY, DAY], 4),
        ([12 * DAY, 11 * DAY], 4),
        ([], 0),
        ([9 * DAY, 12 * DAY], 0),
        ([12 * DAY, 9 * DAY, 12 * DAY], 2),
        ([12 * DAY, -9 * DAY, 12 * DAY], 2),
        ([-9 * DAY], 0),
    ],
)
def test_a_file_expires_whose_last_message_is_older_up_to_the_first_that_is_not(
    ages: list[timedelta], before: int
) -> None:
    assert by_age(aged(*ages), "10d") == (before, None)


@pytest.mark.parametrize(
    ("ages", "before", "undated"),
    [
        ([None], 0, "x/f0"),
        ([12 * DAY, None, 12 * DAY], 2, "x/f1"),
        ([12 * DAY, DAY, None], 2, None),
        ([DAY, None], 0, None),
        ([12 * DAY, None, None], 2, "x/f1"),
    ],
)
def test_a_file_without_known_times_ends_the_search_and_is_named(
    ages: list[timedelta | None], before: int, undated: str | None
) -> None:
    assert by_age(aged(*ages), "10d") == (before, undated)


def test_the_age_is_counted_from_the_floor_on() -> None:
    manifest = done(aged(12 * DAY, 12 * DAY, DAY), expire(2))
    assert by_age(manifest, "10d") == (4, None)
    assert by_age(manifest, "20d") == (2, None)
    everything = done(manifest, expire(6))
    assert by_age(everything, "0s") == (6, None)


def test_an_age_of_nothing_expires_all_that_is_past() -> None:
    assert by_age(aged(DAY, MOMENT), "0d") == (4, None)
    assert by_age(aged(DAY, timedelta(0)), "0d") == (2, None)


def test_a_hundred_years_is_no_error() -> None:
    assert by_age(aged(12 * DAY), "36500d") == (0, None)


def test_a_text_that_is_no_age_is_told() -> None:
    with pytest.raises(SettingError, match="is not a valid age"):
        by_age(aged(DAY), "soon")


def versions(*schemas: int) -> Manifest:
    """Files of two messages each, under the schemas of these numbers."""
    return done(born(), add(*(new_file(f"f{n}", 2, schema) for n, schema in enumerate(schemas))))


@pytest.mark.parametrize(
    ("schemas", "keep", "before"),
    [
        ([0, 1, 2], 1, 4),
        ([0, 1, 2], 2, 2),
        ([0, 1, 2], 3, 0),
        ([0, 1, 2], 4, 0),
        ([0, 1, 2], 10**9, 0),
        ([0], 1, 0),
        ([], 1, 0),
        # A version is as young as its first message: one that came back is not younger for it.
        ([0, 1, 0], 1, 2),
        ([0, 1, 0, 1], 1, 2),
        ([0, 1, 2, 0], 2, 2),
        ([0, 0, 1, 1, 2, 2], 2, 4),
    ],
)
def test_what_came_before_the_youngest_versions_expires(schemas: list[int], keep: int, before: int) -> None:
    assert by_versions(versions(*schemas), keep) == before


@pytest.mark.parametrize("keep", [0, -1])
def test_no_number_of_versions_that_a_hand_may_write_expires_them_all(keep: int) -> None:
    assert by_versions(versions(0, 1, 2), keep) == 0


def test_a_version_that_a_schema_alone_gave_counts_where_it_stands() -> None:
    manifest = versions(0, 1)
    declared = msgspec.structs.replace(next(iter(manifest.schemas.values())), first_offset=manifest.next_offset)
    later = msgspec.structs.replace(
        manifest, versions={**manifest.versions, "z": "v3"}, schemas={**manifest.schemas, "z": declared}
    )
    assert by_versions(later, 1) == 4
    assert by_versions(later, 2) == 2


def test_of_two_rules_either_is_enough() -> None:
    ages = aged(12 * DAY, 11 * DAY, DAY)
    for schemas, expected in (([0, 1, 1], 4), ([0, 0, 1], 4), ([0, 1, 2], 4)):
        held = versions(*schemas)
        files = [msgspec.structs.replace(file, last=old.last) for file, old in zip(held.files, ages.files, strict=True)]
        manifest = msgspec.structs.replace(held, files=files)
        retention = Retention(older_than="10d", keep_versions=1)
        assert cut_offset(manifest, Cut(retention=retention, now=NOW))[0] == expected
        assert cut_offset(manifest, Cut(retention=Retention(older_than="100d", keep_versions=1), now=NOW))[0] == max(
            each.first_offset for each in manifest.schemas.values()
        )


def test_without_a_rule_nothing_expires() -> None:
    for cut in (Cut(), Cut(retention=Retention()), Cut(now=NOW), Cut(retention=Retention(older_than="1d"))):
        assert cut_offset(aged(12 * DAY), cut) == (0, None)


def test_an_offset_counts_as_it_is_up_to_the_end() -> None:
    manifest = aged(DAY, DAY)
    for before in range(5):
        assert cut_offset(manifest, Cut(before=before)) == (before, None)
    with pytest.raises(SettingError, match="offset 5 is beyond the stream's end, 4"):
        cut_offset(manifest, Cut(before=5))


@pytest.mark.parametrize(
    ("before", "files", "floor"), [(0, 0, 0), (1, 0, 0), (2, 1, 2), (3, 1, 2), (4, 2, 4), (6, 3, 6)]
)
def test_the_plan_says_what_the_fold_does(before: int, files: int, floor: int) -> None:
    manifest = aged(DAY, DAY, DAY)
    plan = plan_expiry(manifest, before, None, "p/")
    assert (plan.files, plan.records, plan.floor) == (Tally(files, 20 * files), 2 * files, floor)
    assert plan.ids == tuple(f"f{n}" for n in range(files))
    assert plan.keys == tuple(f"p/x/f{n}" for n in range(files))
    assert done(manifest, expire(before)).floor == floor
