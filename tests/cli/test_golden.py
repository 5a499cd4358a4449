"""What every command prints, as text and with ``--json``: each byte of it is what programs and people rely on.

``tests/cli/golden`` has a transcript of each scenario. Lakes are in memory, time stands still and identities are
counted, so that two runs print the same. ``SINGERLAKE_TEST_WRITE_GOLDEN=1`` writes the transcripts anew: read the
difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import zlib
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import msgspec
import pytest

from singerlake import adapters
from singerlake.cli.main import main
from singerlake.clock import SystemClock
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.lock_file import LockBody
from tests.atomic.lakes import commit_together, numbers
from tests.cli.conftest import Run
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream, record_line
from tests.storage.memory import MemoryStorage
from tests.upkeep.shelf import OTHER, SCHEMA

GOLDEN = Path(__file__).parent / "golden"
DAY = 24 * 3600
PEOPLE = {"properties": {"id": {"type": "integer"}, "email": {"type": "string"}}}


class World:
    """Lakes by name, in memory, and the clock that is theirs and the commands'."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.folder = folder
        self.storages: dict[str, MemoryStorage] = {}

    def storage(self, root: str) -> MemoryStorage:
        if root not in self.storages:
            self.storages[root] = MemoryStorage(clock=self.clock, ids=counting_ids())
            self.storages[root]._url = f"memory://{root}"
        return self.storages[root]

    def open_storage(self, root: str, settings: Any = None) -> Any:
        return OPEN_STORAGE(root, settings) if os.path.isdir(root) else self.storage(os.path.basename(root))

    def pass_days(self, days: float) -> None:
        self.clock.seconds += days * DAY


