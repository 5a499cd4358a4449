"""``singerlake rebuild``: what it says, what it writes, and what it refuses to."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.metadata import root
from singerlake.format.metadata.root import TapNotes
from singerlake.lake import Lake
from tests.cli.commands.store.stores import close
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


def test_a_lake_that_is_right_is_left_alone(run: Run, lake: Lake) -> None:
    before = everything(lake)
    result = run("rebuild", "--yes", lake.storage.url)
    assert result.exit_code == 0
    assert "t/flights: unchanged, 3 files, 25 messages, 2 versions" in result.stdout
    assert everything(lake) == before


def test_all_metadata_comes_back_from_the_data_files(run: Run, lake: Lake) -> None:
    catalogue = body_of(lake, CATALOGUE)
    files = lake.stream("t", "flights").snapshot().files
    for entry in list(lake.storage.list("")):
        if not entry.key.endswith(layout.SUFFIX):
            lake.storage.delete(entry.key)
    result = run("rebuild", "--yes", lake.storage.url)
    assert result.exit_code == 0, result.output
    assert "t/flights: was made anew, 3 files, 25 messages, 2 versions" in result.stdout
    assert "catalogue of t: written" in result.stdout
    assert "root metadata: written" in result.stdout
    assert body_of(lake, CATALOGUE) == catalogue
    after = lake.stream("t", "flights").snapshot()
    assert [(file.id, file.offset, file.sha256) for file in after.files] == [
        (file.id, file.offset, file.sha256) for file in files
    ]
    assert sorted(root.from_json(body_of(lake, ROOT), key=ROOT).taps) == ["t", "u"]
    assert run("verify", lake.storage.url).exit_code == 0


def test_a_dry_run_shows_the_difference_and_writes_nothing(run: Run, lake: Lake) -> None:
    lake.storage.delete(FLIGHTS)
    lake.storage.delete(CATALOGUE)
    before = everything(lake)
    result = run("rebuild", lake.storage.url, "--dry-run")
    assert "t/flights: would be made anew, 3 files" in result.stdout
    assert "catalogue of t: would be written" in result.stdout
    assert everything(lake) == before


def test_one_stream_alone_leaves_the_others_and_their_catalogue_entries(run: Run, lake: Lake) -> None:
    lake.storage.delete(FLIGHTS)
    lake.storage.delete(layout.manifest_key("t", "a/b"))
    catalogue = body_of(lake, CATALOGUE)
    run("rebuild", "--yes", lake.storage.url, "--tap", "t", "--stream", "flights")
    assert lake.storage.get(layout.manifest_key("t", "a/b")) is None
    assert lake.storage.get(FLIGHTS) is not None
    assert body_of(lake, CATALOGUE) == catalogue


def test_annotations_stay(run: Run, lake: Lake) -> None:
    before = root.from_json(body_of(lake, ROOT), key=ROOT)
    lake.storage.put(ROOT, root.to_json(msgspec.structs.replace(before, taps={"t": TapNotes(owner="ada")})))
    run("rebuild", "--yes", lake.storage.url, "--discard-manifest")
    after = root.from_json(body_of(lake, ROOT), key=ROOT)
    assert after.taps == {"t": TapNotes(owner="ada"), "u": TapNotes()}
    assert after.lake_id == before.lake_id


def test_unlisted_files_are_added_only_on_request(run: Run, lake: Lake) -> None:
    key = stray(lake)
    before = body_of(lake, FLIGHTS)
    result = run("rebuild", "--yes", lake.storage.url)
    assert result.exit_code == 0
    assert f"note: unlisted: {key}: is not listed; --adopt adds it" in result.stdout
    assert body_of(lake, FLIGHTS) == before
    result = run("rebuild", "--yes", lake.storage.url, "--adopt")
    assert "t/flights: was changed (1 added), 4 files, 26 messages, 3 versions" in result.stdout
    assert run("verify", lake.storage.url).exit_code == 0


def test_a_damaged_manifest_is_overwritten_only_on_request(run: Run, lake: Lake) -> None:
    lake.storage.put(FLIGHTS, b"{")
    lake.storage.delete(layout.manifest_key("u", "x"))
    result = run("rebuild", "--yes", lake.storage.url)
    assert result.exit_code == 1
    assert "--discard-manifest" in result.stdout
    assert "u/x: was made anew" in result.stdout
    assert body_of(lake, FLIGHTS) == b"{"
    result = run("rebuild", "--yes", lake.storage.url, "--discard-manifest", "--tap", "t")
    assert result.exit_code == 0
    assert lake.stream("t", "flights").snapshot().next_offset == 25


def test_a_stream_that_could_not_be_read_keeps_its_catalogue_entry(run: Run, lake: Lake) -> None:
    before = body_of(lake, CATALOGUE)
    lake.storage.put(FLIGHTS, b"{")
    run("rebuild", "--yes", lake.storage.url)
    assert body_of(lake, CATALOGUE) == before


def test_a_newer_formats_manifest_is_never_overwritten(run: Run, lake: Lake) -> None:
    lake.storage.put(FLIGHTS, b'{"format":99}')
    for flags in ((), ("--discard-manifest",)):
        result = run("rebuild", "--yes", lake.storage.url, *flags)
        assert result.exit_code == 1
        assert "upgrade singerlake" in result.stdout
        assert "--discard-manifest" not in result.stdout
        assert body_of(lake, FLIGHTS) == b'{"format":99}'


def test_damaged_root_metadata_stops_it_before_anything_is_written(run: Run, lake: Lake) -> None:
    lake.storage.put(ROOT, b"{")
    lake.storage.delete(FLIGHTS)
    result = run("rebuild", "--yes", lake.storage.url)
    assert (result.exit_code, "key='raw/singerlake.json'" in result.stderr) == (1, True)
    assert body_of(lake, ROOT) == b"{"
    assert lake.storage.get(FLIGHTS) is None


@pytest.mark.parametrize("flags", [("--yes",), ("--dry-run",)])
def test_a_broken_file_is_a_finding(run: Run, lake: Lake, flags: tuple[str, ...]) -> None:
    lake.storage.put("raw/t/flights/x/bad.singer.gz", b"?")
    result = run("rebuild", lake.storage.url, *flags)
    assert result.exit_code == 1
    assert "broken: raw/t/flights/x/bad.singer.gz: not a gzip file; left out" in result.stdout


def test_adopting_and_discarding_exclude_each_other(run: Run, lake: Lake) -> None:
    assert run("rebuild", "--yes", lake.storage.url, "--adopt", "--discard-manifest").exit_code == 2


def test_json_for_scripts(run: Run, lake: Lake) -> None:
    lake.storage.delete(FLIGHTS)
    stray(lake)
    result = run("rebuild", lake.storage.url, "--json", "--tap", "t", "--dry-run")
    found = json.loads(result.stdout)
    flights = next(stream for stream in found["streams"] if stream["stream"] == "flights")
    assert (found["dry_run"], flights["changed"], flights["files"], flights["messages"]) == (True, True, 4, 26)
    assert len(flights["added"]) == 4
    assert found["findings"] == []


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


def test_a_difference_of_the_lineage_alone_is_named(run: Run, lake: Lake) -> None:
    only = ("--tap", "t", "--stream", "flights", "--dry-run")
    anew = run("rebuild", lake.storage.url, "--discard-manifest", *only)
    assert difference(anew.stdout) == ["t/flights: difference", "  under a new lineage"]
    lake.storage.delete(FLIGHTS)
    assert "lineage" not in run("rebuild", lake.storage.url, *only).stdout


@pytest.mark.parametrize("flags", [(), ("--discard-manifest",)])
def test_a_stream_on_its_way_to_another_store_is_left_alone_and_says_how_it_gets_there(
    run: Run, lake: Lake, flags: tuple[str, ...]
) -> None:
    close(lake, "log")
    stray(lake)
    before = body_of(lake, FLIGHTS)
    result = run("rebuild", "--yes", lake.storage.url, *flags)
    assert result.exit_code == 1
    assert (
        "manifest: raw/t/flights/: a migration of this stream is not finished; its new manifest store is 'log'; "
        "finish it with 'singerlake store migrate', then run again\n" in result.stdout
    )
    assert body_of(lake, FLIGHTS) == before
    assert run("store", "migrate", "--yes", lake.storage.url, "--to", "log").exit_code == 0
    assert run("rebuild", "--yes", lake.storage.url, *flags).exit_code == 0


def test_json_says_the_difference_once(run: Run, lake: Lake) -> None:
    lake.storage.delete(FLIGHTS)
    found = json.loads(run("rebuild", "--yes", lake.storage.url, "--json").stdout)
    assert {stream["stream"]: len(stream["added"]) for stream in found["streams"]} == {"a/b": 0, "flights": 3, "x": 0}


def test_processes_come_to_what_threads_come_to(run: Run, lake: Lake) -> None:
    stray(lake)
    lake.storage.put("raw/t/flights/x/bad.singer.gz", b"?")
    lake.storage.delete(FLIGHTS)
    threads = run("rebuild", lake.storage.url, "--dry-run")
    processes = run("rebuild", lake.storage.url, "--dry-run", "--engine", "processes")
    assert (processes.exit_code, processes.stdout) == (1, threads.stdout)
    run("rebuild", "--yes", lake.storage.url, "--engine", "processes", "--threads", 1)
    assert lake.stream("t", "flights").snapshot().next_offset == 26


def test_a_journal_leaves_out_what_is_unchanged(run: Run, lake: Lake, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    lake.storage.delete(FLIGHTS)
    first = run("rebuild", lake.storage.url, "--dry-run", "--tap", "t", "--journal", journal)
    assert f"\n  in {journal} as sound, and unchanged since: 0 of 4 files, 0 B of " in first.stdout
    assert lake.storage.get(FLIGHTS) is None
    second = run("rebuild", "--yes", lake.storage.url, "--journal", journal, "--engine", "processes")
    assert f"\n  in {journal} as sound, and unchanged since: 4 of 5 files, " in second.stdout
    assert "t/flights: was made anew, 3 files, 25 messages, 2 versions" in second.stdout
    found = json.loads(run("rebuild", "--yes", lake.storage.url, "--journal", journal, "--json").stdout)
    assert (found["read"]["files"], found["noted"]["files"]) == (0, 5)
    assert run("verify", lake.storage.url).exit_code == 0


def test_the_journal_of_a_verification_is_refused_before_anything_is_written(
    run: Run, lake: Lake, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    run("verify", lake.storage.url, "--journal", journal)
    lake.storage.delete(FLIGHTS)
    result = run("rebuild", "--yes", lake.storage.url, "--journal", journal)
    assert result.exit_code == 2
    assert "not a journal of 'singerlake rebuild', but of 'singerlake verify'; give another file" in result.stderr
    assert lake.storage.get(FLIGHTS) is None


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
