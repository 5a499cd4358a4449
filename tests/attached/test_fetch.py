"""Files that are read whole: in memory or in the spool, within their limits."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from singerlake.attached.keep import TRIES, Fetched, Fetcher, InlineBytes, inline
from singerlake.attached.sources.local import LocalFiles
from singerlake.attached.sources.locations import LocalFile
from singerlake.attached.sources.source import Deadline, OpenedFile
from singerlake.clock import SystemClock
from singerlake.errors import AccessDeniedError, StorageFullError, StorageUnavailableError, UnreadableSourceError
from tests.fakes import FakeClock

IN_MEMORY, MOST = 10, 1000


@dataclass
class Files:
    """Sources of a test's own, by name; ``opened`` are the streams that were opened."""

    bodies: dict[str, Callable[[], io.RawIOBase | io.BytesIO]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    opened: list[io.IOBase] = field(default_factory=list)

    def open(self, text: str, deadline: Deadline) -> OpenedFile:
        stream = self.bodies[text]()
        self.opened.append(stream)
        return OpenedFile(stream, self.sizes.get(text), text)  # type: ignore[arg-type]

    def close(self) -> None:
        pass


@dataclass
class Bench:
    folder: Path
    files: Files = field(default_factory=Files)
    clock: FakeClock = field(default_factory=FakeClock)
    spooled: int = 0

    def spool(self) -> Path:
        self.spooled += 1
        return self.folder / f"{self.spooled:016d}"

    def fetch(self, name: str, seconds: float = 60) -> Fetched:
        fetcher = Fetcher(self.files, self.spool, MOST, self.clock, IN_MEMORY)
        try:
            return fetcher.fetch(name, Deadline(self.clock, seconds))
        finally:
            assert all(stream.closed for stream in self.files.opened)

    def has(self, name: str, body: bytes, size: int | None = None) -> None:
        self.files.bodies[name] = lambda: io.BytesIO(body)
        if size is not None:
            self.files.sizes[name] = size


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [0, 1, IN_MEMORY, IN_MEMORY + 1, MOST])
def test_a_file_is_in_memory_or_in_the_spool(bench: Bench, size: int, known: bool) -> None:
    body = os.urandom(size)
    bench.has("a.jpg", body, size if known else None)
    fetched = bench.fetch("a.jpg")
    assert (fetched.sha256, fetched.size, fetched.media_type) == (hashlib.sha256(body).hexdigest(), size, "image/jpeg")
    if size <= IN_MEMORY:
        assert fetched.body == body
        assert bench.spooled == 0
    else:
        assert isinstance(fetched.body, Path)
        assert fetched.body.read_bytes() == body
    fetched.drop()
    fetched.drop()
    assert list(bench.folder.iterdir()) == []


@pytest.mark.parametrize("known", [True, False])
def test_one_that_is_too_large_leaves_nothing(bench: Bench, known: bool) -> None:
    bench.has("a", b"x" * (MOST + 1), MOST + 1 if known else None)
    with pytest.raises(UnreadableSourceError, match=f"more than {MOST:,} bytes"):
        bench.fetch("a")
    assert list(bench.folder.iterdir()) == []
    assert len(bench.files.opened) == 1


@pytest.mark.parametrize("size", [2, 200])
@pytest.mark.parametrize("said", [1, 3, 300])
def test_one_of_another_size_than_it_said_is_not_whole(bench: Bench, size: int, said: int) -> None:
    bench.has("a", b"x" * size, said)
    with pytest.raises(UnreadableSourceError, match="ends early, or changed"):
        bench.fetch("a")
    assert len(bench.files.opened) == TRIES
    assert list(bench.folder.iterdir()) == []


def test_what_passes_is_tried_again_and_what_does_not_is_not(bench: Bench) -> None:
    def failing(passing: bool) -> io.BytesIO:
        if len(bench.files.opened) + tries[0] < TRIES - 1:
            tries[0] += 1
            raise UnreadableSourceError("gone", passing=passing)
        return io.BytesIO(b"x")

    tries = [0]
    bench.files.bodies["a"] = lambda: failing(True)
    assert bench.fetch("a").body == b"x"
    assert bench.clock.seconds > 0
    tries = [-10]
    bench.files.bodies["a"] = lambda: failing(False)
    with pytest.raises(UnreadableSourceError, match="gone"):
        bench.fetch("a")
    assert tries == [-9]


def test_it_does_not_wait_beyond_its_time(bench: Bench) -> None:
    def failing() -> io.BytesIO:
        raise UnreadableSourceError("gone", passing=True)

    bench.files.bodies["a"] = failing
    with pytest.raises(UnreadableSourceError, match="takes too long"):
        bench.fetch("a", seconds=0.05)
    assert bench.clock.seconds == 0.05


def test_a_source_that_never_ends_is_left_at_its_limit_or_when_the_time_is_over(bench: Bench) -> None:
    class Endless(io.RawIOBase):
        def __init__(self, each: bytes) -> None:
            self.each = each

        def read(self, size: int = -1) -> bytes:
            bench.clock.seconds += 1
            return self.each

    bench.files.bodies["fast"] = lambda: Endless(b"x" * 100)
    with pytest.raises(UnreadableSourceError, match="more than"):
        bench.fetch("fast")
    bench.files.bodies["slow"] = lambda: Endless(b"x")
    with pytest.raises(UnreadableSourceError, match="takes too long"):
        bench.fetch("slow")
    assert list(bench.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "error"), [(errno.ENOSPC, StorageFullError), (errno.EACCES, AccessDeniedError)], ids=["full", "denied"]
)
def test_a_spool_that_takes_no_more_is_trouble_of_the_run(
    bench: Bench, code: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: Path, mode: str) -> io.RawIOBase:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "open", opened)
    bench.has("a", b"x" * 100)
    with pytest.raises(error):
        bench.fetch("a")


def test_so_is_a_spool_that_is_gone(bench: Bench) -> None:
    bench.folder = bench.folder / "gone"
    bench.has("a", b"x" * 100)
    with pytest.raises(StorageUnavailableError, match="the spool cannot be written: no such file"):
        bench.fetch("a")


def test_a_sparse_file_of_many_gigabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)

    class Local(Files):
        def open(self, text: str, deadline: Deadline) -> OpenedFile:
            return LocalFiles([str(tmp_path)]).open(LocalFile(text))

    clock = SystemClock()
    fetcher = Fetcher(Local(), lambda: tmp_path / "spool", 5 << 30, clock)
    with pytest.raises(UnreadableSourceError, match="more than"):
        fetcher.fetch(str(tmp_path / "sparse"), Deadline(clock, 60))


def test_bytes_of_a_record_are_a_file() -> None:
    fetched = inline(InlineBytes(b"abc", "image/png"))
    assert fetched == Fetched(hashlib.sha256(b"abc").hexdigest(), 3, "image/png", b"abc")
