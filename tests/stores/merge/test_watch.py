"""How those who poll learn that there is something new."""

from __future__ import annotations

from singerlake.stores.port import Loaded
from tests.stores.merge.merging import LAG, LOG, Crew, fail_once


def test_a_poller_is_told_of_commits_and_at_intervals_of_what_nobody_told() -> None:
    crew = Crew()
    crew.born()
    poller, writer = crew.member(), crew.member()
    assert poller.store.changed()
    assert not poller.store.changed()
    writer.commit("a")
    assert poller.store.changed()
    assert not poller.store.changed()
    crew.wait(LAG)
    assert poller.store.changed(), "an interval has passed"
    fail_once(crew, "put", done=False, name="last_change")
    writer.settled(writer.held[0])
    assert crew.listed() == ["a"]
    crew.storage.hook = lambda step: None
    assert not poller.store.changed(), "the record's writer crashed before it told anybody"
    crew.wait(LAG)
    assert poller.store.changed()
    caught = poller.store.catch_up(poller.known())
    assert caught is not None
    assert [file.id for file in caught.manifest.files] == ["a"]


def test_a_record_is_told_of_at_once_however_lately_an_entry_was() -> None:
    crew = Crew()
    crew.born()
    poller, writer = crew.member(), crew.member()
    pending = writer.commit("a")
    crew.wait()
    writer.commit("b")
    poller.store.changed()
    assert isinstance(writer.settle(pending), Loaded)
    assert poller.store.changed()


def test_every_touch_makes_another_body() -> None:
    crew = Crew()
    crew.born()
    writer, bodies = crew.member(), set()
    for number in range(5):
        writer.commit(f"f{number}")
        stored = crew.storage.get(f"{LOG}last_change")
        assert stored is not None
        bodies.add(stored.body)
        crew.wait(2)
    assert len(bodies) == 5