OPEN_STORAGE = adapters.open_storage
IDENTITY = r"\b(?=\w*\d)[0-9a-w][0-9a-v]{15}\b"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    numbers = count(1)

    def entropy(size: int) -> bytes:
        """Bytes that ``random_id`` makes a growing number of."""
        return f"{next(numbers):0{size}d}".translate({48 + digit: digit for digit in range(10)}).encode()

    # What takes it from adapters is imported first, or it would keep this one.
    for module in ("singerlake.lake", "singerlake.cli.engines", "singerlake.adapters"):
        monkeypatch.setattr(f"{module}.open_storage", made.open_storage)
    monkeypatch.setattr(SystemClock, "now", lambda self: made.clock.now())
    monkeypatch.setattr("singerlake.clock.os", SimpleNamespace(urandom=entropy))
    monkeypatch.setattr("socket.gethostname", lambda: "desk")
    monkeypatch.setattr("getpass.getuser", lambda: "kim")
    # No two libraries, and not even two runs, compress the same text to the same bytes.
    stored = SimpleNamespace(compressobj=lambda level, *more: zlib.compressobj(0, *more), DEFLATED=zlib.DEFLATED)
    monkeypatch.setattr("singerlake.singer_file._FASTEST_ZLIB_LEVEL", 0)
    monkeypatch.setattr("singerlake.singer_file.zlib", stored)
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.delenv("SINGERLAKE_LAKE_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    return made


def warehouse(world: World) -> None:
    """Taps ``shop`` with two streams, one of two versions and one of many files, and ``crm`` with people and photos."""
    lake = Lake.open("warehouse")
    for schema, records in ((SCHEMA, 20), (OTHER, 5)):
        lines = [record_line("flights", {"n": n}, time_extracted="2025-12-30T00:00:00Z") for n in range(records)]
        build_stream(lake, "shop", "flights", schema, lines, file_size=10, member_size=3)
    build_stream(lake, "shop", "events", SCHEMA, [{"n": n} for n in range(22)], file_size=1)
    people = [{"id": n, "email": f"{name}@example.com"} for n, name in enumerate(("kim", "lee", "kim", "ana"))]
    build_stream(lake, "crm", "people", PEOPLE, people, file_size=2, key_properties=("id",))
    for name in ("a.jpg", "b.jpg"):
        path = world.folder / name
        path.write_bytes(name.encode() * 100)
        os.utime(path, (0, 0))


def with_orphans(world: World) -> None:
    """The same, with files that no manifest lists: one that a writer left, and a copy under another name."""
    warehouse(world)
    lake, other = Lake.open("warehouse"), Lake.open("other")
    file = build_stream(other, "shop", "events", SCHEMA, [{"n": n} for n in range(3)]).files[0]
    left = other.storage.get(other.stream("shop", "events").prefix + file.path)
    people = lake.stream("crm", "people")
    copied = people.snapshot().files[0]
    copy = lake.storage.get(people.prefix + copied.path)
    assert left is not None
    assert copy is not None
    lake.storage.put(lake.stream("shop", "events").prefix + file.path, left.body)
    lake.storage.put(people.prefix + copied.path.replace(copied.id, "0" * 16), copy.body)


def till(world: World) -> None:
    """Atomic runs, and a lock."""
    lake = Lake.open("till")
    commit_together(lake, "shop", {"orders": numbers(0, 2), "items": numbers(0, 4)}, run="9q2c1m5d0o8s4k7e")
    commit_together(lake, "shop", {"items": numbers(4, 6)}, run="4b1n7f0s2k9d5h3a")
    body = LockBody(writer_id="w", acquired="2026-01-01T00:00:00Z", refreshed="2026-01-01T00:00:00Z", nonce="n")
    lake.storage.put(f"raw/shop/orders/{layout.LOCK}", msgspec.json.encode(body))


def broken(world: World) -> None:
    """A stream with a manifest that cannot be read, one without, and one whose file is gone."""
    warehouse(world)
    lake = Lake.open("warehouse")
    lake.storage.put(layout.manifest_key("shop", "flights"), b"{")
    lake.storage.delete(layout.manifest_key("crm", "people"))
    events = lake.stream("shop", "events")
    lake.storage.delete(events.prefix + events.snapshot().files[3].path)


def batches(world: World) -> None:
    """Batch files, old and young, in a folder."""
    warehouse(world)
    folder = world.folder / "batches"
    folder.mkdir()
    for number, days in ((1, 30), (2, 20), (3, 1)):
        path = folder / f"singerlake-batch-000000000000000a-{number:06d}-users.jsonl.gz"
        path.write_bytes(b"x" * number)
        moment = world.clock.now().timestamp() - days * DAY
        os.utime(path, (moment, moment))


def project(world: World) -> None:
    """A file of tables: one with a key, one of all messages with a check, and one of a stream that is not there."""
    warehouse(world)
    (world.folder / "projections.yml").write_text(
        "lake_root: warehouse\n"
        "tables:\n"
        "  people: {from: crm.people, keep: latest, format: jsonl}\n"
        "  flights: {from: shop.flights, keep: append, format: jsonl, checks: {n: '< 9'}}\n"
        "  nothing: {from: shop.nothing, keep: append, format: jsonl}\n"
    )


Scenario = tuple[Callable[[World], None], str]
SCENARIOS: Mapping[str, Scenario] = {
    "reading": (
        warehouse,
        """
        ls warehouse
        ls warehouse --tap crm
        ls warehouse --tap none
        versions warehouse
        diff warehouse v1 v2 --tap shop --stream flights
        diff warehouse v2 v1 --tap shop --stream flights
        diff warehouse v1 v2
        status warehouse
        tail warehouse --tap shop --stream events -n 2
        export warehouse --runs 1
        docs build warehouse -o . --beside
        lock ls warehouse
        ls nowhere
        """,
    ),
    "atomic": (
        till,
        """
        ls till
        ls till --commits
        ls till --commits --all
        status till
        lock ls till
        lock break till --tap shop --stream orders --yes
        lock break till raw/shop/orders/lock
        lock ls till
        gc till --delete
        """,
    ),
    "writing": (
        warehouse,
        """
        put warehouse a.jpg b.jpg --tap crm --stream photos
        put warehouse a.jpg --tap crm --stream photos
        ls warehouse --tap crm
        annotate warehouse --tap crm --owner Ada --link wiki=https://example.com
        annotate warehouse --tap shop
        drop warehouse --tap crm --stream photos --delete
        drop warehouse --tap crm --stream photos
        """,
    ),
    "upkeep": (
        with_orphans,
        """
        verify warehouse
        verify warehouse --ignore unlisted
        verify warehouse --sample 50% --seed s --journal verify.journal
        verify warehouse --journal verify.journal --threads 1
        verify warehouse --erased "email = 'kim@example.com'" --tap crm
        vacuum warehouse --dry-run
        vacuum warehouse --yes --threads 1 --most-waiting 4
        vacuum warehouse --yes --threads 1
        gc warehouse
        gc warehouse --orphans
        gc warehouse --delete
        +8
        gc warehouse
        gc warehouse --orphans
        gc warehouse --delete --orphans --keep 1
        +8
        gc warehouse --delete --tap shop
        +8
        gc warehouse --delete
        rebuild warehouse --dry-run
        rebuild warehouse --tap shop --stream events --discard-manifest --dry-run
        rebuild warehouse --yes --tap shop --discard-manifest
        rebuild warehouse --yes --adopt --journal rebuild.journal
        rebuild warehouse --yes --journal rebuild.journal --threads 1
        status warehouse --runs 2
        """,
    ),
    "broken": (
        broken,
        """
        ls warehouse
        versions warehouse
        status warehouse
        export warehouse
        store ls warehouse
        store trim warehouse
        verify warehouse
        vacuum warehouse --dry-run
        vacuum warehouse --yes
        gc warehouse
        drop warehouse --tap shop
        drop warehouse --tap shop --run a-test-run
        erase warehouse --tap shop --stream flights --where "n = 1"
        expire warehouse --tap shop --stream flights --before-offset 1
        store migrate warehouse --to log --dry-run
        rebuild warehouse --dry-run
        rebuild warehouse --yes
        verify warehouse
        """,
    ),
    "removing": (
        warehouse,
        """
        policy ls warehouse
        policy set warehouse --tap shop --older-than 400d
        policy set warehouse --tap shop --stream flights --keep-versions 1
        policy ls warehouse
        policy unset warehouse --tap shop
        policy unset warehouse --tap shop
        erase warehouse --tap crm --stream people --where "email = 'kim@example.com'"
        erase warehouse --tap crm --stream people --where "email in ('lee@example.com', 'nobody')" --delete --now
        erase warehouse --tap crm --stream people --where "email = 'kim@example.com'" --delete
        erase warehouse --tap crm --stream people --where "email = 'kim@example.com'"
        erase warehouse --tap crm --stream people --where "phone = 1"
        erase warehouse --where "n = 7" --report report.json
        put warehouse a.jpg b.jpg --tap crm --stream photos
        erase warehouse --tap crm --stream photos --where "name = 'a.jpg'" --delete
        expire warehouse --tap shop --stream events --before-offset 3
        expire warehouse --tap shop --stream events --before-offset 3 --delete
        expire warehouse --tap shop --stream events --before-offset 5 --delete --now
        expire warehouse --tap shop --stream events --older-than 1d
        gc warehouse
        gc warehouse --delete
        drop warehouse --tap shop --run a-test-run
        drop warehouse --tap shop --stream events --run a-test-run --delete
        drop warehouse --tap shop --run nothing
        drop warehouse --tap shop
        drop warehouse --tap shop --stream flights --delete --now
        drop warehouse --tap shop --delete
        +8
        gc warehouse --delete
        status warehouse
        """,
    ),
    "batches": (
        batches,
        """
        gc warehouse --batches batches
        """,
    ),
    "store": (
        warehouse,
        """
        store ls warehouse
        store identify warehouse
        store trim warehouse
        store migrate warehouse --to log --dry-run
        store migrate warehouse --yes --to log
        store migrate warehouse --yes --to log
        store ls warehouse
        store trim warehouse --keep 0
        store trim warehouse --keep 0 --yes
        """,
    ),
    "project": (
        project,
        """
        project plan
        project run
        project ls
        status warehouse
        project run
        project run --full-refresh people
        project run --dry-run
        project verify
        project verify --deep
        project gc
        project gc --delete --grace 0s
        project drop
        project drop people
        drop warehouse --tap crm
        project drop people --delete
        project plan nosuch
        """,
    ),
}


def takes_json(arguments: list[str]) -> bool:
    command: click.Command = main
    for name in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), name) or command
    return any("--json" in parameter.opts for parameter in command.params)


