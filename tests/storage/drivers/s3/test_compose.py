"""How S3 makes an object of others: which parts its server copies, and what happens when it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake import errors
from singerlake.storage.cloud.compose import arranged
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.s3.upload import LEAST
from singerlake.storage.port import Part
from tests.servers.s3 import ALWAYS, S3Server
from tests.storage.buckets import body

LARGE, SMALL = b"l" * (LEAST + 1000), b"s" * 1000
MIB = 1 << 20
COPY = "x-amz-copy-source"


def objects(storage: CloudStorage) -> None:
    storage.put("large", LARGE)
    storage.put("small", SMALL)


def of(key: str) -> Part:
    return Part(key, 0, len(LARGE if key == "large" else SMALL))


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(0, 60)), max_size=12),
    st.sampled_from([(5, 8, 20), (5, 5, 10), (1, 3, 1000), (10, 30, 25)]),
    st.booleans(),
)
def test_every_arrangement_gives_the_bytes_in_parts_of_legal_sizes(
    drawn: list[tuple[bool, int, int]], sizes: tuple[int, int, int], copy: bool
) -> None:
    least, sent, longest = sizes
    pieces = [
        bytes([at]) * size if given else Part(str(at), start, start + size)
        for at, (given, start, size) in enumerate(drawn)
    ]
    parts = list(arranged(pieces, least=least, sent=sent, longest=longest, copy=copy))
    assert [bit for part in parts for bit in bits(part)] == [bit for piece in pieces for bit in bits(piece)]
    lengths = [len(bits(part)) for part in parts]
    assert all(length >= least for length in lengths[:-1])
    assert 0 not in lengths
    assert all(len(bits(part)) <= longest for part in parts if isinstance(part, Part))
    assert all(len(bits(part)) < sent + 2 * least for part in parts if not isinstance(part, Part))
    assert copy or not any(isinstance(part, Part) for part in parts)
    fetched = sum(piece.size for part in parts if isinstance(part, list) for piece in part if isinstance(piece, Part))
    copyable = sum(piece.size for piece in pieces if isinstance(piece, Part) and piece.size >= 2 * least)
    whole = sum(piece.size for piece in pieces if isinstance(piece, Part))
    enough = sum(isinstance(piece, Part) and piece.size >= 2 * least for piece in pieces)
    assert not copy or fetched <= whole - copyable + enough * least


def bits(piece: bytes | Part | list[bytes | Part]) -> list[tuple[object, int]]:
    """Every byte by where it comes from."""
    if isinstance(piece, list):
        return [bit for each in piece for bit in bits(each)]
    if isinstance(piece, Part):
        return [(piece.key, at) for at in range(piece.start, piece.end)]
    return [(byte, 0) for byte in piece]


def test_the_server_copies_what_is_large_enough(s3: S3Server, storage: CloudStorage) -> None:
    objects(storage)
    s3.requests()
    storage.compose("made", [of("large"), of("large"), of("small")])
    copies = [request for request in s3.requests() if COPY in request.headers]
    assert len(copies) == 2
    assert body(storage, "made") == LARGE * 2 + SMALL


def test_small_objects_alone_are_one_put(s3: S3Server, storage: CloudStorage) -> None:
    objects(storage)
    s3.requests()
    storage.compose("made", [b"front", of("small"), of("small")])
    assert [request.method for request in s3.requests()] == ["GET", "GET", "PUT", "HEAD"]


@pytest.mark.parametrize(
    ("status", "code"),
    [(501, "NotImplemented"), (405, "MethodNotAllowed"), (404, "NoSuchKey"), (404, ""), (400, "InvalidRequest")],
)
def test_a_server_that_cannot_copy_parts_is_sent_them(
    s3: S3Server, storage: CloudStorage, status: int, code: str
) -> None:
    objects(storage)
    pieces = [of("large"), of("small"), of("large")]
    s3.fail("PUT", status=status, code=code, key_contains="made")
    storage.compose("made", pieces)
    assert body(storage, "made") == LARGE + SMALL + LARGE
    assert uploads(s3, storage) == []


def test_a_server_that_decodes_the_names_of_sources_twice_is_sent_them(s3: S3Server, storage: CloudStorage) -> None:
    storage.put("c3%2693%23l/large", LARGE)
    storage.put("plain", LARGE)
    s3.decode_copy_sources_twice()
    s3.requests()
    percent, plain = (Part(key, 0, len(LARGE)) for key in ("c3%2693%23l/large", "plain"))
    storage.compose("made", [plain, percent, b"end"])
    copies = [request.headers[COPY] for request in s3.requests() if COPY in request.headers]
    assert [source.rpartition("/")[2] for source in copies] == ["plain", "large"]
    assert body(storage, "made") == LARGE * 2 + b"end"
    assert uploads(s3, storage) == []


def test_a_source_that_is_gone_is_missing_on_a_server_that_does_not_find_sources(
    s3: S3Server, storage: CloudStorage
) -> None:
    s3.decode_copy_sources_twice()
    with pytest.raises(errors.MissingFileError, match="key='a%23b'"):
        storage.compose("made", [Part("a%23b", 0, len(LARGE)), b"more"])
    assert uploads(s3, storage) == []


@pytest.mark.parametrize(("status", "code"), [(404, "NoSuchUpload"), (404, "NoSuchKey")])
def test_an_upload_that_storage_forgot_is_no_missing_source(
    s3: S3Server, storage: CloudStorage, status: int, code: str
) -> None:
    objects(storage)
    s3.fail("PUT", status=status, code=code, times=ALWAYS, key_contains="made")
    with pytest.raises(errors.StorageUnavailableError, match=r"upload.*run again.*key='made'"):
        storage.compose("made", [of("large"), of("small")])


def test_an_upload_that_storage_does_not_find_at_once_goes_on(s3: S3Server, storage: CloudStorage) -> None:
    objects(storage)
    s3.fail("PUT", status=404, code="NoSuchUpload", times=2, key_contains="made")
    storage.compose("made", [of("large"), of("small")])
    assert body(storage, "made") == LARGE + SMALL


def test_an_end_whose_reply_is_lost_is_an_end(s3: S3Server, storage: CloudStorage) -> None:
    objects(storage)
    armed = []

    def arm(**_: object) -> None:
        if not armed:
            armed.append(s3.drop_reply("POST", key_contains="made"))

    storage._driver._client.meta.events.register("before-send.s3.CompleteMultipartUpload", arm)
    storage.compose("made", [of("large"), of("small")])
    assert armed
    assert body(storage, "made") == LARGE + SMALL


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_what_cannot_be_made_leaves_nothing(s3: S3Server, storage: CloudStorage, code: str) -> None:
    objects(storage)
    s3.fail("PUT", status=503, code=code, times=ALWAYS, key_contains="made")
    with pytest.raises(errors.StorageUnavailableError, match=r"made|large"):
        storage.compose("made", [of("large"), of("small")])
    s3.calm()
    assert storage.head("made") is None
    assert uploads(s3, storage) == []


def test_a_full_store_says_so(s3: S3Server, storage: CloudStorage) -> None:
    objects(storage)
    s3.fail("PUT", status=403, code="QuotaExceeded", times=ALWAYS, key_contains="made")
    with pytest.raises(errors.StorageFullError):
        storage.compose("made", [of("large"), of("small")])


def uploads(s3: S3Server, storage: CloudStorage) -> list[str]:
    """Uploads that were begun and not ended."""
    bucket = storage.url.removeprefix("s3://").partition("/")[0]
    return [each["Key"] for each in s3.client().list_multipart_uploads(Bucket=bucket).get("Uploads", [])]
