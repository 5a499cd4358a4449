"""Tables on terminals of several widths, and in a pipe: no value is cut and none is left out. What ``--json`` says is
held against what a person sees, for each command that prints a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.cli.output import SEE_BELOW, table
from singerlake.clock import parse_timestamp
from singerlake.format import layout
from singerlake.humanize import cell_width, minute, second, shown, size
from singerlake.lake import Lake
from singerlake.lock_file import LockBody
from tests.atomic.lakes import commit_together, numbers
from tests.cli.conftest import Run
from tests.cli.terminals import on_a_terminal, shown_by
from tests.lakes import build_stream
from tests.upkeep.shelf import OTHER, SCHEMA

HEADING = r"[A-Z]+( [A-Z]+)*( \(UTC\))?"
PIPE = 0
WIDTHS = [60, 80, 100, PIPE]
HOSTILE = "人々 \x1b[2J\u202e<b>"
LONG = "transactions-of-all-the-shops-of-the-northern-department"
Rows = list[list[str]]


@pytest.fixture(scope="module")
def lake_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long names and hostile ones, a stream that cannot be read, runs, a lock, atomic runs, and tables of them."""
    root = tmp_path_factory.mktemp("widths") / "lake"
    lake = Lake.open(str(root))
    commit_together(lake, "till", {"orders": numbers(0, 2), "items": numbers(0, 4)}, run="9q2c1m5d0o8s4k7e")
    commit_together(lake, "till", {"items": numbers(4, 6)}, run="4b1n7f0s2k9d5h3a")
    for schema in (SCHEMA, OTHER):
        build_stream(lake, "shop", LONG, schema, numbers(0, 3), key_properties=("id",), file_size=1)
    build_stream(lake, "crm", HOSTILE, SCHEMA, [{"n": n} for n in range(1200)])
    build_stream(lake, "crm", "broken", SCHEMA, [{"n": 1}])
    lake.vacuum("shop")
    written = root / "a-file.txt"
    written.write_text("a file")
    lake.stream("crm", "files").put([str(written)])
    lake.project(all=True, tables=("items", "orders"))
    (root / layout.manifest_key("crm", "broken")).write_text("{")
    moment = "2026-01-01T00:00:00Z"
    body = LockBody(writer_id="a-writer-with-a-long-name", acquired=moment, refreshed=moment, nonce="n")
    (root / "raw/till/orders" / layout.LOCK).write_bytes(msgspec.json.encode(body))
    return root


def at(moment: str | None, spelled: Callable[[Any], str]) -> str:
    found = parse_timestamp(moment) if moment else None
    return spelled(found) if found else ""


def number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def of_ls(told: Any) -> Iterator[Sequence[str]]:
    for each in (stream for tap in told["taps"] for stream in tap["streams"]):
        labels = list(each["versions"].values())
        name = (each["tap"], each["stream"])
        if each["trouble"]:
            yield *name, SEE_BELOW
            continue
        yield (
            *name,
            labels[0] if len(labels) == 1 else f"{labels[0]}..{labels[-1]}",
            number(each["files"]),
            number(each["records"]),
            size(each["bytes"]),
            at(each["last_write"], minute),
            *((number(each["attached"]), size(each["attached_bytes"])) if each["attached"] else ()),
        )


def of_commits(told: Any) -> Iterator[Sequence[str]]:
    for tap in told["taps"]:
        for each in tap["commits"]:
            yield (
                tap["tap"],
                each["name"],
                at(each["at"], second),
                each["run"],
                number(len(each["streams"])),
                number(each["messages"]),
            )


def of_versions(told: Any) -> Iterator[Sequence[str]]:
    for stream in told["streams"]:
        for each in stream["versions"]:
            yield (
                stream["tap"],
                stream["stream"],
                each["label"],
                each["hash"],
                number(each["first_offset"]),
                at(each["first_seen"], minute),
                number(each["files"]),
                number(each["records"]),
                size(each["bytes"]),
                number(each["properties"]),
                ", ".join(each["key_properties"]),
            )


def of_newest(told: Any) -> Iterator[Sequence[str]]:
    for stream in told["streams"]:
        name = (stream["tap"], stream["stream"])
        capture = next((run for run in stream["runs"] if run["kind"] == "capture"), None)
        if stream["trouble"]:
            yield *name, SEE_BELOW
        elif capture is None:
            yield *name, "no capture"
        else:
            yield *name, at(capture["started"], minute), capture["outcome"] + (" *" if capture["locked"] else "")
    for each in told["tables"]:
        newest = each["runs"][0]
        yield each["table"], f"{each['tap']}.{each['stream']}", at(newest["at"], minute), number(each["behind"])


def of_status(told: Any) -> Iterator[Sequence[str]]:
    for stream in told["streams"]:
        name = (stream["tap"], stream["stream"])
        if stream["trouble"]:
            yield *name, SEE_BELOW
        elif not stream["runs"]:
            yield *name, "no runs"
        for run in stream["runs"]:
            yield (
                *name,
                run["kind"],
                at(run["started"], second),
                "" if run["seconds"] is None else str(timedelta(seconds=int(run["seconds"]))),
                run["outcome"] + (" *" if run["locked"] else ""),
                number(run["files"]),
                number(run["records"]),
                size(run["bytes"]),
                run["writer"],
            )
    for each in told["tables"]:
        for place, run in enumerate(each["runs"]):
            yield (
                each["table"],
                f"{each['tap']}.{each['stream']}",
                run["kind"],
                at(run["at"], second),
                *map(number, (run["records"], run["inserted"], run["updated"], run["deleted"])),
                number(each["behind"]) if place == 0 else "",
            )


