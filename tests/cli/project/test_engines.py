"""Which engine does the work of a table, and what a progress bar is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import click
import pytest
from click.testing import CliRunner

from singerlake.cli.commands.project import engines
from singerlake.cli.commands.project.engines import PROCESSES_FROM, EngineChoice, Engines
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.storage.port import Storage
from singerlake.upkeep.result import Progress


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (0, "threads"),
        (PROCESSES_FROM - 1, "threads"),
        (PROCESSES_FROM, "processes"),
        (1 << 40, "processes"),
    ],
)
def test_auto_goes_by_how_much_there_is_to_read(size: int, kind: str) -> None:
    assert EngineChoice("auto", 8, None, None).kind(size) == kind
    assert EngineChoice("auto", 8, "local[2]", None).kind(size) == "spark"
    assert EngineChoice("auto", 8, None, "sc://x").kind(size) == "spark"
    assert EngineChoice("processes", 8, None, None).kind(size) == "processes"


def test_as_many_tasks_run_at_once_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(3)), raising=False)
    chosen: list[EngineChoice] = []

    @click.command()
    @engines.table_engine_options
    def command(engines: EngineChoice) -> None:
        chosen.append(engines)

    for given in ([], ["--threads", "5"]):
        assert CliRunner().invoke(command, given).exit_code == 0
    assert [each.threads for each in chosen] == [3, 5]


class Doubles:
    """A task; its items are sizes."""

    def size(self, item: int) -> int:
        return item

    def __call__(self, storage: Storage, item: int) -> int:
        return 2 * item

    def together(self, storage: Storage, items: Sequence[int]) -> list[int]:
        return [2 * item for item in items]


def opened(choice: EngineChoice, lake: Lake, held: ExitStack, bar: Progress | None = None) -> Engines:
    return Engines(choice, lake, held, bar)


def test_an_engine_is_opened_once_and_only_when_it_is_needed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, Any]] = []

    def reader(kind: str, _: Lake, threads: int, **more: object) -> object:
        made.append((kind, more))
        return nullcontext(lambda task, items: ((item, 2 * item) for item in items))

    monkeypatch.setattr(engines, "reader", reader)
    with ExitStack() as held:
        one = opened(EngineChoice("auto", 3, "local", None), lake, held)
        assert made == []
        assert [list(one(size)(Doubles(), [1, 2])) for size in (0, PROCESSES_FROM)] == [[(1, 2), (2, 4)]] * 2
    assert made == [("spark", {"master": "local", "remote": None, "at_once": True})]


def test_a_spark_that_was_asked_for_and_cannot_be_had_is_an_error(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def reader(*_: object, **__: object) -> object:
        raise SettingError("no Java", hint="install one")

    monkeypatch.setattr(engines, "reader", reader)
    with ExitStack() as held:
        for choice in (EngineChoice("spark", 3, None, None), EngineChoice("auto", 3, "local", None)):
            with pytest.raises(SettingError, match="no Java"):
                opened(choice, lake, held)(0)


def test_the_bar_is_told_of_all_that_is_done(lake: Lake) -> None:
    told: list[tuple[str, int]] = []
    bar = Progress(
        seen=True, sized=lambda size: told.append(("of", size)), advance=lambda size: told.append(("done", size))
    )
    with ExitStack() as held:
        engine = opened(EngineChoice("threads", 2, None, None), lake, held, bar)(6)
        assert [answer for _, answer in engine(Doubles(), [1, 2, 3])] == [2, 4, 6]
    assert told == [("of", 6), ("done", 1), ("done", 2), ("done", 3)]
