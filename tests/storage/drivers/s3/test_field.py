"""Other makers' servers: what the how-to says of each is what the probe finds, and a lake lives there."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.lake import Lake
from singerlake.settings import store_settings
from singerlake.storage.port import Capabilities
from singerlake.upkeep.verify import verify_stream
from tests.processes.killed import Killed
from tests.servers.field import BUCKET, COMMANDS, field_server
from tests.servers.s3 import S3Server
from tests.target.support import TAP, config, environment, ingest, kept_ids, manifest, records, schema, state, text

pytestmark = pytest.mark.thorough
PAGE = Path(__file__).parents[4] / "docs/how-to/s3.md"


@pytest.fixture(scope="module", params=COMMANDS)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, S3Server]]:
    """Its name, and itself, which whatever looks for S3 in the environment reaches."""
    with field_server(request.param) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment().items():
            patch.setenv(name, value)
        yield request.param, running


def on_the_page(name: str) -> Capabilities:
    """What the how-to says that a server honours."""
    (row,) = re.findall(rf"^\| {name} [0-9.]+[^|]*\| ([^|]*) \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    put, delete = row
    return Capabilities(put.startswith("yes"), delete.startswith("yes"), takes_conditions="501" not in put)


def test_it_honours_what_the_page_says(server: tuple[str, S3Server]) -> None:
    assert Lake.open(f"s3://{BUCKET}/probed").storage.capabilities() == on_the_page(server[0])


def test_each_record_comes_into_a_table_by_one_of_the_runs_at_once(
    server: tuple[str, S3Server], store_config: Callable[[str], dict[str, str]]
) -> None:
    """The stream has no key, so that its table shows a record that came twice. Where the server ignores conditions,
    PostgreSQL says which run came first; a run that did not is told, and takes in what is new behind the other."""
    root, given, captures = f"s3://{BUCKET}/tables", store_config("postgres"), 12
    ended = Event()

    def run(_: int) -> int:
        inserted = 0
        while not ended.is_set():
            lake = Lake.open(root, stores=store_settings(given))
            inserted += sum(table.inserted for table in lake.project(all=True, raise_errors=False))
        return inserted

    ingest(root, [schema(keys=()), *records(0)], **given)
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run, number) for number in range(4)]
        for number in range(1, captures):
            ingest(root, [schema(keys=()), *records(number)], **given)
        ended.set()
        inserted = sum(each.result() for each in runs)
    inserted += Lake.open(root, stores=store_settings(given)).project(all=True)[0].inserted
    rows = Lake.open(root).table("users").to_arrow(columns=["id"]).read_all()
    assert sorted(rows.column("id").to_pylist()) == list(range(captures))
    assert inserted == captures


def test_a_capture_a_kill_a_vacuum_and_a_collection(server: tuple[str, S3Server]) -> None:
    root = f"s3://{BUCKET}/a lake/%41"
    ingest(root, [schema(), *records(1, 2, 3), state({"at": 3})], max_file_records=1)
    chosen = {"max_file_records": 1, "lock_stale_after_seconds": 2, "lock_refresh_seconds": 1}
    lines = [schema(), *records(4, 5), state({"at": 5})]
    killed = Killed(
        place="singerlake.stores.writer:StreamWriter._commit",
        side="before",
        calls=1,
        config=config(root, **chosen),
    ).run(text(lines), env=environment())
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert killed.stdout == b""
    assert json.loads(ingest(root, lines, **chosen)[-1]) == {"at": 5}
    assert kept_ids(root) == [1, 2, 3, 4, 5]

    before = len(manifest(root).files)
    for command in (["vacuum", "--yes"], *[["gc", "--delete", "--orphans", "--grace", "0s"]] * 3):
        done = CliRunner().invoke(main, [command[0], root, *command[1:]])
        assert done.exit_code == 0, done.output
    assert len(manifest(root).files) < before
    assert kept_ids(root) == [1, 2, 3, 4, 5]
    lake = Lake.open(root)
    stream = lake.stream(TAP, "users")
    assert verify_stream(lake.storage, TAP, "users", stream.state).findings == ()
    stored = {entry.key for entry in lake.storage.list(stream.prefix) if entry.key.endswith(".singer.gz")}
    assert stored == {stream.prefix + file.path for file in manifest(root).files}
