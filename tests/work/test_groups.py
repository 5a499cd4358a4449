"""Groups of files for engines in other processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from singerlake.adapters import open_storage
from singerlake.errors import AccessDeniedError, StorageUnavailableError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.port import Storage
from singerlake.upkeep.checks import VerifyTask
from singerlake.upkeep.context import data_files
from singerlake.upkeep.rebuild.survey import SurveyTask
from singerlake.upkeep.result import Finding
from singerlake.work.batches import batches, consumed, grouped, waves
from singerlake.work.engine import Threads
from singerlake.work.processes import Processes
from tests.format.state.test_fold import data_file
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA, file_bytes, record

PREFIX = layout.stream_prefix("t", "s")
CHECK = VerifyTask("s", PREFIX)
FILES = [
    msgspec.structs.replace(data_file(f"f{number}", 10, number * 10), bytes=size)
    for number, size in enumerate((5, 5, 1, 30, 4, 4, 4))
]


def test_groups_hold_so_many_bytes_and_so_many_files() -> None:
    sizes = [file.bytes for file in FILES]
    assert list(batches(sizes, int, size=10, most=9)) == [[5, 5], [1], [30], [4, 4], [4]]
    assert [len(batch) for batch in batches(sizes, int, size=1000, most=3)] == [3, 3, 1]
    assert list(grouped([], int)) == []


def test_what_was_consumed_is_held_no_longer() -> None:
    items = [1, 2, 3]
    taken = consumed(items)
    assert [next(taken), next(taken)] == [1, 2]
    assert items == [3]
    assert [*taken, *items] == [3]


def test_waves_hold_all_groups_in_their_order() -> None:
    large = [msgspec.structs.replace(file, bytes=1 << 30) for file in FILES]
    made = list(waves(large, CHECK.size, 3))
    assert [len(wave) for wave in made] == [3, 3, 1]
    assert [file for wave in made for group in wave for file in group] == large


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(25)], file_size=10)
    return lake


def test_processes_give_each_file_in_order(lake: Lake) -> None:
    files = lake.stream("t", "s").snapshot().files
    with closing(Processes(partial(open_storage, lake.storage.url), 2)) as engine:
        assert list(engine(CHECK, files)) == [(file, ()) for file in files]
        assert list(engine(CHECK, [])) == []


class Who:
    """Which process does it; one that is asked for -1 dies of that."""

    def size(self, item: int) -> int:
        return 1 << 30

    def __call__(self, storage: Storage, item: int) -> int:
        if item < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    def together(self, storage: Storage, items: Sequence[int]) -> Sequence[int]:
        return [self(storage, item) for item in items]


def test_processes_serve_one_task_after_the_other_and_end_when_they_are_closed(lake: Lake) -> None:
    with closing(Processes(partial(open_storage, lake.storage.url), 1)) as engine:
        first = {pid for _, pid in engine(Who(), [1, 2, 3])}
        assert (len(first), {pid for _, pid in engine(Who(), [4])}) == (1, first)
        with pytest.raises(StorageUnavailableError, match="was killed"):
            list(engine(Who(), [5, -1, 6]))
        second = {pid for _, pid in engine(Who(), [7])}
        assert len(second) == 1
        assert not second & first
    assert [child for child in multiprocessing.active_children() if child.pid in first | second] == []


class ImportsPandas(Who):
    """A task that converts a list as pyarrow does, and says whether that imported pandas."""

    def __call__(self, storage: Storage, item: int) -> int:
        import pyarrow as pa

        return len(pa.array([item])) + 10 * ("pandas" in sys.modules)


def test_a_process_does_not_import_pandas_for_a_list(lake: Lake) -> None:
    with closing(Processes(partial(open_storage, lake.storage.url), 1)) as engine:
        assert list(engine(ImportsPandas(), [1])) == [(1, 1)]


def test_processes_give_what_threads_give_for_any_task(lake: Lake) -> None:
    lake.storage.put(PREFIX + "x/bad.singer.gz", b"?")
    # What JSON allows and few encodings of it: text that is no Unicode, and a number of more than 64 bits.
    odd = rb'{"type":"SCHEMA","stream":"s","schema":{"title":"\ud800","minimum":-1' + b"0" * 30 + b"}}\n"
    lake.storage.put(PREFIX + "x/odd.singer.gz", file_bytes([[record(1)]], extra=None, schema=odd))
    entries = list(data_files(lake.storage, "t", "s"))
    look = SurveyTask("s", PREFIX)
    with closing(Processes(partial(open_storage, lake.storage.url), 2)) as engine:
        spread = list(engine(look, entries))
    assert spread == list(Threads(lake.storage)(look, entries))
    assert [entry for entry, _ in spread] == entries
    assert sum(isinstance(answer, Finding) for _, answer in spread) == 1


def test_what_storage_raises_in_a_process_is_raised_whole(lake: Lake, tmp_path: Path) -> None:
    files = lake.stream("t", "s").snapshot().files
    inside = tmp_path / PREFIX / files[0].path
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")
    with (
        closing(Processes(partial(open_storage, lake.storage.url), 1)) as engine,
        pytest.raises(AccessDeniedError) as raised,
    ):
        list(engine(CHECK, files))
    assert raised.value.hint == "move what it points at into the lake, or make that place the lake_root"


def killed(root: str) -> Storage:
    os.kill(os.getpid(), signal.SIGKILL)
    return open_storage(root)


def test_a_process_that_was_killed_is_told_of(lake: Lake) -> None:
    files = lake.stream("t", "s").snapshot().files
    with (
        closing(Processes(partial(killed, lake.storage.url), 1)) as engine,
        pytest.raises(StorageUnavailableError, match="was killed"),
    ):
        list(engine(CHECK, files))
