"""What every command prints, as text and with ``--json``: each byte of it is what programs and people rely on.

A transcript in ``tests/cli/golden`` is its own script: its first line names the lakes that it begins with, a line
``$ singerlake ...`` a command, and a line ``# ...`` what happens between two commands. Where there is one of the same
name with ``.json``, each command has that option there. Lakes are in memory, time stands still and identities are
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
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import msgspec
import pytest

from singerlake import adapters
from singerlake.cli import lakes
from singerlake.cli.main import main
from singerlake.clock import SystemClock, timestamp
from singerlake.format import layout
from singerlake.format.state.transactions import Close, Transaction
from singerlake.lake import Lake
from singerlake.lock_file import LockBody
from singerlake.stores.port import Loaded
from tests.atomic.lakes import commit_together, decide_against, numbers
from tests.attached.lakes import attach
from tests.cli.conftest import Run
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream, record_line
from tests.storage.memory import MemoryStorage
from tests.upkeep.shelf import OTHER, SCHEMA

GOLDEN = Path(__file__).parent / "golden"
SCENARIOS = sorted(path.stem for path in GOLDEN.glob("*.txt") if not path.name.endswith(".json.txt"))
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

    def contents(self) -> dict[tuple[str, str], str]:
        """Every object of every lake, with what tells one body from another."""
        return {(root, entry.key): entry.etag for root, storage in self.storages.items() for entry in storage.list("")}


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
    real = lakes.is_lake
    monkeypatch.setattr(lakes, "is_lake", lambda word: word in made.storages or real(word))
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
    (world.folder / "keys.txt").write_text("kim@example.com\nnobody@example.com\nno-one@example.com\n")
    (world.folder / "latin1.txt").write_bytes("größe".encode("latin-1"))


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


def two_tills(world: World) -> None:
    """Two atomic runs of a tap with one between them that was decided against, and a tap without any."""
    lake = Lake.open("till")
    commit_together(lake, "shop", {"orders": numbers(0, 2), "items": numbers(0, 1000)}, run="r1")
    decide_against(lake, "shop", run="r2")
    commit_together(lake, "shop", {"items": numbers(1000, 1003)}, run="r3")
    build_stream(lake, "t", "flights", SCHEMA, [{"n": n} for n in range(5)], store="log")


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
    (folder / "others.jsonl.gz").write_bytes(b"mine")
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
    # No two versions of Arrow write Parquet files of the same size.
    (world.folder / "others.yml").write_text(
        "lake_root: warehouse\ntables: {events: {from: shop.events, keep: append, format: jsonl}}\n"
    )
    (world.folder / "changed.yml").write_text(
        "lake_root: warehouse\n"
        "tables:\n"
        "  people: {from: crm.people, columns: {email: {cast: date}}, metadata: true}\n"
        "  events: {from: shop.events, key: [n]}\n"
        "  flights: {from: shop.flights, keep: append, checks: {n: '< 9'}}\n"
        "  over: {sql: SELECT 1 AS x}\n"
    )


def photos(world: World) -> None:
    """Five records, two a file. The first and the third share a photo, the last one's cannot be read."""
    files = [[b"ann"], [b"bob", b"bill"], [b"ann"], [], [None]]
    attach(Lake.open("lake"), "crm", "people", files, file_size=2)


def captures(world: World) -> None:
    """Two captures of one source: the second one has another type, and other streams."""
    lake = Lake.open("lake")
    integer = {"properties": {"id": {"type": "integer"}, "price": {"type": "integer"}}}
    number = {"properties": {"id": {"type": "integer"}, "price": {"type": "number"}, "note": {"type": "string"}}}
    items = [{"id": n, "price": 10 * n} for n in range(6)]
    build_stream(lake, "old", "items", integer, items, key_properties=("id",))
    changed = [{"id": 1, "price": 9.5}, {"id": 2, "price": 20.0, "note": "n"}, *items[3:], {"id": 9, "price": 1}]
    build_stream(lake, "new", "items", number, [*changed, {"price": 2}], key_properties=("id",))
    for tap in ("old", "new"):
        build_stream(lake, tap, "same", SCHEMA, [{"n": n} for n in range(3)], key_properties=("n",))
        build_stream(lake, tap, "log", SCHEMA, [{"n": 1}])
        build_stream(lake, tap, f"only-{tap}", SCHEMA, [{"n": 1}], key_properties=("n",))


