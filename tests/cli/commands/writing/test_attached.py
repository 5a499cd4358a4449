"""What ``erase``, ``expire``, ``drop``, ``gc`` and ``verify`` say of attached files, to people and to programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from singerlake.format import layout
from singerlake.lake import Lake
from tests.attached.lakes import attach, sha256
from tests.cli.conftest import Run

CRM = "--tap", "crm", "--stream", "people"
NONE = {"files": 0, "bytes": 0}
PREFIX = layout.stream_prefix("crm", "people")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Five records, two a file: ids 0 to 4. The first and the third share a photo, the last one's cannot be read."""
    lake = Lake.open(str(tmp_path / "lake"))
    add(lake, [[b"ann"], [b"bob", b"bill"], [b"ann"], [], [None]])
    return lake


@pytest.fixture
def root(lake: Lake, tmp_path: Path) -> Path:
    return tmp_path / "lake"


def add(lake: Lake, photos: list[list[bytes | None]], first_id: int = 0) -> None:
    attach(lake, "crm", "people", photos, first_id=first_id, file_size=2)


def key(photo: bytes, copy: int = 1) -> str:
    return PREFIX + layout.attached_path(sha256(photo), copy)


def stored(root: Path) -> list[bytes]:
    """The photos that are on storage."""
    return sorted(path.read_bytes() for path in (root / PREFIX / layout.ATTACHED).rglob("*") if path.is_file())


def said(result: Result, code: int = 0) -> list[str]:
    assert (result.exit_code, result.stderr) == (code, "")
    return result.stdout.splitlines()


