"""Names of tables: such as differ in case alone, those that a stream can have, and those that an error lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singerlake.errors import ForeignManifestError, UnknownNameError
from singerlake.storage.port import Refused, Stored, Written
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.streams import everything, resolve
from singerlake.tables.maintain.drop import plan_drop
from singerlake.tables.project import run_tables
from singerlake.tables.read import LakeTable
from singerlake.tables.state.commit import published
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage
from tests.tables.tables import memory_lake, runner_of

SCHEMA = {"properties": {"id": {"type": "integer"}}}
UPPER = TableDeclaration(name="S", tap="t", stream="s")
LOWER = replace(UPPER, name="s")


class NoCaseStorage(MemoryStorage):
    """Finds a state under a name in any case, as the disks of macOS and Windows do."""

    def get(self, key: str) -> Stored | None:
        return super().get(self._there(key))

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        return super().put(self._there(key), body, if_absent=if_absent, if_match=if_match)

    def _there(self, key: str) -> str:
        return next((each for each in self._objects if each.lower() == key.lower()), key)


def test_tables_whose_names_differ_by_case_are_two() -> None:
    lake = memory_lake()
    build_stream(lake, "t", "s", SCHEMA, [{"id": 1}], key_properties=["id"])
    for declared in (UPPER, LOWER):
        runner_of(lake).run(declared)
    assert list(published(lake.storage)) == ["S", "s"]


@pytest.mark.parametrize("full_refresh", [False, True])
def test_where_storage_does_not_tell_them_apart_the_second_is_refused_and_the_first_stays(full_refresh: bool) -> None:
    lake = memory_lake(NoCaseStorage(clock=FakeClock(), ids=counting_ids()))
    build_stream(lake, "t", "s", SCHEMA, [{"id": 1}], key_properties=["id"])
    runner_of(lake).run(UPPER)
    before = LakeTable.load(lake.storage, "S").state
    with pytest.raises(ForeignManifestError, match="does not tell table 's' from 'S'; give one of them a name"):
        runner_of(lake).run(LOWER, full_refresh=full_refresh)
    with pytest.raises(ForeignManifestError, match="does not tell table 's' from 'S'"):
        plan_drop(lake.storage, "s")
    assert LakeTable.load(lake.storage, "S").state == before


def test_every_name_of_a_stream_may_be_that_of_its_table() -> None:
    lake = memory_lake()
    names = ["x" * 180, "é" * 30, "a*b", "ö" * 20 + "/" * 20]
    for name in names:
        build_stream(lake, "t", name, SCHEMA, [{"id": 1}], key_properties=["id"])
    tables, failed = resolve([everything()], {"t": names})
    assert failed == []
    results = list(run_tables(runner_of(lake), tables))
    assert [(each.declaration.name, each.error) for each in results] == [(name, None) for name in names]
    assert sorted(published(lake.storage)) == sorted(names)


def test_what_is_begun_alone_is_not_named_as_a_table_to_read() -> None:
    lake = memory_lake()
    build_stream(lake, "t", "s", SCHEMA, [{"id": 1}], key_properties=["id"])
    runner_of(lake).run(LOWER)
    runner_of(lake).announce(replace(UPPER, name="begun"), again=False)
    lake.storage.put("published/broken/_table.json", b"?")
    for name, what in (("begun", "table 'begun' is not published yet"), ("other", "no table 'other'")):
        with pytest.raises(UnknownNameError, match=what) as told:
            LakeTable.load(lake.storage, name)
        assert told.value.hint == "it has: s"
