"""A table whose state is broken, of another version, or gone: what each command says, and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def shop(root: Path) -> Lake:
    """Tap ``t`` with ``users``, which has a key, and ``events``, which has none."""
    lake = Lake.open(str(root))
    build_stream(lake, "t", "users", SCHEMA, [{"id": n % 4} for n in range(10)], key_properties=("id",))
    build_stream(lake, "t", "events", SCHEMA, [{"id": n} for n in range(5)])
    return lake


def people(lake: Lake) -> int:
    """How many rows of ``users`` can be read."""
    return int(lake.table("users").to_arrow().read_all().num_rows)


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'{"format": 1}'], ids=repr)
def test_a_broken_state_is_mended_by_a_full_refresh_or_a_drop(run: Run, shop: Lake, root: Path, body: bytes) -> None:
    run("project", "run", root, "--all")
    state = root / "published/users/_table.json"
    state.write_bytes(body)
    failed = run("project", "run", root, "users", "--all")
    assert (failed.exit_code, "--full-refresh" in failed.stdout) == (1, True), failed.output
    assert run("project", "gc", root, "users", "--delete", "--grace", "0s").exit_code == 1
    verified = run("project", "verify", root)
    assert (verified.exit_code, "sound" in verified.output) == (1, False)
    assert "1 table not checked: 1 table, 1 file, 5 rows" in verified.output
    plan = run("project", "plan", root, "users", "--all", "--full-refresh")
    assert plan.stdout.startswith("users: made anew, since its state cannot be read: 10 messages"), plan.output
    dropped = run("project", "drop", root, "users")
    assert dropped.stdout.startswith("users: would be dropped: its state cannot be read, 1 file ("), dropped.output
    assert state.read_bytes() == body
    assert run("project", "run", root, "users", "--all", "--full-refresh").exit_code == 0
    assert people(shop) == 4
    state.write_bytes(body)
    assert run("project", "drop", root, "users", "--delete").exit_code == 0
    assert shop.tables() == ["events"]


def test_a_state_of_a_newer_format_is_left_to_who_knows_it(run: Run, shop: Lake, root: Path) -> None:
    run("project", "run", root, "--all")
    state = root / "published/users/_table.json"
    state.write_bytes(b'{"format": 2}')
    for words in (("run", "--full-refresh"), ("drop", "--delete")):
        result = run("project", words[0], root, "users", "--all", *words[1:])
        assert (result.exit_code, "upgrade singerlake" in result.stdout) == (1, True), result.output
    assert state.read_bytes() == b'{"format": 2}'


def test_a_lost_state_is_made_again_from_raw_and_the_old_files_go(run: Run, shop: Lake, root: Path) -> None:
    run("project", "run", root, "--all")
    folder = root / "published/users"
    (folder / "_table.json").unlink()
    (old,) = folder.rglob("*.parquet")
    assert run("project", "ls", root, "users", "--all").exit_code == 0
    dropped = run("project", "drop", root, "users", "--delete")
    assert (dropped.exit_code, "'singerlake project run' makes it again" in dropped.stdout) == (2, True)
    made = run("project", "run", root, "users", "--all")
    assert made.stdout.startswith("users: 10 records read: 4 new; 4 rows in 1 file"), made.output
    assert old.exists()
    assert "waiting: 1 file" in run("project", "gc", root, "users", "--all", "--delete").stdout
    assert run("project", "gc", root, "users", "--all", "--delete", "--grace", "0s").exit_code == 0
    assert not old.exists()
    assert people(shop) == 4


def test_a_second_tap_with_a_stream_of_the_same_name_freezes_no_table(run: Run, shop: Lake, root: Path) -> None:
    run("project", "run", root, "--all")
    build_stream(shop, "u", "users", SCHEMA, [{"id": 1}], key_properties=("id",))
    build_stream(shop, "t", "users", SCHEMA, [{"id": 9}], key_properties=("id",))
    told = run("project", "run", root, "--all").stdout.splitlines()
    assert [line.partition(";")[0] for line in told] == [
        "events: nothing new",
        "users: 1 record read: 1 new",
        "u.users: 1 record read: 1 new",
    ]
    assert people(shop) == 5
    assert " *" not in run("project", "ls", root, "--all").stdout
