"""What a lake needs of this machine and of its storage, tried out: what to look at first where something fails."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from singerlake.errors import (
    AccessDeniedError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.format import layout
from singerlake.glance import at_a_glance
from singerlake.humanize import counted, lasting, shown, size
from singerlake.storage.probe import storage_time
from singerlake.upkeep.context import LakeContext
from singerlake.work.machine import memory, processors

Level = Literal["ok", "warning", "critical"]
Subject = Literal["software", "libraries", "machine", "lake", "store", "write", "delete", "conditions", "clock"]
Step = Callable[[LakeContext], Iterator["DoctorCheck"]]
_LIBRARIES = ("pyarrow", "pyspark", "duckdb", "psycopg", "azure-storage-blob", "google-cloud-storage", "meltano")
_LITTLE_ROOM = 1 << 30
"""Bytes in the folder for temporary files: a capture holds there what it has not uploaded yet."""
_MOST_TAPS = 20
"""Taps of which the first stream is looked at."""
_APART = timedelta(seconds=60)
"""Between two clocks. Servers of S3 refuse requests at 15 minutes."""
_SECOND = timedelta(seconds=1)
"""What the time of a stored object is rounded to."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """What was seen of one subject. ``hint`` is the next step, empty where nothing is wrong."""

    subject: Subject
    level: Level
    message: str
    hint: str = ""


@at_a_glance
@dataclass(frozen=True, slots=True)
class DoctorResult:
    """All that was tried, in that order. ``level`` is the gravest one."""

    lake: str
    level: Level
    checks: tuple[DoctorCheck, ...]


def examine(lake: LakeContext) -> DoctorResult:
    """As ``Lake.doctor``, which says what it does."""
    checks = (_software(), _libraries(), _machine(), *_storage(lake))
    levels = {each.level for each in checks}
    level: Level = "critical" if "critical" in levels else "warning" if "warning" in levels else "ok"
    return DoctorResult(lake.storage.url, level, checks)


def _software() -> DoctorCheck:
    version = importlib.metadata.version("singerlake")
    seen = f"singerlake {version}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if find_spec("singerlake.format.lines._lines") is None:
        hint = "install a C compiler and singerlake again, or a wheel for this platform: captures take longer without"
        return DoctorCheck("software", "warning", f"{seen}; its C modules are not there", hint)
    return DoctorCheck("software", "ok", seen)


def _libraries() -> DoctorCheck:
    found = []
    for name in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return DoctorCheck("libraries", "ok", ", ".join(found) or "none of those that readers and tables use")


def _machine() -> DoctorCheck:
    folder = tempfile.gettempdir()
    free, may_take = shutil.disk_usage(folder).free, memory()
    seen = [counted(processors(), "core"), f"{size(free)} free in {shown(folder)}"]
    if may_take is not None:
        seen.insert(1, f"{size(may_take)} of memory")
    if free < _LITTLE_ROOM:
        hint = "free some, or set TMPDIR to a folder with more: captures and tables hold there what is not uploaded yet"
        return DoctorCheck("machine", "warning", ", ".join(seen), hint)
    return DoctorCheck("machine", "ok", ", ".join(seen))


def _storage(lake: LakeContext) -> Iterator[DoctorCheck]:
    """All that asks storage. A step that fails ends it only where storage does not answer at all."""
    steps: Mapping[Subject, Step] = {"lake": _lake, "store": _stores, "write": _writes}
    for subject, step in steps.items():
        try:
            yield from step(lake)
        except SingerlakeError as error:
            yield _failed(subject, error)
            if isinstance(error, NoSuchBucketError | StorageUnavailableError):
                return


def _failed(subject: Subject, error: SingerlakeError, level: Level = "critical", without: str = "") -> DoctorCheck:
    context = ", ".join(f"{name}={value!r}" for name, value in error.context.items())
    message = f"{error.message} ({context})" if context else error.message
    return DoctorCheck(subject, level, message, "; ".join(filter(None, (without, error.hint))))


def _lake(lake: LakeContext) -> Iterator[DoctorCheck]:
    metadata, taps = lake.root_metadata(), lake.taps()
    if metadata is None and not taps:
        yield DoctorCheck("lake", "ok", "nothing is here yet: the first capture makes the lake")
    elif metadata is None:
        hint = "the next capture writes it again; 'singerlake verify' says what else is missing"
        yield DoctorCheck("lake", "warning", f"{counted(len(taps), 'tap')}, and no {layout.root_metadata_key()}", hint)
    else:
        store = f"new streams are kept by {metadata.manifest_store}"
        yield DoctorCheck("lake", "ok", f"{counted(len(taps), 'tap')}; {store}")


def _stores(lake: LakeContext) -> Iterator[DoctorCheck]:
    """Each manifest store that keeps the first stream of one of the first taps."""
    seen = set()
    for tap in lake.taps()[:_MOST_TAPS]:
        for name in lake.streams(tap)[:1]:
            stream = lake.stream(tap, name)
            kind = stream.kind()
            if kind is None or kind in seen:
                continue
            seen.add(kind)
            try:
                stream.store(kind).load()
                yield DoctorCheck("store", "ok", f"a state was read from {kind}")
            except SettingError as error:
                yield _failed("store", error, "warning", "readers need no database; captures do")


def _writes(lake: LakeContext) -> Iterator[DoctorCheck]:
    storage, before = lake.storage, lake.clock.now()
    if "://" not in storage.url and not (folder := Path(storage.url)).exists():
        above = next(each for each in folder.parents if each.exists())
        writable = os.access(above, os.W_OK | os.X_OK)
        what = f"{above} can{'' if writable else 'not'} be written, where the folder of the lake will be"
        yield DoctorCheck(
            "write", "ok" if writable else "critical", what, "" if writable else "choose a folder that is yours"
        )
        return
    try:
        there = storage_time(storage, ids=lake.ids)
    except AccessDeniedError as error:
        yield _failed("write", error, "warning", "readers need not write; captures and upkeep do")
        return
    yield DoctorCheck("write", "ok", "an object was written and read back")
    yield _clock(there, before, lake.clock.now())
    try:
        # Where nothing is, nothing is deleted, and a storage says whether it would be allowed.
        storage.delete(f"{layout.RAW}/{lake.ids()}")
        yield DoctorCheck("delete", "ok", "objects can be deleted")
    except AccessDeniedError as error:
        yield _failed("delete", error, "warning", "only gc, drop, and erase and expire with --now delete")
    able = storage.capabilities()
    if able.conditional_put:
        also = "" if able.conditional_delete else ", deletes with conditions are not"
        yield DoctorCheck("conditions", "ok", f"writes with conditions are honoured{also}")
    else:
        hint = "keep streams in postgres or dynamodb; see docs/explanation/stores.md"
        what = "writes with conditions are not honoured: run one writer a stream, and no tables"
        yield DoctorCheck("conditions", "warning", what, hint)


def _clock(there: datetime, before: datetime, after: datetime) -> DoctorCheck:
    apart = max(before - _SECOND - there, there - after - _SECOND, timedelta(0))
    if apart < _APART:
        return DoctorCheck("clock", "ok", f"within {lasting(_APART)} of storage's")
    side = "ahead of" if there < before else "behind"
    hint = "set the clock by NTP: storage refuses requests of a clock that is far off"
    return DoctorCheck("clock", "warning", f"{lasting(apart)} {side} storage's", hint)