def of_runs(told: Any) -> Iterator[Sequence[str]]:
    for run in told["runs"]:
        yield (
            run["tap"],
            run["kind"],
            at(run["started"], second),
            "" if run["seconds"] is None else str(timedelta(seconds=int(run["seconds"]))),
            run["outcome"],
            number(len(run["streams"])),
            number(run["files"]),
            number(run["records"]),
            size(run["bytes"]),
            run["writer"],
        )


def of_store(told: Any) -> Iterator[Sequence[str]]:
    for each in told["streams"]:
        store = each["store"] or ""
        if each["trouble"]:
            store = f"! {store}" if store else SEE_BELOW
        numbers = (each["transaction"], each["published"], each["tail"], each["floor"])
        yield each["tap"], each["stream"], store, *("" if n is None else str(n) for n in numbers)


def of_locks(told: Any) -> Iterator[Sequence[str]]:
    for each in told["locks"]:
        age = str(timedelta(seconds=each["unchanged_seconds"]))
        yield each["key"], each["writer"], at(each["acquired"], second), at(each["refreshed"], second), age


def of_tables(told: Any) -> Iterator[Sequence[str]]:
    for each in told["tables"]:
        yield (
            each["table"] if each["declared"] else f"{each['table']} *",
            each["source"],
            each["keep"],
            number(each["rows"]),
            number(each["files"]),
            size(each["bytes"]),
            number(each["behind"]),
            at(each["last_run"], minute),
        )


COMMANDS: Mapping[str, Callable[[Any], Iterator[Sequence[str]]]] = {
    "ls LAKE": of_ls,
    "ls LAKE --commits": of_commits,
    "versions LAKE": of_versions,
    "status LAKE": of_newest,
    "status LAKE --runs 3": of_status,
    "status LAKE --by-run": of_runs,
    "store ls LAKE": of_store,
    "lock ls LAKE": of_locks,
    "project ls LAKE --all items orders": of_tables,
}


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_value_is_shown_whole(
    lake_root: Path, run: Run, monkeypatch: pytest.MonkeyPatch, command: str, columns: int
) -> None:
    arguments = command.replace("LAKE", str(lake_root)).split(" ")
    told = json.loads(run(*arguments, "--json").stdout)
    written = on_a_terminal(monkeypatch, columns, *arguments) if columns else run(*arguments).stdout
    # Only how long a lock is unchanged differs from one second to the next.
    ages = r"\b\d:\d\d:\d\d\b" if command.startswith("lock") else r"(?!)"
    expected = [[re.sub(ages, "age", shown(value)) for value in row if value] for row in COMMANDS[command](told)]
    assert expected
    assert records(re.sub(ages, "age", written), columns) == expected
    assert "\x1b" not in "".join(plain(written))


def records(written: str, columns: int) -> Rows:
    """The values of each record that are not empty, in the order of the columns: of a table where it fits, in rows of
    one line or more, or else of records one below another."""
    found: Rows = []
    inside = ""
    told = [*plain(written), ""]
    for line, following, marked in zip(told, told[1:], written.splitlines(), strict=False):
        cells = re.split(r" {2,}", line.strip())
        is_bold = marked.endswith("\x1b[0m")
        is_heading = (is_bold or len(cells) > 1) and all(re.fullmatch(HEADING, cell) for cell in cells)
        if is_heading:
            inside = "table"
        elif inside == "table" and line.startswith("    "):
            found[-1] += cells
        elif len(cells) == 1 and not (inside == "table" and following.startswith("    ")):
            # A table is followed by its caption, a record by an empty line.
            inside = ""
        elif inside == "table":
            found.append(cells)
        else:
            heading, value = cells
            assert re.fullmatch(HEADING, heading)
            found += [] if inside else [[]]
            found[-1].append(value)
            inside = "record"
        assert not columns or inside != "table" or cell_width(line) <= columns
    return found


def plain(written: str) -> list[str]:
    """The lines without what makes headings bold."""
    return re.sub(r"\x1b\[[01]m", "", written).splitlines()


ROWS = [("a", "1", ""), ("b" * 30, "22,222", "x" * 40), ("人々", "", "c")]


def test_a_narrow_terminal_gets_rows_of_several_lines_or_one_field_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("NAME", ">COUNT", "LAST")

    def printed(width: int) -> list[str]:
        return plain(shown_by(monkeypatch, width, lambda: table(columns, ROWS, caption="three")))

    assert printed(80) == [
        "NAME                             COUNT  LAST",
        "a                                    1",
        f"{'b' * 30}  22,222  {'x' * 40}",
        "人々                                    c",
        "three",
    ]
    assert printed(79) == [
        *("NAME                             COUNT", "    LAST"),
        "a                                    1",
        *(f"{'b' * 30}  22,222", f"    {'x' * 40}"),
        *("人々", "    c"),
        "three",
    ]
    assert printed(43) == printed(79), "a value that is too long for any line is not cut"
    assert printed(20)[:3] == ["NAME", f"    {'COUNT':>6}", "    LAST"]
    wide = [(each, each, each, "", each) for each in ("x" * 15, "y" * 15)]
    said = plain(shown_by(monkeypatch, 25, lambda: table(("A", "NAME", "B", "C", "D"), wide, caption="two")))
    records = [
        [f"A     {each * 15}", f"NAME  {each * 15}", f"B     {each * 15}", f"D     {each * 15}", ""] for each in "xy"
    ]
    assert said == [*records[0], *records[1], "two"]
    assert [cell_width(line.partition("c")[0]) for line in printed(80) if "人々" in line] == [40]
