"""A network and servers that lose, delay, refuse and shorten what passes (cases 8 to 13, and 25)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from singerlake.format import layout
from tests.faults.support.files import data_files
from tests.faults.support.network import Network
from tests.faults.support.places import Kind, of_kinds
from tests.servers.fault_proxy.proxy import wait_until
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.in_turn("kind")

UPLOAD = r"^PUT .*\.singer\.gz$"
LOCKING = r"^PUT .*singerlake\.lock$"
UNLOCKING = r"^DELETE .*singerlake\.lock$"
CONFLICTS: dict[str, list[dict[str, Any]]] = {
    "lake": [{"status": 409, "code": "ConditionalRequestConflict"}],
    "dynamodb": [
        {"status": 400, "code": "TransactionConflictException"},
        {"status": 400, "code": "ProvisionedThroughputExceededException"},
    ],
    "postgres": [{"code": "40001"}, {"code": "40P01"}],
}
"""How each server says that others are at work and that a request had no effect."""
STORMS: dict[str, list[dict[str, Any]]] = {
    "lake": [
        {"status": 503, "code": "SlowDown", "probability": 0.1},
        {"status": 429, "code": "TooManyRequests", "probability": 0.05},
        {"status": 500, "code": "InternalError", "probability": 0.05},
        {"status": 500, "code": "InternalError", "probability": 0.05, "after": True},
    ],
    "dynamodb": [
        {"status": 400, "code": "ThrottlingException", "probability": 0.1},
        {"status": 500, "code": "InternalServerError", "probability": 0.1},
        {"status": 500, "code": "InternalServerError", "probability": 0.1, "after": True},
    ],
    "postgres": [
        {"code": "40001", "probability": 0.2},
        {"code": "40P01", "probability": 0.1},
        {"code": "55P03", "probability": 0.1},
    ],
}
MINE = {"lake": r"/t/s/", "dynamodb": r"DynamoDB", "postgres": r"^COMMIT|^\s*(SELECT|INSERT|UPDATE)"}
"""Requests of the writers, but for those that only look what a server can do."""


@pytest.mark.in_turn("kind", "nth")
@pytest.mark.parametrize("nth", [1, 2])
def test_8_a_commit_whose_reply_is_lost_counts_once(network: Network, kind: Kind, nth: int) -> None:
    fault = network.proxy.drop(kind.request, after=True, skip=nth - 1)
    network.start("ada").wait()
    assert (fault.hits, fault.done) == (1, 1)
    assert network.crew.count() == 2


@pytest.mark.in_turn("kind", "nth")
@of_kinds(lambda kind: bool(kind.appends))
@pytest.mark.parametrize("nth", [1, 2])
def test_8_a_record_whose_reply_is_lost_counts_once(network: Network, nth: int) -> None:
    fault = network.proxy.drop(r"^PUT .*/_log/\d{20}\.json$", after=True, skip=nth - 1)
    network.start("ada").wait()
    assert (fault.hits, fault.done) == (1, 1)
    assert network.crew.count() == 2


@of_kinds(lambda kind: kind.on == "lake")
def test_8_an_upload_whose_reply_is_lost_counts_once(bucket: Network) -> None:
    fault = bucket.proxy.drop(UPLOAD, after=True, times=2)
    bucket.start("ada").wait()
    assert fault.hits == 2
    assert bucket.crew.count() == 2


@pytest.mark.crossed("kind", "lost")
@of_kinds(lambda kind: kind.locks)
@pytest.mark.parametrize("lost", [LOCKING, UNLOCKING], ids=["taking", "giving-up"])
def test_8_a_lock_s_reply_that_is_lost_leaves_no_lock_behind(bucket: Network, lost: str) -> None:
    fault = bucket.proxy.drop(lost, after=True, times=2)
    bucket.start("ada").wait()
    assert fault.hits == 2
    bucket.crew.check()
    assert bucket.crew.place.keys_with(layout.LOCK) == []


def test_9_a_commit_that_lands_late_is_not_applied_twice(network: Network, kind: Kind) -> None:
    looks = network.proxy.watch("pg_xact_status")
    fault = network.proxy.late(kind.request, skip=1)
    worker = network.start("ada")
    wait_until(lambda: fault.hits == 1, "a commit to be held")
    if kind.on == "postgres":
        # Its transaction is open until it lands, which its writer waits for.
        wait_until(lambda: looks.done >= 3, "the writer to look what became of it")
        fault.release()
    worker.wait()
    before = network.crew.check()
    fault.release()
    wait_until(lambda: fault.done == 1, "the commit to land")
    assert network.crew.check() == before
    assert len(before.files) == 2


@pytest.mark.in_turn("kind", "others")
@pytest.mark.parametrize("others", [0, 2])
def test_9_a_commit_that_lands_after_its_writer_died_is_found_by_the_rerun(
    network: Network, kind: Kind, others: int
) -> None:
    fault = network.proxy.late(kind.request, skip=1)
    killed = network.start("ada")
    wait_until(lambda: fault.hits == 1, "a commit to be held")
    killed.kill().killed()
    other = network.start("bea", files=others) if others else None
    if other and kind.on != "postgres":
        other.wait()
    fault.release()
    wait_until(lambda: fault.done == 1, "the commit to land")
    if other:
        other.wait()
    network.crew.check(orphans=None)
    network.start("ada").wait()
    assert network.crew.count() == 2 + others


def test_10_what_had_no_effect_because_of_others_is_tried_again(network: Network, kind: Kind) -> None:
    faults = [network.proxy.error(kind.request, times=2, **each) for each in CONFLICTS[kind.on]]
    network.start("ada").wait()
    assert [fault.hits for fault in faults] == [2] * len(faults)
    assert network.crew.count() == 2


def test_11_storms_of_refusals_are_weathered(network: Network, kind: Kind) -> None:
    storm = [
        network.proxy.error(MINE[kind.on], times=4, seed=seed, **each) for seed, each in enumerate(STORMS[kind.on])
    ]
    workers = [network.start(name, schema=number) for number, name in enumerate(("ada", "bea"))]
    for worker in workers:
        worker.wait()
    assert sum(fault.hits for fault in storm) > 0
    assert network.crew.count() == 4


def test_12_connections_that_break_in_the_middle_leave_nothing_partial(bucket: Network) -> None:
    faults = [
        getattr(bucket.proxy, damage)(rf"^{method} .*/t/s/", times=2)
        for damage in ("cut_request", "cut_reply")
        for method in ("PUT", "GET")
    ]
    bucket.start("ada").wait()
    assert all(fault.hits for fault in faults)
    assert bucket.crew.count() == 2


@of_kinds(lambda kind: kind.on == "lake")
def test_13_an_upload_that_arrives_short_is_not_listed(bucket: Network) -> None:
    fault = bucket.proxy.truncate(UPLOAD, skip=1)
    ada = bucket.start("ada")
    assert "storage reports another size than was uploaded" in ada.failed()
    assert fault.hits == 1
    assert ada.files[1] not in [file.id for file in bucket.crew.check(orphans=None).files]
    bucket.start("ada").wait()
    assert bucket.crew.count() == 2


def test_25_a_lake_on_storage_that_ignores_conditions(bucket: Network, kind: Kind, s3: S3Server) -> None:
    s3.ignore_conditions()
    worker = bucket.crew.start("ada", place=replace(bucket.reached, honoured=None))
    if kind.name == "log":
        assert "ignores conditional writes" in worker.failed()
        assert data_files(bucket.crew.place) == []
        return
    worker.wait()
    assert ("best effort" in worker.log) is (kind.name == "lockfile")
    assert bucket.crew.count() == 2
