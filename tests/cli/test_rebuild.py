"""``singerlake rebuild``: what it says, what it writes, and what it refuses to."""

from __future__ import annotations

import json

import msgspec
import pytest

from singerlake.format import layout, root
from singerlake.format.root import TapNotes
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import record_line
from tests.maintenance.shelf import file_bytes
from tests.maintenance.test_verify import body_of

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
    result = run("rebuild", lake.storage.url)
    assert result.exit_code == 0
    assert "t/flights: unchanged, 3 files, 25 messages, 2 versions" in result.stdout
    assert everything(lake) == before


def test_all_metadata_comes_back_from_the_data_files(run: Run, lake: Lake) -> None:
    catalogue = body_of(lake, CATALOGUE)
    files = lake.stream("t", "flights").snapshot().files
    for entry in list(lake.storage.list("")):
        if not entry.key.endswith(layout.SUFFIX):
            lake.storage.delete(entry.key)
    result = run("rebuild", lake.storage.url)
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
    run("rebuild", lake.storage.url, "--tap", "t", "--stream", "flights")
    assert lake.storage.get(layout.manifest_key("t", "a/b")) is None
    assert lake.storage.get(FLIGHTS) is not None
    assert body_of(lake, CATALOGUE) == catalogue


def test_annotations_stay(run: Run, lake: Lake) -> None:
    before = root.from_json(body_of(lake, ROOT), key=ROOT)
    lake.storage.put(ROOT, root.to_json(msgspec.structs.replace(before, taps={"t": TapNotes(owner="ada")})))
    run("rebuild", lake.storage.url, "--discard-manifest")
    after = root.from_json(body_of(lake, ROOT), key=ROOT)
    assert after.taps == {"t": TapNotes(owner="ada"), "u": TapNotes()}
    assert after.lake_id == before.lake_id


def test_unlisted_files_are_added_only_on_request(run: Run, lake: Lake) -> None:
    key = stray(lake)
    before = body_of(lake, FLIGHTS)
    result = run("rebuild", lake.storage.url)
    assert result.exit_code == 0
    assert f"note: unlisted: {key}: is not listed; --adopt adds it" in result.stdout
    assert body_of(lake, FLIGHTS) == before
    result = run("rebuild", lake.storage.url, "--adopt")
    assert "t/flights: was changed (1 added), 4 files, 26 messages, 3 versions" in result.stdout
    assert run("verify", lake.storage.url).exit_code == 0


def test_a_damaged_manifest_is_overwritten_only_on_request(run: Run, lake: Lake) -> None:
    lake.storage.put(FLIGHTS, b"{")
    lake.storage.delete(layout.manifest_key("u", "x"))
    result = run("rebuild", lake.storage.url)
    assert result.exit_code == 1
    assert "--discard-manifest" in result.stdout
    assert "u/x: was made anew" in result.stdout
    assert body_of(lake, FLIGHTS) == b"{"
    result = run("rebuild", lake.storage.url, "--discard-manifest", "--tap", "t")
    assert result.exit_code == 0
    assert lake.stream("t", "flights").snapshot().next_offset == 25


def test_a_stream_that_could_not_be_read_keeps_its_catalogue_entry(run: Run, lake: Lake) -> None:
    before = body_of(lake, CATALOGUE)
    lake.storage.put(FLIGHTS, b"{")
    run("rebuild", lake.storage.url)
    assert body_of(lake, CATALOGUE) == before


def test_a_newer_formats_manifest_is_never_overwritten(run: Run, lake: Lake) -> None:
    lake.storage.put(FLIGHTS, b'{"format":99}')
    for flags in ((), ("--discard-manifest",)):
        result = run("rebuild", lake.storage.url, *flags)
        assert result.exit_code == 1
        assert "upgrade singerlake" in result.stdout
        assert "--discard-manifest" not in result.stdout
        assert body_of(lake, FLIGHTS) == b'{"format":99}'


def test_damaged_root_metadata_stops_it_before_anything_is_written(run: Run, lake: Lake) -> None:
    lake.storage.put(ROOT, b"{")
    lake.storage.delete(FLIGHTS)
    result = run("rebuild", lake.storage.url)
    assert (result.exit_code, "key='raw/singerlake.json'" in result.stderr) == (1, True)
    assert body_of(lake, ROOT) == b"{"
    assert lake.storage.get(FLIGHTS) is None


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_broken_file_is_a_finding(run: Run, lake: Lake, flags: tuple[str, ...]) -> None:
    lake.storage.put("raw/t/flights/x/bad.singer.gz", b"?")
    result = run("rebuild", lake.storage.url, *flags)
    assert result.exit_code == 1
    assert "broken: raw/t/flights/x/bad.singer.gz: not a gzip file; left out" in result.stdout


def test_adopting_and_discarding_exclude_each_other(run: Run, lake: Lake) -> None:
    assert run("rebuild", lake.storage.url, "--adopt", "--discard-manifest").exit_code == 2


def test_json_for_scripts(run: Run, lake: Lake) -> None:
    lake.storage.delete(FLIGHTS)
    stray(lake)
    result = run("rebuild", lake.storage.url, "--json", "--tap", "t", "--dry-run")
    found = json.loads(result.stdout)
    flights = next(stream for stream in found["streams"] if stream["stream"] == "flights")
    assert (found["dry_run"], flights["changed"], flights["files"], flights["messages"]) == (True, True, 4, 26)
    assert len(flights["added"]) == 4
    assert found["findings"] == []
