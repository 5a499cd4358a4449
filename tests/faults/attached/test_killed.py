"""A target that dies while it keeps files, at each of its steps, and its rerun."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.lake import Lake
from singerlake.upkeep.verify import verify_stream
from tests.faults.support.haste import Haste, hasten
from tests.faults.support.places import KINDS, Place
from tests.processes.killed import Killed
from tests.target.attached.files import START, is_sound, objects, person, photo, row, rows, settings
from tests.target.support import TAP, config, environment, ingest, kept_ids, state, text

PHOTOS = 4
SIZES = (10, 2 << 20)
"""One is kept in memory until it is in the lake, the other one in the spool."""
MOMENTS = {
    "while a file is read": ("singerlake.attached.keep:_Reading.ended", "before"),
    "before an object": ("singerlake.attached.keep:put_attached", "before"),
    "after an object": ("singerlake.attached.keep:put_attached", "after"),
    "before the rows": ("singerlake.singer_file:Spool.append_empty", "before"),
    "after the rows": ("singerlake.singer_file:Spool.append_empty", "after"),
    "before the upload": ("singerlake.storage.local.storage:LocalStorage.upload", "before"),
    "before the commit": ("singerlake.stores.writer:StreamWriter._commit", "before"),
    "after the commit": ("singerlake.stores.writer:StreamWriter._commit", "after"),
    "before the STATE": ("target_singerlake.state:StateOutput.write", "before"),
}
"""Which call, and on which side of it, a target is killed at."""
CASES = [
    pytest.param(kind, moment, calls, size, id=f"{kind}-{moment}-{calls}-{size}")
    for row, moment in enumerate(MOMENTS)
    for column, kind in enumerate(KINDS.values())
    for calls, size in [tuple(product((1, 2), SIZES))[(row + column) % 4]]
]
"""Each moment on each store, and at each moment each call with each size: what a target did until then with sizes and
calls is the same on all stores, and what a store left behind is the same for all sizes."""


def reach(place: Place) -> dict[str, Any]:
    """The target's settings for the store of a place, and for a lock that a killed run left."""
    known = {"manifest_store": place.kind.name, "lock_stale_after_seconds": 2, "lock_refresh_seconds": 1}
    if place.kind.on == "lake":
        return known
    if place.settings is not None:
        s3 = place.settings.s3
        known |= {"aws_access_key_id": s3.access_key_id, "aws_secret_access_key": s3.secret_access_key}
        known |= {"aws_region": s3.region}
    return known | {name: value for name, value in asdict(place.stores).items() if name.startswith(place.kind.on)}


@pytest.mark.crossed("kind", "moment")
@pytest.mark.parametrize(("kind", "moment", "calls", "size"), CASES, indirect=["kind"])
def test_a_target_that_was_killed_is_run_again_and_no_file_is_lost(
    tmp_path: Path, place: Place, moment: str, calls: int, size: int, haste: Haste, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that a killed run left, and a store that waits for storage's clock, are waited for in fast time."""
    hasten(monkeypatch, haste)
    root, lines, bodies = place.root, [START], []
    for number in range(PHOTOS):
        path, body = photo(tmp_path / "photos", f"{number}.jpg", bytes([number]) * size)
        lines += [person(number, photo=path), state({"at": number})]
        bodies.append((path, body))
    chosen = settings(tmp_path / "photos", file_threads=2, max_file_records=2, **reach(place))
    call, side = MOMENTS[moment]
    asked = Killed(place=call, side=side, calls=calls, config=config(root, **chosen), haste=haste)
    killed = asked.run(text(lines), env=environment())
    assert killed.returncode in (-signal.SIGKILL, 0), killed.stderr.decode()
    told = [json.loads(line)["at"] for line in killed.stdout.splitlines()]
    emitted = ingest(root, lines, **chosen)
    assert json.loads(emitted[-1]) == {"at": PHOTOS - 1}
    ids = kept_ids(root)
    before = ids[:-PHOTOS]
    assert ids == [*range(len(before)), *range(PHOTOS)]
    assert all(at < len(before) for at in told)
    assert rows(root) == [row(at, bodies[id][0], bodies[id][1], "image/jpeg") for at, id in enumerate(ids)]
    assert len(objects(root)) == PHOTOS
    is_sound(root)


def test_what_nobody_lists_is_collected_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run leaves objects without rows: they are orphans like its data files."""
    hasten(monkeypatch)
    root, lines = tmp_path / "lake", [START]
    ingest(root, [START, person(9)], **settings(tmp_path / "photos"))
    for number in range(PHOTOS):
        lines.append(person(number, photo=photo(tmp_path / "photos", f"{number}.jpg")[0]))
    place, side = MOMENTS["before the commit"]
    chosen = settings(tmp_path / "photos", lock_stale_after_seconds=2, lock_refresh_seconds=1)
    killed = Killed(place=place, side=side, calls=1, config=config(root, **chosen)).run(text(lines), env=environment())
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(objects(root)) == PHOTOS
    ingest(root, lines[:2], **chosen)
    for _ in range(3):
        collected = CliRunner().invoke(main, ["gc", str(root), "--delete", "--orphans", "--grace", "0s"])
        assert collected.exit_code == 0, collected.output
    assert len(objects(root)) == 1
    assert kept_ids(root) == [9, 0]
    lake = Lake.open(str(root))
    assert verify_stream(lake.storage, TAP, "users", lake.stream(TAP, "users").state).findings == ()
