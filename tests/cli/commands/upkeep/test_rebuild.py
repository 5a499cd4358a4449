"""``singerlake rebuild``: what it says, what it writes, and what it refuses to."""

from __future__ import annotations

import json

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import record_line
from tests.scratch.disks import fill_disk
from tests.upkeep.shelf import file_bytes
from tests.upkeep.verify.test_verify import body_of

FLIGHTS, ROOT, CATALOGUE = layout.manifest_key("t", "flights"), layout.root_metadata_key(), layout.catalogue_key("t")


def stray(lake: Lake) -> str:
    key = "raw/t/flights/x/stray.singer.gz"
    schema = b'{"type":"SCHEMA","stream":"flights","schema":{"type":"object"}}\n'
    lake.storage.put(key, file_bytes([[record_line("flights", {"n": 1}) + b"\n"]], extra=None, schema=schema))
    return key


def everything(lake: Lake) -> list[tuple[str, str]]:
    return [(entry.key, entry.etag) for entry in lake.storage.list("")]


def difference(text: str) -> list[str]:
    """The lines that say how a stream changes."""
    return [line for line in text.splitlines() if line.endswith(": difference") or line.startswith("  ")]


def test_the_difference_is_shown_before_anything_is_written(
    run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [file.path for file in lake.stream("t", "flights").snapshot().files]
    lake.storage.delete(FLIGHTS)
    dry = run("rebuild", lake.storage.url, "--dry-run")
    assert difference(dry.stdout) == [
        "t/flights: difference",
        "  added: 3 files",
        *(f"    {path}" for path in files),
    ]

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("written")

    with monkeypatch.context() as patch:
        patch.setattr("singerlake.upkeep.rebuild.rebuild_lake._written", fails)
        with pytest.raises(AssertionError, match="written"):
            run("rebuild", "--yes", lake.storage.url)
    assert lake.storage.get(FLIGHTS) is None
    wet = run("rebuild", "--yes", lake.storage.url)
    assert difference(wet.stdout) == difference(dry.stdout)
    assert difference(run("rebuild", "--yes", lake.storage.url).stdout) == []


def test_the_difference_names_the_first_files_of_each_kind(run: Run, lake: Lake) -> None:
    manifest = json.loads(body_of(lake, FLIGHTS))
    (one, *rest), gone = manifest["files"], []
    one["records"] += 1
    for number in range(7):
        gone.append({**rest[0], "id": f"gone{number}", "path": f"x/gone{number}.singer.gz", "offset": 25 + 10 * number})
    manifest |= {"files": [one, *rest, *gone], "next_offset": 95}
    lake.storage.put(FLIGHTS, json.dumps(manifest).encode())
    kept = run("rebuild", lake.storage.url, "--dry-run", "--tap", "t", "--stream", "flights")
    assert difference(kept.stdout) == [
        "t/flights: difference",
        "  corrected in the manifest: 1 file",
        f"    {one['path']}",
    ]
    anew = run("rebuild", "--yes", lake.storage.url, "--discard-manifest", "--tap", "t", "--stream", "flights")
    assert difference(anew.stdout) == [
        "t/flights: difference",
        "  dropped: 7 files",
        *(f"    x/gone{number}.singer.gz" for number in range(5)),
        "    and 2 more",
        "  corrected in the manifest: 1 file",
        f"    {one['path']}",
        "  under a new lineage",
    ]


def test_processes_come_to_what_threads_come_to(run: Run, lake: Lake) -> None:
    stray(lake)
    lake.storage.put("raw/t/flights/x/bad.singer.gz", b"?")
    lake.storage.delete(FLIGHTS)
    threads = run("rebuild", lake.storage.url, "--dry-run")
    processes = run("rebuild", lake.storage.url, "--dry-run", "--engine", "processes")
    assert (processes.exit_code, processes.stdout) == (1, threads.stdout)
    run("rebuild", "--yes", lake.storage.url, "--engine", "processes", "--threads", 1)
    assert lake.stream("t", "flights").snapshot().next_offset == 26


def test_a_full_disk_of_this_machine_is_named_and_nothing_is_written(
    run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(lake)
    with monkeypatch.context() as patched:
        fill_disk(patched)
        result = run("rebuild", "--yes", lake.storage.url, "--discard-manifest", "--tap", "t", "--stream", "flights")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no space is left for the files that a rebuild found" in result.stderr
    assert "set $TMPDIR" in result.stderr
    assert everything(lake) == before
    assert run("rebuild", "--yes", lake.storage.url, "--discard-manifest").exit_code == 0
    assert run("verify", lake.storage.url).exit_code == 0
