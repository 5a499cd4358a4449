"""What queued transactions leave beside a stream's data goes after a grace time, and nothing takes it for data."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.upkeep.gc.gc import collect_queued
from tests.cli.commands.upkeep.test_vacuum import small_files
from tests.cli.conftest import Run, root, run  # noqa: F401  fixtures
from tests.stores.stores import Place

ID = "0000000000000001"
KEYS = (layout.queued_body_key("t", "s", ID), layout.refusal_key("t", "s", ID))
OTHER = layout.queue_prefix("t", "s") + "notes.txt"


@pytest.mark.parametrize("delete", [False, True])
def test_only_what_is_older_than_the_grace_time_goes_and_only_with_delete(delete: bool) -> None:
    place = Place("log")
    place.born()
    for key in (*KEYS, OTHER):
        place.storage.put(key, b"{}")

    def collect(days: int) -> tuple[str, ...]:
        return collect_queued(place.storage, "t", "s", time=place.clock.now, grace=timedelta(days=days), delete=delete)

    place.clock.sleep(86_400 * 2)
    assert collect(3) == ()
    assert sorted(collect(1)) == sorted(KEYS)
    left = {entry.key for entry in place.storage.list(layout.queue_prefix("t", "s"))}
    assert left == ({OTHER} if delete else {*KEYS, OTHER})


@pytest.mark.parametrize(
    "name", ["../x.json", "a b.json", ".json", ".refused.json", "x.refused", "x.json.tmp", "x/y.json"]
)
def test_other_names_are_none_of_them(name: str) -> None:
    assert layout.queued_id_in(name) is None


def test_names_lead_back_to_their_id() -> None:
    prefix = layout.queue_prefix("../t", "s/../s")
    assert ".." not in prefix.split("/")
    for key in (layout.queued_body_key("../t", "s/../s", ID), layout.refusal_key("../t", "s/../s", ID)):
        assert key.startswith(prefix)
        assert layout.queued_id_in(key[len(prefix) :]) == ID
    for id in ("", "../x", "a/b", "x" * 81, "é", "-x", "a.b"):
        with pytest.raises(ValueError, match="not a transaction's id"):
            layout.queued_body_key("t", "s", id)


def test_nothing_takes_them_for_data_and_the_command_collects_them(run: Run, root: Path) -> None:  # noqa: F811
    lake = small_files(root)
    before = [file.id for file in lake.stream("t", "s").snapshot().files]
    for key in KEYS:
        lake.storage.put(key, b"{}")
    assert lake.streams("t") == ["s"]
    assert run("verify", root).exit_code == 0
    assert [file.id for file in lake.stream("t", "s").rebuilt(lineage=None).files] == before
    shown = run("gc", root, "--grace", "0s")
    assert "2 objects of a commit queue would be deleted" in shown.stdout
    assert all(lake.storage.head(key) for key in KEYS)
    told = json.loads(run("gc", root, "--grace", "0s", "--delete", "--json").stdout)
    assert sorted(told["streams"][0]["queued"]) == sorted(KEYS)
    assert not any(lake.storage.head(key) for key in KEYS)
    assert [file.id for file in Lake.open(str(root)).stream("t", "s").snapshot().files] == before
