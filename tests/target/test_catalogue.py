"""The catalogue after runs in which a stream's schema comes and goes: that of the newest message, whoever wrote it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.format.metadata import catalogue
from target_singerlake.target import TargetSingerlake
from tests.target.support import TAP, USERS, WIDER, config, ingest, manifest, record, schema, state, text

NARROW, WIDE = [schema(), record(1)], [schema(schema=WIDER), record(2)]


def cached(root: Path) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads((root / "raw" / TAP / "catalogue.json").read_bytes())["streams"][0]
    return entry


def assert_that_rebuild_and_verify_agree(root: Path) -> None:
    before = cached(root)
    assert before == catalogue.entry(manifest(root))
    verified = CliRunner().invoke(main, ["verify", str(root)])
    assert verified.output.startswith("sound: ")
    assert CliRunner().invoke(main, ["rebuild", "--yes", str(root), "--discard-manifest"]).exit_code == 0
    assert cached(root) == before


@pytest.mark.parametrize(
    ("lines", "newest"),
    [
        ([*NARROW, *WIDE], WIDER),
        ([*NARROW, *WIDE, *NARROW], USERS),
        ([*NARROW, *WIDE, *NARROW, *WIDE], WIDER),
        ([*NARROW, *WIDE, state({"at": 1}), *NARROW, schema(schema=WIDER)], USERS),
    ],
)
def test_the_catalogue_has_the_schema_of_the_newest_message(tmp_path: Path, lines: list[bytes], newest: Any) -> None:
    ingest(tmp_path, lines)
    assert cached(tmp_path)["schema"] == newest
    assert_that_rebuild_and_verify_agree(tmp_path)


def test_other_keys_of_the_same_schema_are_told_too(tmp_path: Path) -> None:
    ingest(tmp_path, [*NARROW, schema(keys=["id", "name"]), record(2)])
    assert cached(tmp_path)["key_properties"] == ["id", "name"]
    assert_that_rebuild_and_verify_agree(tmp_path)


class Source(io.BufferedIOBase):
    """Input that comes as ``pieces`` does, the next one when it is asked for."""

    def __init__(self, pieces: Iterator[list[bytes]]) -> None:
        self._pieces = pieces

    def read1(self, size: int = -1, /) -> bytes:
        return text(next(self._pieces, []))


def test_what_another_run_told_in_between_is_corrected_by_the_one_that_ends_last(tmp_path: Path) -> None:
    def pieces() -> Iterator[list[bytes]]:
        yield NARROW
        while not (tmp_path / "raw" / TAP / "catalogue.json").exists():
            time.sleep(0.01)
            yield [state({"at": 1})]
        ingest(tmp_path, WIDE)
        assert cached(tmp_path)["schema"] == WIDER
        yield [record(3)]

    TargetSingerlake(config=config(tmp_path, max_file_records=1)).listen(Source(pieces()))  # type: ignore[arg-type]
    versions = [file.version for file in manifest(tmp_path).files]
    assert versions[0] == versions[2] != versions[1]
    assert cached(tmp_path)["schema"] == USERS


def test_verify_tells_of_a_catalogue_that_is_behind_and_rebuild_corrects_it(tmp_path: Path) -> None:
    ingest(tmp_path, NARROW)
    kept = (tmp_path / "raw" / TAP / "catalogue.json").read_bytes()
    ingest(tmp_path, WIDE)
    (tmp_path / "raw" / TAP / "catalogue.json").write_bytes(kept)
    told = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert told.exit_code == 1
    assert told.output.startswith(f"catalogue: raw/{TAP}/catalogue.json: has another schema of stream 'users'")
    assert CliRunner().invoke(main, ["rebuild", "--yes", str(tmp_path)]).exit_code == 0
    assert cached(tmp_path)["schema"] == WIDER
    assert CliRunner().invoke(main, ["verify", str(tmp_path)]).exit_code == 0
