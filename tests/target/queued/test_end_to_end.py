"""Targets that send to SQS over HTTP, and committers as processes: what is told by a STATE is in the lake, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from singerlake.committer import aws_lambda
from singerlake.errors import SettingError
from singerlake.format.exact_json import decode
from singerlake.format.state.transactions import AddTogether
from singerlake.lake import Lake
from singerlake.stores.numbered import Record
from tests.processes.killed import Killed
from tests.processes.plugins import Plugin
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from tests.servers.sqs.server import SqsServer
from tests.target.support import (
    TAP,
    Finished,
    config,
    configured,
    environment,
    ingest,
    kept_ids,
    records,
    run,
    schema,
    state,
    text,
)

KEYS = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY, "aws_region": REGION}
VARIABLES = {f"SINGERLAKE_{name.upper()}": value for name, value in KEYS.items()}
SMALL = {"max_file_records": 3}
PATIENT = {"commit_queue_patience_seconds": 120}
KILL = {
    "received": ("singerlake.stores.queued.sqs:SqsQueue.receive", "after"),
    "about to commit": ("singerlake.stores.numbered:NumberedStore.commit", "before"),
    "committed": ("singerlake.stores.numbered:NumberedStore.commit", "after"),
    "about to delete": ("singerlake.stores.queued.sqs:SqsQueue.delete", "before"),
    "deleted": ("singerlake.stores.queued.sqs:SqsQueue.delete", "after"),
}
"""Which call a worker is killed at."""


@dataclass(frozen=True)
class Place:
    """A lake on a disk, and a queue."""

    root: Path
    sqs: SqsServer
    url: str

    def settings(self, **more: Any) -> dict[str, Any]:
        return {**KEYS, "commit_queue_url": self.url, "manifest_store": "log", **more}

    def run(self, given: list[bytes], **more: Any) -> Finished:
        """A target, to its end."""
        return run(self.root, self.root.parent, given, **self.settings(**more))

    def begin(self, given: list[bytes], **more: Any) -> Plugin:
        """A target that has read all of its input."""
        folder = Path(tempfile.mkdtemp(dir=self.root.parent))
        begun = Plugin("target", configured(self.root, folder, **self.settings(**more)), env=environment())
        assert begun.stdin is not None
        begun.stdin.write(text(given))
        begun.stdin.close()
        return begun

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "singerlake", "commit-worker", str(self.root), "--queue-url", self.url, *options]
        return subprocess.Popen(argv, env={**environment(), **VARIABLES}, stderr=subprocess.PIPE)

    def read(self, number: int) -> Record:
        key = self.root / "raw" / TAP / "users" / "_log" / f"{number:020d}.json"
        return decode(key.read_bytes(), Record)


@pytest.fixture(params=[2])
def place(request: pytest.FixtureRequest, tmp_path: Path, sqs: SqsServer) -> Place:
    made = Place(tmp_path / "lake", sqs, sqs.queue(hidden=request.param))
    # The lake has to have an id, by which messages name it.
    ingest(made.root, [schema(), *records(0), state({"at": 0})], manifest_store="log")
    return made


@contextmanager
def working(place: Place, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    worker = place.worker(*options)
    try:
        yield worker
    finally:
        if worker.poll() is None:
            worker.kill()
        worker.communicate()


def lines(first: int, count: int) -> list[bytes]:
    return [schema(), *records(*range(first, first + count)), state({"at": first + count})]


def test_a_state_follows_what_a_worker_committed_and_sigterm_ends_the_worker(place: Place) -> None:
    with working(place) as worker:
        done = place.run(lines(1, 9), commit_queue_patience_seconds=60, **SMALL)
        assert (done.code, done.last_state) == (0, {"at": 10})
        assert "commit_queue" not in done.log
        worker.send_signal(signal.SIGTERM)
        _, error = worker.communicate(timeout=30)
    assert worker.returncode == 143
    assert b"Traceback" not in error
    assert kept_ids(place.root) == list(range(10))
    assert place.sqs.waiting(place.url) == 0


def test_without_a_worker_the_run_says_so_and_commits_by_itself(place: Place) -> None:
    started = time.monotonic()
    done = place.run(lines(1, 9), commit_queue_patience_seconds=2, **SMALL)
    assert (done.code, done.last_state) == (0, {"at": 10})
    assert "commit_queue_patience_seconds=2" in done.log
    assert place.url in done.log
    assert SECRET_ACCESS_KEY not in done.log
    assert time.monotonic() - started >= 2
    assert kept_ids(place.root) == list(range(10))
    with working(place, "--idle-exit", "1") as worker:
        worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert place.sqs.waiting(place.url) == 0
    assert kept_ids(place.root) == list(range(10))


def test_a_queue_that_is_not_there_is_told_once_and_costs_no_patience(place: Place) -> None:
    done = place.run(lines(1, 9), commit_queue_url="http://127.0.0.1:1/1/no.fifo", **SMALL)
    assert (done.code, done.last_state) == (0, {"at": 10})
    assert done.log.count("took no message") == 1
    assert kept_ids(place.root) == list(range(10))


def test_a_schema_is_held_to_the_newest_one_that_a_worker_committed(place: Place) -> None:
    other = schema().replace(b'"integer"', b'"string"', 1)
    with working(place):
        done = place.run([*lines(1, 3), other, *records(9)], schema_changes={"*": "freeze"}, **SMALL)
        assert (done.code, done.last_state) == (1, {"at": 4})
        done = place.run([other, *records(9)], schema_changes={"*": "freeze"}, **SMALL)
    assert done.code == 1
    assert "schema_changes says freeze" in done.log
    assert kept_ids(place.root) == list(range(4))


def test_several_targets_and_two_workers_at_once(place: Place) -> None:
    with working(place, "--threads", "2"), working(place, "--threads", "2"):
        processes = [place.begin(lines(100 * (at + 1), 12), **PATIENT, **SMALL) for at in range(4)]
        for process in processes:
            assert process.wait(timeout=120) == 0
    wanted = [0, *(100 * (at + 1) + number for at in range(4) for number in range(12))]
    found = kept_ids(place.root)
    assert sorted(found) == sorted(wanted)
    for at in range(4):
        own = [id for id in found if id // 100 == at + 1]
        assert own == sorted(own)


def test_a_worker_that_was_killed_leaves_what_another_one_does(place: Place) -> None:
    process = place.begin(lines(1, 12), **PATIENT, **SMALL)
    for _ in range(3):
        with working(place) as worker:
            time.sleep(1.0)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    with working(place):
        assert process.wait(timeout=120) == 0
    assert kept_ids(place.root) == list(range(13))


@pytest.mark.sampled(moment=2)
@pytest.mark.parametrize("moment", KILL)
def test_a_worker_may_die_at_each_step(place: Place, moment: str) -> None:
    process = place.begin(lines(1, 5), **PATIENT)
    ends = time.monotonic() + 60
    while not place.sqs.waiting(place.url):
        assert time.monotonic() < ends
        time.sleep(0.1)
    called, side = KILL[moment]
    arguments = ["commit-worker", str(place.root), "--queue-url", place.url, "--once"]
    asked = Killed(place=called, side=side, calls=1, command="singerlake", arguments=arguments)
    assert asked.run(env={**environment(), **VARIABLES}).returncode == -signal.SIGKILL
    with working(place, "--threads", "1", "--idle-exit", "4") as worker:
        assert process.wait(timeout=60) == 0
        assert worker.wait(timeout=60) == 0
    assert kept_ids(place.root) == list(range(6))
    assert place.sqs.waiting(place.url) == 0


def test_a_writer_that_was_killed_while_it_waited_is_run_again_and_nothing_is_lost(place: Place) -> None:
    process = place.begin(lines(1, 5), **PATIENT)
    ends = time.monotonic() + 60
    while not place.sqs.waiting(place.url):
        assert time.monotonic() < ends
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert process.stdout is not None
    assert process.stdout.read() == b""
    with working(place):
        again = place.run(lines(1, 5), **PATIENT)
    assert (again.code, again.last_state) == (0, {"at": 6})
    # The message of the killed run is in the lake as well: it never told anybody that it was not.
    assert kept_ids(place.root) == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


def test_once_takes_one_batch_and_makes_one_transaction_of_several_writers(place: Place) -> None:
    processes = [place.begin(lines(10 * (at + 1), 2), **PATIENT) for at in range(3)]
    ends = time.monotonic() + 60
    while place.sqs.waiting(place.url) < 3:
        assert time.monotonic() < ends
        time.sleep(0.1)
    with working(place, "--once") as worker:
        assert worker.wait(timeout=60) == 0
    for process in processes:
        assert process.wait(timeout=60) == 0
    change = place.read(2).transaction.change
    assert isinstance(change, AddTogether)
    assert len(change.parts) == 3
    assert len(kept_ids(place.root)) == 7


def lambda_event(place: Place) -> tuple[dict[str, Any], dict[str, str]]:
    """What Lambda gives a function, of all that waits; and the receipts by message id."""
    found = place.sqs.client().receive_message(QueueUrl=place.url, MaxNumberOfMessages=10).get("Messages", [])
    event = {"Records": [{"messageId": each["MessageId"], "body": each["Body"]} for each in found]}
    return event, {each["MessageId"]: each["ReceiptHandle"] for each in found}


@pytest.mark.parametrize("place", [600], indirect=True)
def test_a_lambda_function_commits_and_names_what_has_to_come_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        **VARIABLES,
        "SINGERLAKE_LAKE_ROOT": str(place.root),
        "SINGERLAKE_S3_PATH_STYLE": "true",
    }.items():
        monkeypatch.setenv(name, value)
    aws_lambda._committer.cache_clear()
    process = place.begin(lines(1, 2), **PATIENT)
    ends = time.monotonic() + 60
    event: dict[str, Any] = {"Records": []}
    while not event["Records"]:
        assert time.monotonic() < ends
        event, _ = lambda_event(place)
    log = place.root / "raw" / TAP / "users" / "_log"
    hidden = log.with_name("hidden")
    poison = {"messageId": "poison", "body": "no JSON"}
    os.rename(log, hidden)
    log.write_text("no folder")
    answer = aws_lambda.handler({"Records": [poison, *event["Records"]]}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in event["Records"]]}
    log.unlink()
    os.rename(hidden, log)
    assert aws_lambda.handler(event, None) == {"batchItemFailures": []}
    assert process.wait(timeout=60) == 0
    assert kept_ids(place.root) == [0, 1, 2]
    assert aws_lambda.handler(event, None) == {"batchItemFailures": []}
    assert kept_ids(place.root) == [0, 1, 2]
    aws_lambda._committer.cache_clear()


@pytest.mark.parametrize(
    ("environment", "match"),
    [({}, "SINGERLAKE_LAKE_ROOT"), ({"SINGERLAKE_LAKE_ROOT": "x", "SINGERLAKE_S3_PATH_STYLE": "perhaps"}, "neither")],
)
def test_a_function_without_a_lake_says_what_to_set(environment: Mapping[str, str], match: str) -> None:
    with pytest.raises(SettingError, match=match):
        aws_lambda.lake_in(environment)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"atomic_run": True}, "atomic_run and commit_queue_url exclude each other"),
        ({"commit_queue_url": "https://user:hunter2@host/1/q.fifo"}, "commit_queue_url holds credentials"),
        ({"commit_queue_url": "https://host/1/q"}, "not the URL of a FIFO queue"),
    ],
)
def test_settings_that_cannot_be_meant_end_the_run_before_it_begins(
    place: Place, settings: dict[str, Any], match: str
) -> None:
    done = place.run(lines(1, 2), **settings)
    assert (done.code, done.states) == (1, [])
    assert match in done.log
    assert "hunter2" not in done.log
    assert kept_ids(place.root) == [0]


@pytest.mark.parametrize("what", ["no lake", "no queue", "no FIFO queue"])
def test_a_worker_that_cannot_work_ends_with_what_to_do(place: Place, tmp_path: Path, what: str) -> None:
    root, url = place.root, place.url
    if what == "no lake":
        root = tmp_path / "none"
        root.mkdir()
    elif what == "no queue":
        url = f"{place.sqs.endpoint_url}/123456789012/none.fifo"
    else:
        url = place.sqs.queue(fifo=False)
    argv = [sys.executable, "-m", "singerlake", "commit-worker", str(root), "--queue-url", url]
    done = subprocess.run(argv, env={**environment(), **VARIABLES}, capture_output=True, timeout=60)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr


def test_boto3_is_loaded_by_nobody_who_has_no_queue(place: Place) -> None:
    code = (
        "import sys, io; from target_singerlake.target import TargetSingerlake;"
        f"TargetSingerlake(config={config(place.root)!r}).listen(io.BytesIO({text(lines(1, 2))!r}));"
        "print([m for m in sys.modules if m.split('.')[0] in ('boto3', 'botocore') or m.endswith('queued.sqs')])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert Lake.open(str(place.root)).taps() == [TAP]
    assert json.loads(done.stdout.splitlines()[0]) == {"at": 3}
