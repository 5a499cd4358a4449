"""``singerlake put`` that dies at each of its steps, and is run again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.attached.put import IN_MEMORY
from singerlake.cli.main import main
from singerlake.lake import Lake
from singerlake.upkeep.verify import verify_stream
from tests.faults.support.haste import Haste, hasten
from tests.processes.killed import Killed
from tests.tap.runs import environment

FILES = {"a.txt": b"a", "b.jpg": b"b" * (IN_MEMORY + 1), "c.txt": b"a"}
OBJECTS = 2
MOMENTS = {
    "while a file is read": ("singerlake.attached.keep:_Reading.next", "before", 2),
    "before an object": ("singerlake.attached.keep:put_attached", "before", 1),
    "after an object": ("singerlake.attached.keep:put_attached", "after", 2),
    "before the data file": ("singerlake.upkeep.put:write_data_file", "before", 1),
    "after the data file": ("singerlake.upkeep.put:write_data_file", "after", 1),
    "before the commit": ("singerlake.stores.writer:StreamWriter._commit", "before", 1),
    "after the commit": ("singerlake.stores.writer:StreamWriter._commit", "after", 1),
    "before the end": ("singerlake.stores.writer:StreamWriter.finish", "before", 1),
    "before the catalogue": ("singerlake.lake:Lake.announce", "before", 1),
    "after the catalogue": ("singerlake.lake:Lake.announce", "after", 1),
}
"""Which call, on which side of it, and which one of them."""
COMMITTED = ("after the commit", "before the end", "before the catalogue", "after the catalogue")


def names(lake: Lake) -> list[str]:
    return [row.source or "" for _, row in lake.stream("office", "scans").attached()]


@pytest.mark.sampled(moment=3)
@pytest.mark.parametrize("moment", MOMENTS)
def test_files_whose_put_was_killed_are_put_again_and_none_is_lost(
    tmp_path: Path, moment: str, haste: Haste, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that a killed run left is waited for in fast time."""
    hasten(monkeypatch, haste)
    spool = tmp_path / "spool"
    for folder in (tmp_path / "files", spool):
        folder.mkdir()
    for name, body in FILES.items():
        (tmp_path / "files" / name).write_bytes(body)
    root = str(tmp_path / "lake")
    put = ["put", root, "--tap", "office", "--stream", "scans", "--threads", "1", "--spool-dir", str(spool)]
    arguments = [*put, "--recursive", str(tmp_path / "files")]
    place, side, calls = MOMENTS[moment]
    asked = Killed(place=place, side=side, calls=calls, command="singerlake", arguments=arguments, haste=haste)
    killed = asked.run(env=environment())
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    lake = Lake.open(root)
    before = list(FILES) if moment in COMMITTED else []
    if before:
        assert names(lake) == before
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 0, again.output
    assert names(lake) == [*before, *FILES]
    stream = lake.stream("office", "scans")
    for _, row in stream.attached():
        with stream.open_file(row) as file:
            assert file.read() == FILES[row.source or ""]
    assert sum("/_files/" in entry.key for entry in lake.storage.list("raw/")) == OBJECTS
    found = verify_stream(lake.storage, "office", "scans", stream.state).findings
    assert [finding for finding in found if finding.kind != "unlisted"] == []
    assert [entry["tap_stream_id"] for entry in lake.catalogue("office")["streams"]] == ["scans"]
    assert list(spool.iterdir()) == []
