"""What looking after a lake costs: joining 10,000 small files, and joining some where a million are listed; reading
everything to check it, or to make the manifest again."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.commits import million
from bench.commits.committing import SCHEMA, VERSION, new_file
from bench.measure import Command, Row, paired, peak
from bench.upkeep import checking, rebuilding
from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest
from singerlake.singer_file import compress_member

FILES = 10_000
FILE_BYTES = 100_000
TARGETS = 8
RUNS = 3
SMALL = 100_000
SMALL_BYTES = 1400
_LARGE = 100 << 20
_SMALL = 1000
_TOGETHER = 200
_STREAM = layout.stream_prefix("bench", "orders")


def rows(cache: Path) -> Iterator[Row]:
    """On the disk of the cache folder, where ``cat`` and ``sha256sum`` do their part as well."""
    work = cache / "maintenance"
    shutil.rmtree(work, ignore_errors=True)
    try:
        yield _vacuum(work / "many")
        for kind in ("log", "lockfile"):
            yield from _million(work / kind, kind)
            shutil.rmtree(work / kind)
        shutil.rmtree(work)
        yield from checking.rows(work)
        yield _rebuild(work / "small")
        shutil.rmtree(work)
        yield rebuilding.row(work / "made-up")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _vacuum(folder: Path) -> Row:
    lake = folder / "lake"
    files = _files(lake, FILES, FILE_BYTES)
    state = _state(files)
    originals = {file.path for file in files}
    share = -(-FILES // TARGETS)
    for number in range(TARGETS):
        own = files[number * share : (number + 1) * share]
        (folder / f"list{number}").write_text("\n".join(str(lake / _STREAM / file.path) for file in own))

    def restore() -> None:
        """The lake as it was before the vacuum; the disk is done with what was written before."""
        (lake / _STREAM / layout.MANIFEST).write_bytes(to_json(state))
        for path in (lake / _STREAM / layout.to_segment(VERSION)).iterdir():
            if f"{path.parent.name}/{path.name}" not in originals:
                path.unlink()
        for path in folder.glob("out*"):
            path.unlink()
        os.sync()

    joined = "for n in list*; do xargs cat < $n > out${n#list}; done; sha256sum out*"
    return paired(
        f"vacuum of {FILES:,} files of {FILE_BYTES // 1000} kB",
        Command(_argv(lake), setup=restore),
        f"cat into {TARGETS} files and sha256sum of them",
        Command(["sh", "-c", f"cd '{folder}'; {joined}"], setup=restore),
        bound=2.0,
        runs=RUNS,
    )


def _rebuild(lake: Path) -> Row:
    """Small files, as streams that are loaded every minute have them: those that are larger than 64 kB have to be read
    whole, which the other side does not."""
    _files(lake, SMALL, SMALL_BYTES)
    manifest = lake / _STREAM / layout.MANIFEST
    return paired(
        f"rebuild of {SMALL:,} files of {SMALL_BYTES / 1000:g} kB",
        Command([*_command("rebuild"), str(lake), "--yes"], setup=lambda: manifest.unlink(missing_ok=True)),
        "list them, read 64 kB of each",
        Command([sys.executable, "-m", "bench.upkeep.heads", str(lake)]),
        bound=5.5,
        runs=RUNS,
    )


def _million(lake: Path, kind: str) -> Iterator[Row]:
    """Of the large files a collection asks whether they are there, and no more; so they are empty."""
    small = _files(lake, _SMALL, FILE_BYTES)
    listed = million.manifest(kind, million.FILES - _SMALL)
    large = [msgspec.structs.replace(file, bytes=_LARGE) for file in listed.files]
    start = large[-1].end
    moved = [msgspec.structs.replace(file, offset=start + at) for at, file in enumerate(small)]
    body = to_json(msgspec.structs.replace(listed, files=[*large, *moved], next_offset=moved[-1].end))
    for file in large:
        (lake / _STREAM / file.path).touch()
    (lake / _STREAM / layout.MANIFEST).write_bytes(body)
    where = f"where {million.FILES:,} files are listed"
    vacuum = [*_argv(lake), f"--target-bytes={_TOGETHER * FILE_BYTES * 21 // 20}"]
    joins = f"{kind}: memory, vacuum of {_SMALL:,} files into {_SMALL // _TOGETHER} {where}"
    yield peak(joins, Command(vacuum), bound_mb=million.BOUND_MB, runs=1)
    collect = [*_command("gc"), str(lake), "--delete", "--grace=0s", "--keep=0"]
    yield peak(f"{kind}: memory, gc {where}", Command(collect), bound_mb=million.BOUND_MB, runs=1)


def _argv(lake: Path) -> Sequence[str]:
    return [*_command("vacuum"), str(lake), "--yes"]


def _command(name: str) -> Sequence[str]:
    return [str(Path(sys.executable).with_name("singerlake")), name]


def _files(lake: Path, count: int, size: int) -> list[DataFile]:
    """So many files of one incompressible record each, which differ in what their headers say."""
    folder = lake / _STREAM
    (folder / layout.to_segment(VERSION)).mkdir(parents=True)
    line = msgspec.json.encode(
        {"type": "SCHEMA", "stream": "orders", "schema": SCHEMA.schema, "key_properties": list(SCHEMA.key_properties)}
    )
    text = os.urandom(size * 14 // 15).hex()
    record = msgspec.json.encode({"type": "RECORD", "stream": "orders", "record": {"id": 1, "text": text}})
    data = compress_member(record + b"\n", 1)
    made = []
    for offset in range(count):
        header = FileHeader(id=random_id(), created="2026-01-01T00:00:00.000000Z", run="bench", seq=offset)
        head = compress_member(line + b"\n", 1, extra=msgspec.json.encode(header))
        described = new_file()
        name = described.path.replace(described.id, header.id)
        (folder / name).write_bytes(head + data)
        facts = {
            "id": header.id,
            "path": name,
            "messages": 1,
            "records": 1,
            "bytes": len(head) + len(data),
            "raw_bytes": len(line) + len(record) + 2,
            "sha256": hashlib.sha256(head + data).hexdigest(),
            "members": ((len(head), 1),),
            "offset": offset,
        }
        made.append(DataFile(**msgspec.structs.asdict(described) | facts))
    return made


def _state(files: Sequence[DataFile]) -> Manifest:
    empty = million.manifest("lockfile", 0)
    return msgspec.structs.replace(empty, files=files, next_offset=files[-1].end)
