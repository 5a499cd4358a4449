"""Objects in clouds as sources."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from singerlake.adapters import open_storage
from singerlake.attached.sources.https import WebFiles
from singerlake.attached.sources.locations import Allowed, CloudObject, LocalFile, parse_location
from singerlake.attached.sources.open_source import CloudObjects, FileSources
from singerlake.attached.sources.source import Deadline
from singerlake.clock import random_id
from singerlake.errors import AccessDeniedError, SettingError, StorageUnavailableError, UnreadableSourceError
from singerlake.storage.port import Storage
from singerlake.storage.settings import StorageSettings
from tests.fakes import FakeClock, counting_ids
from tests.servers.s3 import S3Server
from tests.storage.memory import MemoryStorage, Step

SMALL = 10


@pytest.fixture
def bucket() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


def opening(bucket: Storage) -> Callable[[str], Storage]:
    return lambda root: bucket


def read(objects: CloudObjects, key: str) -> tuple[bytes, int | None, str]:
    source = objects.open(CloudObject("s3", "bucket", key))
    body = b""
    while data := source.stream.read(7):
        body += data
    source.stream.close()
    return body, source.size, source.name


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 1000])
def test_an_object_is_read_whole(bucket: MemoryStorage, size: int) -> None:
    bucket.put("a/b.jpg", b"x" * size)
    assert read(CloudObjects(opening(bucket), SMALL), "a/b.jpg") == (b"x" * size, size, "b.jpg")


def test_a_small_one_is_one_request(bucket: MemoryStorage) -> None:
    steps: list[Step] = []
    bucket.put("a", b"x" * SMALL)
    bucket.put("b", b"x" * (SMALL + 1))
    objects = CloudObjects(opening(bucket), SMALL)
    bucket.hook = steps.append
    read(objects, "a")
    assert {step.operation for step in steps} == {"beginning"}
    read(objects, "b")
    assert {step.operation for step in steps} == {"beginning", "head", "open"}


@pytest.mark.parametrize("key", ["none", "", "a//b", "/a", "a/", ".tmp-x"])
def test_what_is_not_there_cannot_be_read(bucket: MemoryStorage, key: str) -> None:
    with pytest.raises(UnreadableSourceError, match=r"^it cannot be read"):
        read(CloudObjects(opening(bucket), SMALL), key)


def test_trouble_of_the_storage_is_trouble_of_the_source(bucket: MemoryStorage) -> None:
    def failing(step: Step) -> None:
        raise StorageUnavailableError("storage does not answer")

    bucket.put("a", b"x")
    objects = CloudObjects(opening(bucket), SMALL)
    bucket.hook = failing
    with pytest.raises(UnreadableSourceError, match="storage does not answer"):
        read(objects, "a")


class Breaking(MemoryStorage):
    """Breaks off in the middle of each object."""

    def open(self, key: str, start: int = 0, end: int | None = None) -> object:  # type: ignore[override]
        class Stream:
            def read(self, size: int) -> bytes:
                raise StorageUnavailableError("a read broke off")

            def close(self) -> None:
                pass

        return Stream()


def test_so_is_a_read_that_breaks_off() -> None:
    bucket = Breaking(clock=FakeClock(), ids=counting_ids())
    bucket.put("a", b"x" * 100)
    with pytest.raises(UnreadableSourceError, match="a read broke off"):
        read(CloudObjects(opening(bucket), SMALL), "a")


@pytest.mark.parametrize("body", [b"y" * 100, None])
def test_an_object_that_is_replaced_meanwhile_is_not_whole(bucket: MemoryStorage, body: bytes | None) -> None:
    def replacing(step: Step) -> None:
        if step.operation == "open" and step.done:
            bucket.hook = lambda step: None
            if body is None:
                bucket.delete("a")
            else:
                bucket.put("a", body)

    bucket.put("a", b"x" * 100)
    bucket.hook = replacing
    with pytest.raises(UnreadableSourceError, match="changed while it was read") as caught:
        read(CloudObjects(opening(bucket), SMALL), "a")
    assert caught.value.passing


def test_the_next_step_is_that_of_the_trouble(bucket: MemoryStorage) -> None:
    def failing(step: Step) -> None:
        raise AccessDeniedError("storage denied access", hint="grant s3:GetObject, and check lake_root")

    for key, hint in (("none", "correct the tap or the file"), ("a//b", "correct the tap or the file")):
        with pytest.raises(UnreadableSourceError) as caught:
            read(CloudObjects(opening(bucket), SMALL), key)
        assert caught.value.hint.startswith(hint)
    bucket.hook = failing
    with pytest.raises(UnreadableSourceError) as caught:
        read(CloudObjects(opening(bucket), SMALL), "a")
    assert caught.value.hint == "grant s3:GetObject, and check file_sources, or set on_missing_file to record"


def test_a_bucket_is_opened_once(bucket: MemoryStorage) -> None:
    roots: list[str] = []
    bucket.put("a", b"x")

    def opened(root: str) -> Storage:
        roots.append(root)
        return bucket

    objects = CloudObjects(opened, SMALL)
    read(objects, "a")
    read(objects, "a")
    assert roots == ["s3://bucket"]


def sources(*entries: str, open_bucket: Callable[[str], Storage]) -> FileSources:
    allowed = Allowed.parse(entries)
    return FileSources(allowed, open_storage=open_bucket, small=SMALL, web=WebFiles(allowed))


def deadline() -> Deadline:
    return Deadline(FakeClock(), 60)


def test_a_bucket_that_no_cloud_can_have_is_a_wrong_setting() -> None:
    with pytest.raises(SettingError, match=r"file_sources has a bucket name.*entry='s3://no_bucket!'") as caught:
        sources("s3://bucket", "s3://no_bucket!/a", open_bucket=open_storage)
    assert "lake_root" not in str(caught.value)


def test_only_objects_of_the_list_are_read(bucket: MemoryStorage) -> None:
    for key in ("photos/a", "private/a", "photos2/a"):
        bucket.put(key, b"x")
    opener = sources("s3://bucket/photos", open_bucket=opening(bucket))
    assert opener.open("s3://bucket/photos/a", deadline()).stream.read(10) == b"x"
    steps: list[Step] = []
    bucket.hook = steps.append
    for text in ("s3://bucket/private/a", "s3://bucket/photos2/a", "gs://bucket/photos/a", "s3://other/photos/a"):
        with pytest.raises(UnreadableSourceError, match="not allowed"):
            opener.open(text, deadline())
    assert steps == []


def test_a_path_is_opened_as_a_path() -> None:
    assert isinstance(parse_location("/a"), LocalFile)
    with pytest.raises(UnreadableSourceError, match="not allowed"):
        sources(open_bucket=open_storage).open("/etc/passwd", deadline())


def test_a_real_server_gives_what_its_credentials_allow(s3: S3Server) -> None:
    name = s3.create_bucket(f"photos-{random_id()}")
    s3.client().put_object(Bucket=name, Key="a b#?é.jpg", Body=b"a photo")
    settings = StorageSettings(s3=s3.settings(patience_seconds=0))
    opener = sources(f"s3://{name}", open_bucket=partial(open_storage, settings=settings))
    source = opener.open(f"s3://{name}/a b#?é.jpg", deadline())
    assert (source.stream.read(100), source.size) == (b"a photo", 7)
    s3.fail("GET", status=403, code="AccessDenied")
    with pytest.raises(UnreadableSourceError, match="cannot be read") as denied:
        opener.open(f"s3://{name}/a b#?é.jpg", deadline())
    assert denied.value.hint.endswith("or set on_missing_file to record")
    assert "lake_root" not in denied.value.hint
    with pytest.raises(UnreadableSourceError, match="cannot be read"):
        opener.open(f"s3://{name}/none", deadline())
    none = f"none-{random_id()}"
    with pytest.raises(UnreadableSourceError, match="the bucket does not exist"):
        sources(f"s3://{none}", open_bucket=partial(open_storage, settings=settings)).open(f"s3://{none}/a", deadline())