def transcript(world: World, run: Run, lines: str, *, as_json: bool) -> str:
    """Each command with what it prints and its exit code where that is not 0."""
    told = []
    for line in filter(None, map(str.strip, lines.splitlines())):
        if line.startswith("+"):
            world.pass_days(float(line[1:]))
            told.append(f"# {line[1:]} days pass\n")
            continue
        arguments = shlex.split(line)
        if as_json and takes_json(arguments):
            arguments.append("--json")
        result = run(*arguments)
        ended = f"(exits with {result.exit_code})\n" if result.exit_code else ""
        told.append(f"$ singerlake {shlex.join(arguments)}\n{result.output}{ended}")
    return named("\n".join(told), world.folder)


def named(text: str, folder: Path) -> str:
    """The same text with identities numbered in the order in which they come, and without this machine's paths."""
    known: dict[str, str] = {}
    for spelled in (json.dumps(str(folder))[1:-1], str(folder)):
        text = text.replace(spelled, "<folder>")
    text = re.sub(r"<folder>\\+", "<folder>/", re.sub(r"desk-\d+-", "desk-<process>-", text))
    return re.sub(IDENTITY, lambda found: known.setdefault(found[0], f"<id {len(known) + 1}>"), text)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_commands_print_what_they_always_did(world: World, run: Run, scenario: str, as_json: bool) -> None:
    build, lines = SCENARIOS[scenario]
    build(world)
    printed = transcript(world, run, lines, as_json=as_json)
    path = GOLDEN / f"{scenario}{'.json' if as_json else ''}.txt"
    if os.environ.get("SINGERLAKE_TEST_WRITE_GOLDEN"):
        path.write_text(printed)
    assert printed == path.read_text()


def test_every_command_is_in_a_scenario() -> None:
    run = {" ".join(shlex.split(line)[:2]) for _, lines in SCENARIOS.values() for line in lines.splitlines() if line}
    elsewhere = {"commit-worker", "store create", "init"}
    leaves = {path for name in main.list_commands(click.Context(main)) for path in paths(name)}
    assert {path for path in leaves - elsewhere if not any(f"{each} ".startswith(f"{path} ") for each in run)} == set()


def paths(name: str) -> list[str]:
    command = main.get_command(click.Context(main), name)
    return [f"{name} {each}" for each in command.commands] if isinstance(command, click.Group) else [name]