ODD_NAMES = (
    *("\x1b[31mred\x1b[0m", "[bold]loud[/bold]", "line\nbreak", "\u202ejpg", "nul\0", ".."),
    *("-rf *", "catalogue.json", "\udc80", "\u00dcber/..%2F: 'q\""),
)


def odd_names(world: World) -> None:
    """Streams and taps of names that a terminal, a file system or a program may take for something else."""
    lake = Lake.open("lake")
    for name in ODD_NAMES:
        lines = [record_line(name, {"n": n}, time_extracted=f"202{n}-01-01T00:00:00Z") for n in range(2)]
        build_stream(lake, "t", name, {"properties": {"n": {"type": "integer"}, name: {}}}, lines, file_size=1)
    build_stream(lake, ODD_NAMES[0], "s", SCHEMA, [{"n": 1}])
    (world.folder / "projections.yml").write_text(
        "lake_root: lake\ntables: {'*': {from: 't.*', keep: append, format: jsonl}}\n"
    )


def aged(world: World) -> None:
    """Streams of files of two messages, each captured so many days ago, and policies that people may have written."""
    lake = Lake.open("lake")
    for stream in ("a", "b", "c", "d"):
        for number, age in enumerate((500, 450, 10)):
            moment = timestamp(world.clock.now() - timedelta(days=age))
            lines = [record_line(stream, {"n": 2 * number + n}, time_extracted=moment) for n in range(2)]
            build_stream(lake, "t", stream, SCHEMA, lines)
    build_stream(lake, "u", "s", SCHEMA, [{"n": 1}])


Act = Callable[..., object]


def key_of(lake: Lake, name: str) -> str:
    """``tap/stream[2]`` is the third data file of the stream, ``raw/x/*`` the first key below. All else is a key."""
    if name.endswith("*"):
        return next(iter(lake.storage.list(name[:-1]))).key
    listed = re.fullmatch(r"(\w+)/(\w+)\[(\d+)\]", name)
    if listed is None:
        return name
    stream = lake.stream(listed[1], listed[2])
    return stream.prefix + stream.snapshot().files[int(listed[3])].path


def body_of(lake: Lake, name: str) -> bytes:
    stored = lake.storage.get(key_of(lake, name))
    assert stored is not None, name
    return stored.body


def edit(lake: Lake, key: str, path: str, value: str) -> None:
    """Another value at a path of a JSON document, ``files/0/bytes``."""
    document = found = json.loads(body_of(lake, key))
    *way, last = (int(name) if name.isdigit() else name for name in path.split("/"))
    for name in way:
        found = found[name]
    found[last] = json.loads(value)
    lake.storage.put(key, json.dumps(document).encode())


def close(lake: Lake, tap: str, stream: str, successor: str) -> None:
    """The first half of a migration."""
    store = lake.stream(tap, stream).store()
    base = store.load()
    assert base is not None
    outcome = store.commit(base, Transaction(id="close", at="2026", change=Close(successor=successor)))
    assert isinstance(outcome, Loaded)


def flip(lake: Lake, name: str, place: str) -> None:
    """Another bit in one byte."""
    body = bytearray(body_of(lake, name))
    body[int(place)] ^= 1
    lake.storage.put(key_of(lake, name), bytes(body))


def lose(lake: Lake) -> None:
    """All that is not a data file is gone."""
    for entry in list(lake.storage.list("")):
        if not entry.key.endswith(layout.SUFFIX):
            lake.storage.delete(entry.key)


ACTS: Mapping[str, Act] = {
    "delete": lambda lake, name: lake.storage.delete(key_of(lake, name)),
    "put": lambda lake, name, text: lake.storage.put(key_of(lake, name), text.encode()),
    "copy": lambda lake, name, other: lake.storage.put(key_of(lake, other), body_of(lake, name)),
    "cut": lambda lake, name, end: lake.storage.put(key_of(lake, name), body_of(lake, name)[: int(end)]),
    "flip": flip,
    "edit": edit,
    "close": close,
    "lose": lose,
    "add": lambda lake, tap, stream, *ns: build_stream(lake, tap, stream, SCHEMA, [{"n": int(n)} for n in ns]),
    "attach": lambda lake, count: attach(lake, "crm", "people", [[b"%d" % n for n in range(int(count))], []]),
}
"""What may happen to a lake between two commands, by the first word of the line."""


