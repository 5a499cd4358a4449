"""Targets at the same time on the same stream."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.upkeep.verify import verify_stream
from tests.target.support import TAP, command, environment, kept_ids, manifest, records, schema, text

A_FILE = 3
"""Records in a file."""


@pytest.mark.parametrize(("writers", "commits"), [(4, 8), pytest.param(8, 20, marks=pytest.mark.thorough)])
def test_targets_with_many_commits_each_keep_every_record_exactly_once(
    tmp_path: Path, writers: int, commits: int
) -> None:
    root = tmp_path / "lake"
    processes = []
    for writer in range(writers):
        folder = tmp_path / str(writer)
        folder.mkdir()
        first = writer * commits * A_FILE
        data = folder / "input"
        data.write_bytes(text([schema(), *records(*range(first, first + commits * A_FILE))]))
        with data.open("rb") as source, (folder / "log").open("wb") as log:
            argv = command(root, folder, max_file_records=A_FILE)
            processes.append(subprocess.Popen(argv, stdin=source, stderr=log, env=environment()))
    assert [process.wait(200) for process in processes] == [0] * writers, (tmp_path / "0" / "log").read_text()
    assert Counter(kept_ids(root)) == Counter(range(writers * commits * A_FILE))
    found = manifest(root)
    assert found.next_offset == writers * commits * A_FILE
    assert len(found.files) == writers * commits
    assert len({run.id for run in found.runs}) == writers
    for writer in range(writers):
        own = [id for id in kept_ids(root) if id // (commits * A_FILE) == writer]
        assert own == sorted(own)
    assert (
        list(
            verify_stream(
                Lake.open(str(root)).storage, TAP, "users", Lake.open(str(root)).stream(TAP, "users").state
            ).findings
        )
        == []
    )