def told(result: Result, code: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads("\n".join(said(result, code)))
    return document


def of_records(*ids: int) -> tuple[str, ...]:
    return (*CRM, "--where", f"id in ({', '.join(map(str, ids))})")


# erase


def test_erase_says_how_many_go_and_names_those_that_stay(run: Run, root: Path) -> None:
    lines = said(run("erase", root, *of_records(0, 1)))
    assert lines[0] == "crm/people: 2 records would be erased in 1 of 3 files, with 2 attached files (7 B)"
    assert len(lines) == 2
    lines = said(run("erase", root, *of_records(0, 1), "--delete"))
    assert lines == [
        "crm/people: 2 records erased in 1 of 3 files, with 2 attached files (7 B)",
        "  2 records are still in 1 file until 'singerlake gc --delete' has run twice, a grace time apart",
        "  2 attached files that no record has are still stored, until 'singerlake gc --delete' has run twice, a grace "
        "time apart",
        *sorted(f"    {key(name)}" for name in (b"bob", b"bill")),
    ]
    lines = said(run("erase", root, *of_records(2), "--delete"))
    assert lines[0] == "crm/people: 1 record erased in 1 of 3 files, with 1 attached file (3 B)"
    assert "  3 attached files that no record has are still stored" in lines[2]
    assert stored(root) == [b"ann", b"bill", b"bob"]


def test_a_shared_photo_goes_with_no_record_but_the_last(run: Run, root: Path) -> None:
    assert said(run("erase", root, *of_records(0)))[0] == "crm/people: 1 record would be erased in 1 of 3 files"
    assert said(run("erase", root, *of_records(0), "--delete"))[1:] == [
        "  1 record is still in 1 file until 'singerlake gc --delete' has run twice, a grace time apart"
    ]


def test_erase_at_once_leaves_nothing_of_what_it_erased(run: Run, root: Path) -> None:
    lines = said(run("erase", root, *of_records(0, 1), "--delete", "--now"))
    assert lines[0] == "crm/people: 2 records erased in 1 of 3 files, with 2 attached files (7 B)"
    assert lines[1].startswith("  deleted: 1 file (")
    assert lines[1].endswith(" and 2 attached files (7 B)")
    assert len(lines) == 2
    assert stored(root) == [b"ann"]
    assert said(run("verify", root, "--erased", "id in (0, 1)"))[-1].startswith("sound: ")


def test_erase_at_once_leaves_and_names_what_is_no_part_of_it(run: Run, lake: Lake, root: Path) -> None:
    run("erase", root, *of_records(1), "--delete")
    lake.storage.put(key(b"stray"), b"stray")
    lines = said(run("erase", root, *of_records(4), "--delete", "--now"))
    assert lines[2:] == [
        "  2 attached files that no record has are still stored, until 'singerlake gc --delete' has run twice, a grace "
        "time apart",
        *sorted(f"    {key(name)}" for name in (b"bob", b"bill")),
        "  1 attached file that no record has is still stored, and nothing lists it: a run at work may; see "
        "'singerlake gc --orphans'",
        f"    {key(b'stray')}",
    ]
    assert stored(root) == [b"ann", b"bill", b"bob", b"stray"]


def test_an_erasure_that_was_stopped_before_it_deleted_goes_on(run: Run, root: Path) -> None:
    run("erase", root, *of_records(1), "--delete")
    lines = said(run("erase", root, *of_records(1), "--delete", "--now"))
    assert lines[0] == "crm/people: 0 records erased in 0 of 3 files"
    assert lines[1].endswith(" and 2 attached files (7 B)")
    assert stored(root) == [b"ann"]


def test_erase_tells_programs_the_same(run: Run, lake: Lake, root: Path) -> None:
    dry = told(run("erase", root, *of_records(0, 1), "--json"))["streams"][0]
    assert (dry["attached"], dry["unowned"], dry["deleted_attached"]) == ({"files": 2, "bytes": 7}, [], NONE)
    done = told(run("erase", root, *of_records(0, 1), "--delete", "--json"))["streams"][0]
    assert done["attached"] == dry["attached"]
    assert sorted(done["unowned"], key=lambda each: each["bytes"]) == [
        {"key": key(b"bob"), "bytes": 3, "retired": True},
        {"key": key(b"bill"), "bytes": 4, "retired": True},
    ]
    lake.storage.put(key(b"stray"), b"stray")
    now = told(run("erase", root, *of_records(0, 1), "--delete", "--now", "--json"))["streams"][0]
    assert (now["attached"], now["deleted"]["files"], now["deleted_attached"]) == (NONE, 3, {"files": 2, "bytes": 7})
    assert now["unowned"] == [{"key": key(b"stray"), "bytes": 5, "retired": False}]


def test_many_are_named_only_to_programs(run: Run, lake: Lake, root: Path) -> None:
    add(lake, [[b"%d" % number for number in range(30)], []], first_id=10)
    lines = said(run("erase", root, *of_records(10), "--delete"))
    assert len(lines) == 3 + 20 + 1
    assert lines[-1] == "    and 10 more, which --json names"
    assert len(told(run("erase", root, *of_records(99), "--json"))["streams"][0]["unowned"]) == 30


def test_what_a_killed_writer_left_half_is_named(run: Run, root: Path) -> None:
    """Of a local disk: nobody knows whose it was."""
    folder = root / PREFIX / "_files" / "ab"
    folder.mkdir()
    (folder / ".tmp-0123456789abcdef").write_bytes(b"half a photo")
    lines = said(run("erase", root, *of_records(99)))
    assert lines[-1] == f"    {PREFIX}_files/ab/.tmp-0123456789abcdef"
    found = said(run("verify", root, "--erased", "id = 99"), 1)
    assert "it is not whole: delete it by hand when no writer is at work" in found[0]


def test_drop_of_a_run_takes_its_photos_along(run: Run, lake: Lake, root: Path) -> None:
    words = "drop", root, "--tap", "crm", "--run", "a-test-run"
    assert said(run(*words))[0] == (
        "crm/people: 5 messages would be dropped in 3 of 3 files, with 3 attached files (10 B)"
    )
    done = told(run(*words, "--delete", "--now", "--json"))
    (stream,) = done["streams"]
    assert (stream["attached"], stream["deleted_attached"]) == ({"files": 3, "bytes": 10}, {"files": 3, "bytes": 10})
    assert stored(root) == []


# verify --erased


def test_verify_names_each_photo_that_no_record_has(run: Run, lake: Lake, root: Path) -> None:
    assert said(run("verify", root, "--erased", "id = 99"))[-1].startswith("sound: ")
    run("erase", root, *of_records(1), "--delete")
    lake.storage.put(key(b"stray"), b"stray")
    lines = said(run("verify", root, "--erased", "id = 99"), 1)
    why = "is attached to no record, so nobody can tell whose it was"
    assert {line for line in lines if line.startswith("erased: ")} == {
        *(
            f"erased: {key(name)}: {why}; 'singerlake gc --delete' deletes it after a grace time"
            for name in (b"bob", b"bill")
        ),
        f"erased: {key(b'stray')}: {why}; 'singerlake gc --orphans --delete' does so if no run lists it",
    }
    # Listed photos are nobody's traces, however little they look like data files.
    assert not any(key(b"ann") in line for line in lines)


def test_verify_without_a_state_names_all(run: Run, lake: Lake, root: Path) -> None:
    os.unlink(root / PREFIX / "manifest.json")
    lines = said(run("verify", root, "--erased", "id = 99", "--ignore", "manifest"), 1)
    assert sum(line.startswith("erased: ") and "/_files/" in line for line in lines) == 3


# verify


def test_verify_counts_them(run: Run, root: Path) -> None:
    assert said(run("verify", root))[-1].endswith(" kB, 3 attached files (10 B) checked")
    done = told(run("verify", root, "--json"))
    assert (done["files"], done["attached"]) == (3, {"files": 3, "bytes": 10})
    assert said(run("verify", root, "--sample", "1", "--seed", "x"))[0].endswith("3 attached files (10 B) checked")


def test_verify_finds_what_is_wrong_with_them(run: Run, lake: Lake, root: Path) -> None:
    lake.storage.put(key(b"ann"), b"eve")
    os.unlink(root / key(b"bob"))
    lake.storage.put(key(b"stray"), b"stray")
    assert said(run("verify", root), 1)[:3] == [
        f"differs: {key(b'ann')}: its bytes are not those that were attached; restore it from a backup",
        f"missing: {key(b'bob')}: is attached to a record but missing; restore it from a backup",
        f"unlisted: {key(b'stray')}: 5 bytes that no manifest lists: an interrupted run's, or copied",
    ]
    kinds = [finding["kind"] for finding in told(run("verify", root, "--json"), 1)["findings"]]
    assert kinds == ["differs", "missing", "unlisted"]


# expire


def test_expire_says_how_many_go(run: Run, root: Path) -> None:
    words = "expire", root, *CRM, "--before-offset", 2
    lines = said(run(*words))
    assert " and 2 attached files (7 B) would expire, 2 records; the stream would begin at offset 2" in lines[0]
    assert {line.strip() for line in lines[1:]} > {key(b"bob"), key(b"bill")}
    dry = told(run(*words, "--json"))
    assert (dry["expired"]["files"], dry["attached"], len(dry["keys"])) == (1, {"files": 2, "bytes": 7}, 3)
    assert " and 2 attached files (7 B) expired, " in said(run(*words, "--delete"))[0]
    assert stored(root) == [b"ann", b"bill", b"bob"]


def test_expire_at_once_deletes_them(run: Run, root: Path) -> None:
    words = "expire", root, *CRM, "--before-offset", 4, "--delete", "--now"
    done = told(run(*words, "--json"))
    assert (done["attached"], done["deleted"]["files"]) == ({"files": 3, "bytes": 10}, 5)
    assert done["deleted_attached"] == {"files": 3, "bytes": 10}
    assert stored(root) == []
    assert said(run(*words))[1] == "  deleted: 0 files (0 B)"


def test_gc_tells_those_that_a_policy_expires(run: Run, root: Path) -> None:
    assert run("policy", "set", root, "--tap", "crm", "--older-than", "0s").exit_code == 0
    lines = said(run("gc", root, "--delete"))
    assert " and 3 attached files (10 B) expired, 5 records" in lines[0]
    assert lines[1].startswith("  waiting: 3 files (")
    assert " and 3 attached files (10 B), " in lines[1]


# drop


def test_drop_says_how_many_go(run: Run, root: Path) -> None:
    lines = said(run("drop", root, *CRM))
    assert lines[0].endswith(", 5 records, 3 attached files (10 B)")
    assert {line.strip() for line in lines} > {key(name) for name in (b"ann", b"bob", b"bill")}
    assert told(run("drop", root, *CRM, "--json"))["streams"][0]["attached"] == {"files": 3, "bytes": 10}
    lines = said(run("drop", root, *CRM, "--delete"))
    assert lines[1] == "  the files stay until 'singerlake gc --delete' has run twice, a grace time apart"
    assert stored(root) == [b"ann", b"bill", b"bob"]


def test_drop_at_once_deletes_them(run: Run, root: Path) -> None:
    lines = said(run("drop", root, *CRM, "--delete", "--now"))
    assert lines[1].startswith("  deleted: 3 files (")
    assert lines[1].endswith(" and 3 attached files (10 B)")
    assert stored(root) == []


# gc


def test_gc_says_how_many_wait_go_and_are_orphans(run: Run, lake: Lake, root: Path) -> None:
    lake.storage.put(key(b"stray"), b"stray")
    run("erase", root, *of_records(1), "--delete")
    add(lake, [[]], first_id=10)
    lines = said(run("gc", root, "--grace", "0s"))
    assert lines[1].startswith("  waiting: 1 file (")
    assert " and 2 attached files (7 B); the grace time of 3 begins with the next --delete" in lines[1]
    assert lines[2] == "  unlisted: 1 attached file (5 B); --orphans retires them"
    lines = said(run("gc", root, "--grace", "0s", "--orphans", "--delete"))
    assert lines[0] == "crm/people: 1 attached file (5 B) retired as orphans"
    dry = told(run("gc", root, "--grace", "0s", "--json"))["streams"][0]
    assert (dry["deleted"]["files"], dry["deleted_attached"]) == (3, {"files": 2, "bytes": 7})
    assert dry["waiting_attached"] == {"files": 1, "bytes": 5}
    lines = said(run("gc", root, "--grace", "0s", "--delete"))
    assert lines[0].startswith("crm/people: 1 file (")
    assert lines[0].endswith(" and 2 attached files (7 B) deleted")
    lines = said(run("gc", root, "--grace", "0s", "--delete"))
    assert lines[0] == "crm/people: 1 attached file (5 B) deleted"
    assert stored(root) == [b"ann"]


def test_gc_tells_programs_the_same(run: Run, lake: Lake, root: Path) -> None:
    lake.storage.put(key(b"stray"), b"stray")
    add(lake, [[]], first_id=10)
    words = "gc", root, "--grace", "0s", "--json"
    dry = told(run(*words))["streams"][0]
    assert (dry["orphans"], dry["orphans_attached"]) == ({"files": 1, "bytes": 5}, {"files": 1, "bytes": 5})
    done = told(run(*words, "--orphans", "--delete"))["streams"][0]
    assert (done["retired"], done["retired_attached"]) == (dry["orphans"], dry["orphans_attached"])
    for name in ("deleted", "waiting", "left", "expired"):
        assert done[f"{name}_attached"] == NONE


def test_a_quiet_command_says_nothing_of_them(run: Run, root: Path) -> None:
    assert said(run("erase", root, *of_records(1), "--delete", "--quiet")) == []
    assert said(run("gc", root, "--delete", "--quiet")) == []