def happen(world: World, line: str) -> None:
    if days := re.fullmatch(r"(\d+) days pass", line):
        world.clock.seconds += int(days[1]) * DAY
    else:
        act, *words = shlex.split(line)
        ACTS[act](Lake.open(next(iter(world.storages))), *map(spelled, words))


LOOKING = {"compare", "ls", "versions", "diff", "status", "tail", "why", "export", "verify", "plan"}
DELETING = {"drop", "erase", "expire", "gc", "trim"}
"""Commands that change nothing, and such as only do so where that is asked for."""


def only_looks(arguments: list[str]) -> bool:
    here = {*arguments[:2]}
    asked = {"--delete", "--yes", "--adopt"} & {*arguments}
    return bool(here & LOOKING) or bool(here & DELETING and not asked) or "--dry-run" in arguments


def takes_json(arguments: list[str]) -> bool:
    command: click.Command = main
    for name in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), name) or command
    return any("--json" in parameter.opts for parameter in command.params)


def script(scenario: str) -> list[str]:
    """The commands of a transcript, and what happens between them."""
    lines = (GOLDEN / f"{scenario}.txt").read_text().splitlines()
    return [line for line in lines if line.startswith(("$ singerlake ", "# "))]


def transcript(world: World, run: Run, lines: list[str], *, as_json: bool) -> str:
    """Each command with what it prints and its exit code where that is not 0."""
    first, *rest = lines
    globals()[first.removeprefix("# ")](world)
    told = [f"{first}\n"]
    for line in rest:
        if line.startswith("# "):
            happen(world, line.removeprefix("# "))
            told.append(f"{line}\n")
            continue
        arguments = shlex.split(line.removeprefix("$ singerlake "))
        if as_json and takes_json(arguments):
            arguments.append("--json")
        before = world.contents()
        result = run(*(spelled(argument) for argument in arguments))
        # How click shows what may be given differs between its versions.
        output = re.sub(r"^Usage: .*\nTry .*\n\n| Choose from:\n(\t.*\n)+", "", result.output, flags=re.MULTILINE)
        assert output.replace("\n", "").isprintable()
        if only_looks(arguments) or (result.exit_code == 2 and arguments[:2] != ["project", "run"]):
            assert world.contents() == before, line
        ended = f"(exits with {result.exit_code})\n" if result.exit_code else ""
        told.append(f"$ singerlake {shlex.join(arguments)}\n{output}{ended}")
    return named("\n".join(told), world.folder)


def spelled(argument: str) -> str:
    r"""An argument with the control characters that a transcript writes as ``\x1b``, and ``{x*3}`` as it is meant."""
    argument = re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), argument)
    return re.sub(r"\{(.)\*(\d+)\}", lambda found: found[1] * int(found[2]), argument)


def named(text: str, folder: Path) -> str:
    """The same text with identities numbered in the order in which they come, and without this machine's paths."""
    known: dict[str, str] = {}
    for spelling in (json.dumps(str(folder))[1:-1], str(folder)):
        text = text.replace(spelling, "<folder>")
    text = re.sub(r"<folder>\\+", "<folder>/", re.sub(r"desk-\d+-", "desk-<process>-", text))
    return re.sub(IDENTITY, lambda found: known.setdefault(found[0], f"<id {len(known) + 1}>"), text)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_commands_print_what_they_always_did(world: World, run: Run, name: str) -> None:
    path = GOLDEN / name
    printed = transcript(world, run, script(path.name.partition(".")[0]), as_json=name.endswith(".json.txt"))
    if os.environ.get("SINGERLAKE_TEST_WRITE_GOLDEN"):
        path.write_text(printed)
    assert printed == path.read_text()


def test_every_command_is_in_a_scenario() -> None:
    run = {" ".join(shlex.split(line)[2:4]) for scenario in SCENARIOS for line in script(scenario) if line[0] == "$"}
    elsewhere = {"commit-worker", "doctor", "release", "store create", "init"}
    leaves = {path for name in main.list_commands(click.Context(main)) for path in paths(name)}
    assert {path for path in leaves - elsewhere if not any(f"{each} ".startswith(f"{path} ") for each in run)} == set()


def paths(name: str) -> list[str]:
    command = main.get_command(click.Context(main), name)
    return [f"{name} {each}" for each in command.commands] if isinstance(command, click.Group) else [name]
