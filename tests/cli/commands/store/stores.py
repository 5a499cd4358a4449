"""What tests of ``singerlake store`` share."""

from __future__ import annotations

from singerlake.clock import timestamp
from singerlake.format.state.model import Run as TargetRun
from singerlake.format.state.transactions import Close, Transaction
from singerlake.lake import Lake
from singerlake.stores.port import Loaded


def store_of(lake: Lake, stream: str = "flights") -> str | None:
    return lake.stream("t", stream).kind()


def commits(lake: Lake, count: int, stream: str = "flights") -> None:
    """Transactions that bring nothing but a run."""
    writer = lake.stream("t", stream).writer(writer_id="w")
    for number in range(count):
        run = TargetRun(id=f"r{number}", writer="w", started=timestamp(lake.clock.now()))
        writer.settled(writer.record(run))


def close(lake: Lake, kind: str, stream: str = "flights") -> None:
    store = lake.stream("t", stream).store()
    base = store.load()
    assert base is not None
    outcome = store.commit(base, Transaction(id="close", at="2026", change=Close(successor=kind)))
    assert isinstance(outcome, Loaded)


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each stream's row after its name."""
    return {line.split()[1]: line.split()[2:] for line in text.splitlines()[1:4]}
