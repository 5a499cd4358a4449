"""What is tried out of machine and storage, and how each of them fails."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import AccessDeniedError, NoSuchBucketError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from singerlake.upkeep import doctor
from singerlake.upkeep.doctor import DoctorCheck
from tests.fakes import FakeClock
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage, Step

SUBJECTS = ["software", "libraries", "machine", "lake", "store", "write", "clock", "delete", "conditions"]


def lake_on(**given: Any) -> Lake:
    clock, ids = FakeClock(), iter(f"{number:016d}" for number in range(1000))
    lake = Lake(MemoryStorage(clock=clock, ids=lambda: next(ids), **given), clock, lambda: next(ids))
    build_stream(lake, "t", "s", {"properties": {}}, [{}])
    lake.lake_id()
    return lake


def seen(lake: Lake) -> dict[str, DoctorCheck]:
    result = lake.doctor()
    levels = [each.level for each in result.checks]
    assert result.level == max(levels, key=["ok", "warning", "critical"].index)
    return {each.subject: each for each in result.checks}


def denied(error: Exception, *operations: str) -> Callable[[Step], None]:
    def hook(step: Step) -> None:
        if step.operation in operations and not step.done:
            raise error

    return hook


def test_all_is_well_and_nothing_stays() -> None:
    lake = lake_on()
    before = [entry.key for entry in lake.storage.list("")]
    found = seen(lake)
    assert list(found) == SUBJECTS
    assert {each.level for each in found.values()} == {"ok"}
    assert not any(each.hint for each in found.values())
    assert found["lake"].message == "1 tap; new streams are kept by lockfile"
    assert [entry.key for entry in lake.storage.list("")] == before


def test_a_reader_may_not_write_and_is_told_who_has_to() -> None:
    lake = lake_on()
    lake.storage.hook = denied(AccessDeniedError("not allowed", hint="ask", key="k"), "put")  # type: ignore[attr-defined]
    found = seen(lake)
    assert list(found) == SUBJECTS[:6]
    assert found["write"] == DoctorCheck(
        "write", "warning", "not allowed (key='k')", "readers need not write; captures and upkeep do; ask"
    )


def test_a_writer_may_not_delete() -> None:
    lake = lake_on()
    lake.storage.hook = denied(AccessDeniedError("not allowed"), "delete")  # type: ignore[attr-defined]
    found = seen(lake)
    assert list(found) == SUBJECTS
    assert (found["write"].level, found["delete"].level) == ("ok", "warning")
    assert found["delete"].hint == "only gc, drop, and erase and expire with --now delete"


def test_what_may_not_be_listed_is_critical_and_the_rest_is_tried() -> None:
    lake = lake_on()
    lake.storage.hook = denied(AccessDeniedError("not allowed"), "list_folder")  # type: ignore[attr-defined]
    found = seen(lake)
    assert (found["lake"].level, found["store"].level, found["write"].level) == ("critical", "critical", "ok")


@pytest.mark.parametrize("error", [NoSuchBucketError("no bucket"), StorageUnavailableError("no answer")])
def test_storage_that_is_not_there_is_asked_once(error: Exception) -> None:
    lake = lake_on()
    lake.storage.hook = denied(error, "get")  # type: ignore[attr-defined]
    found = seen(lake)
    assert list(found) == SUBJECTS[:4]
    assert (found["lake"].level, found["lake"].message) == ("critical", str(error))


def test_conditions_that_storage_ignores() -> None:
    found = seen(lake_on(ignore_conditions=True))
    assert found["conditions"].level == "warning"
    assert "no tables" in found["conditions"].message
    assert seen(lake_on(ignore_delete_conditions=True))["conditions"] == DoctorCheck(
        "conditions", "ok", "writes with conditions are honoured, deletes with conditions are not"
    )


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0, "within 1 minute of storage's"),
        (60, "within 1 minute of storage's"),
        (-60, "within 1 minute of storage's"),
        (3601, "1 hour behind storage's"),
        (-3601, "1 hour ahead of storage's"),
    ],
)
def test_clocks_that_are_apart(seconds: int, message: str) -> None:
    lake = lake_on()
    mine = FakeClock()
    mine.seconds = -seconds
    found = seen(Lake(lake.storage, mine, lake.ids))["clock"]
    assert (found.message, found.level) == (message, "ok" if abs(seconds) <= 60 else "warning")


def test_root_metadata_that_is_gone_or_damaged() -> None:
    lake = lake_on()
    for entry in list(lake.storage.list("raw/singerlake")):
        lake.storage.delete(entry.key)
    assert seen(lake)["lake"].level == "warning"
    lake = lake_on()
    lake.storage.put("raw/singerlake.json", b"{")
    found = seen(lake)
    assert (found["lake"].level, found["write"].level) == ("critical", "ok")
    assert "singerlake rebuild" in found["lake"].hint


def test_a_database_without_settings_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_on()
    build_stream(lake, "u", "s", {"properties": {}}, [{}])
    monkeypatch.setattr(LakeStream, "kind", lambda self: "postgres")
    found = [each for each in lake.doctor().checks if each.subject == "store"]
    assert [(each.level, "postgres" in each.message + each.hint) for each in found] == [("warning", True)]


def test_room_and_modules_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tempfile.gettempdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = seen(lake_on())
    assert "1.0 kB free in" in found["machine"].message
    assert {found[name].level for name in ("machine", "software")} == {"warning"}
