"""How Google Cloud Storage makes an object of others: what it joins itself, and what happens where it cannot."""

from __future__ import annotations

import pytest

from singerlake import errors
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.gcs import upload
from singerlake.storage.drivers.gcs.bucket import Bucket, Seen
from singerlake.storage.drivers.gcs.upload import LEAST, PARTS_PREFIX
from singerlake.storage.port import Part
from tests.servers.gcs.server import ALWAYS, GcsServer
from tests.storage.buckets import PatientlessClock, body
from tests.storage.drivers.gcs.conftest import on

LARGE = bytes(range(256)) * (LEAST // 256)
WHOLE = Part("large", 0, len(LARGE))
SOME = 1000
"""Bytes up to which everything is fetched, and of which temporary objects are at most; 16 MiB would take long."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "SENT", SOME)
    cut = upload.arranged
    monkeypatch.setattr(upload, "arranged", lambda pieces, **how: cut(pieces, sent=256 << 10, **how))


@pytest.fixture
def storage(storage: CloudStorage) -> CloudStorage:
    storage.put("large", LARGE)
    storage.put("small", b"small")
    return storage


def left(storage: CloudStorage) -> list[str]:
    return [entry.key for entry in storage.list(PARTS_PREFIX)]


def test_whole_objects_are_joined_and_not_fetched(gcs: GcsServer, storage: CloudStorage) -> None:
    gcs.requests()
    storage.compose("made", [WHOLE, Part("small", 0, 5), WHOLE])
    assert sorted(gcs.operations()) == ["compose", "look", "look", "look"]
    assert body(storage, "made") == LARGE + b"small" + LARGE


def test_what_is_no_whole_object_becomes_a_temporary_one(gcs: GcsServer, storage: CloudStorage) -> None:
    pieces = [b"head", Part("large", 1, 300_000), WHOLE, Part("large", 5, 9), b"tail"]
    gcs.requests()
    storage.compose("made", pieces)
    seen = gcs.requests()
    assert [request.operation for request in seen if request.operation in ("insert", "compose", "batch")] == [
        "insert",
        "insert",
        "insert",
        "compose",
        "batch",
    ]
    assert all(f"lake/{PARTS_PREFIX}" in request.name for request in seen if request.operation == "insert")
    assert body(storage, "made") == b"head" + LARGE[1:300_000] + LARGE + LARGE[5:9] + b"tail"
    assert left(storage) == []


@pytest.mark.parametrize("count", [32, 33, 64, 1030])
def test_any_number_of_objects_is_joined(gcs: GcsServer, storage: CloudStorage, count: int) -> None:
    pieces = [WHOLE, *[Part("small", 0, 5)] * (count - 1)]
    gcs.requests()
    storage.compose("made", pieces)
    joins = gcs.operations().count("compose")
    assert joins == {32: 1, 33: 3, 64: 3, 1030: 33 + 2 + 1}[count]
    assert body(storage, "made") == LARGE + b"small" * (count - 1)
    assert left(storage) == []


@pytest.mark.parametrize(("status", "reason"), [(501, ""), (404, ""), (403, "forbidden")])
def test_temporary_objects_are_removed_one_by_one_where_no_batch_is_known(
    gcs: GcsServer, storage: CloudStorage, status: int, reason: str
) -> None:
    gcs.fail("batch", status=status, reason=reason, times=ALWAYS)
    storage.compose("made", [WHOLE, b"end"])
    assert left(storage) == []


def test_temporary_objects_alone_are_removed_by_the_join(gcs: GcsServer, storage: CloudStorage) -> None:
    """Those are not kept by soft delete, and cost nothing for having been short-lived."""
    gcs.fail("batch,delete", status=403, reason="forbidden", times=ALWAYS)
    pieces = [piece for number in range(33) for piece in (WHOLE, b"%d" % number)]
    gcs.requests()
    storage.compose("made", pieces)
    made = [request for request in gcs.requests() if request.operation == "compose"]
    assert len(made) == 4
    assert [PARTS_PREFIX in request.name for request in made] == [True, True, True, False]
    # Of the first level, only what stood beside the lake's own objects is left to be removed.
    assert len(left(storage)) == 33


class TestLostReplies:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("lost", ["compose", "insert", "look", "media", "batch"])
    def test_the_object_is_whole(self, gcs: GcsServer, storage: CloudStorage, lost: str, when: str) -> None:
        pieces = [piece for number in range(20) for piece in (WHOLE, b"%d" % number, Part("small", 1, 3))]
        if when == "before":
            gcs.drop_request(lost, times=2)
        else:
            gcs.drop_reply(lost, times=2)
        storage.compose("made", pieces)
        expected = b"".join(LARGE + b"%d" % number + b"ma" for number in range(20))
        assert body(storage, "made") == expected
        assert left(storage) == []

    def test_a_join_that_took_its_parts_away_is_known_again(self, gcs: GcsServer, storage: CloudStorage) -> None:
        """Its sources are gone when it is sent again."""
        pieces = [piece for number in range(33) for piece in (WHOLE, b"%d" % number)]
        gcs.drop_reply("compose", times=3, name_contains="lake/made")
        storage.compose("made", pieces)
        assert body(storage, "made") == b"".join(LARGE + b"%d" % number for number in range(33))

    def test_a_storm_is_waited_for(self, gcs: GcsServer, storage: CloudStorage, clock: PatientlessClock) -> None:
        gcs.fail("compose,insert,look", status=429, reason="rateLimitExceeded", retry_after="2", times=6)
        storage.compose("made", [WHOLE, b"end"])
        assert body(storage, "made") == LARGE + b"end"
        assert left(storage) == []

    def test_what_was_there_is_replaced(self, storage: CloudStorage) -> None:
        storage.put("made", b"x" * (len(LARGE) + 3))
        storage.compose("made", [WHOLE, b"end"])
        assert body(storage, "made") == LARGE + b"end"


class TestServersThatDoNotJoin:
    @pytest.mark.parametrize(
        ("status", "reason"), [(501, ""), (400, "invalid"), (405, ""), (404, "notFound"), (403, "forbidden")]
    )
    def test_everything_is_fetched_and_sent(
        self, gcs: GcsServer, storage: CloudStorage, status: int, reason: str
    ) -> None:
        gcs.fail("compose", status=status, reason=reason, times=ALWAYS)
        storage.compose("made", [b"head", WHOLE, Part("large", 3, 9)])
        assert body(storage, "made") == b"head" + LARGE + LARGE[3:9]
        assert left(storage) == []

    def test_objects_of_several_classes_are_fetched_and_sent(self, gcs: GcsServer, storage: CloudStorage) -> None:
        driver = storage._driver
        driver._bucket.put("lake/cold", LARGE, generation=None, storage_class="NEARLINE")
        gcs.requests()
        storage.compose("made", [WHOLE, Part("cold", 0, len(LARGE))])
        assert "compose" not in gcs.operations()
        assert body(storage, "made") == LARGE + LARGE

    def test_temporary_objects_are_of_the_class_of_the_others(self, gcs: GcsServer, storage: CloudStorage) -> None:
        storage._driver._bucket.put("lake/cold", LARGE, generation=None, storage_class="NEARLINE")
        gcs.requests()
        storage.compose("made", [b"head", Part("cold", 0, len(LARGE))])
        assert "compose" in gcs.operations()
        assert body(storage, "made") == b"head" + LARGE

    def test_a_bucket_that_keeps_objects_gets_the_whole(self, gcs: GcsServer, clock: PatientlessClock) -> None:
        storage = on(gcs.create_bucket(f"bucket-{random_id()}", keeps="retention"), gcs.settings(), clock)
        storage.put("large", LARGE)
        pieces = [piece for number in range(33) for piece in (WHOLE, b"%d" % number)]
        storage.compose("made", pieces)
        assert body(storage, "made") == b"".join(LARGE + b"%d" % number for number in range(33))
        assert left(storage) != [], "a lifecycle rule is to remove them"

    def test_what_has_no_whole_object_in_it_needs_no_temporary_one(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.requests()
        storage.compose("made", [b"x" * 5000, Part("large", 1, 600_000), Part("small", 0, 5)])
        assert set(gcs.operations()) == {"look", "media", "begin", "block"}
        assert body(storage, "made") == b"x" * 5000 + LARGE[1:600_000] + b"small"


class TestSourcesThatChange:
    def test_one_that_was_replaced_meanwhile_is_not_joined(
        self, gcs: GcsServer, storage: CloudStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._meanwhile(monkeypatch, lambda: storage.put("large", LARGE[::-1]))
        with pytest.raises(errors.StorageUnavailableError, match=r"replaced while it was joined.*'large'"):
            storage.compose("made", [WHOLE, b"end"])
        assert storage.head("made") is None
        assert left(storage) == []

    def test_one_that_was_removed_meanwhile_is_missing(
        self, gcs: GcsServer, storage: CloudStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._meanwhile(monkeypatch, lambda: storage.delete("large"))
        with pytest.raises(errors.MissingFileError, match="large"):
            storage.compose("made", [WHOLE, b"end"])
        assert storage.head("made") is None
        assert left(storage) == []

    @pytest.mark.parametrize("part", [Part("absent", 0, 5), Part("absent", 0, 5 << 20), Part("large", 0, 2 * LEAST)])
    def test_one_that_is_not_there_or_short_leaves_nothing(self, storage: CloudStorage, part: Part) -> None:
        with pytest.raises(errors.MissingFileError, match=part.key):
            storage.compose("made", [WHOLE, b"end", part])
        assert storage.head("made") is None
        assert left(storage) == []

    def test_without_permission_the_error_names_it(self, gcs: GcsServer, storage: CloudStorage) -> None:
        message = "x does not have storage.objects.create access"
        gcs.fail("insert,compose,begin", status=403, reason="forbidden", message=message, times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match=r"grant storage\.objects\.create"):
            storage.compose("made", [WHOLE, b"end"])

    def _meanwhile(self, monkeypatch: pytest.MonkeyPatch, change: object) -> None:
        """Have something happen between the look at a source and the join."""
        look, done = Bucket.look, []

        def looked(bucket: Bucket, name: str, generation: str | None = None) -> Seen | None:
            seen = look(bucket, name, generation)
            if name.endswith("large") and not done:
                done.append(name)
                change()  # type: ignore[operator]
            return seen

        monkeypatch.setattr(Bucket, "look", looked)
