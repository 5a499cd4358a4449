"""How long requests wait for a place that does not answer, what is said of it, and that they wait for it together."""

from __future__ import annotations

import logging

import pytest

from singerlake.clock import random_id
from singerlake.storage.patience import GivenUp, Patience, RetryReason, backoff
from tests.fakes import FakeClock


def patience(clock: FakeClock, *, seconds: float = 60, answered: bool = True) -> Patience:
    found = Patience(seconds, clock, place=random_id())
    if answered:
        found.answered()
    return found


def failing(of: Patience, trouble: RetryReason, *, took: float = 0, writes: bool = False) -> GivenUp:
    """A request that fails until it gives up; each try takes ``took`` seconds."""
    clock, wait = of.clock, of.begin(writes=writes)
    assert isinstance(clock, FakeClock)
    clock.seconds += took
    while wait.again(trouble):
        clock.seconds += took
    assert wait.given_up is not None
    return wait.given_up


def test_pauses_grow_up_to_five_seconds() -> None:
    waits = backoff(FakeClock())
    assert [waits.next() for _ in range(7)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5])


@pytest.mark.parametrize("trouble", list(RetryReason))
def test_a_request_waits_as_long_as_the_setting_says(trouble: RetryReason) -> None:
    clock = FakeClock()
    assert failing(patience(clock), trouble) == GivenUp(trouble, pytest.approx(60), True)
    assert clock.seconds == pytest.approx(60)


@pytest.mark.parametrize(
    ("trouble", "seconds"), [(RetryReason.NO_SUCH_HOST, 0.3), (RetryReason.SILENT, 15), (RetryReason.BUSY, 60)]
)
def test_a_place_that_never_answered_is_given_up_sooner_unless_it_says_it_is_busy(
    trouble: RetryReason, seconds: float
) -> None:
    clock = FakeClock()
    how = failing(patience(clock, answered=False), trouble)
    assert (clock.seconds, how.answered) == (pytest.approx(seconds), trouble is RetryReason.BUSY)


def test_what_one_storage_learned_of_a_place_holds_for_the_next() -> None:
    clock = FakeClock()
    Patience(60, clock, place="http://known").answered()
    assert failing(Patience(60, clock, place="http://known"), RetryReason.SILENT).answered


def test_without_patience_a_request_is_tried_three_times() -> None:
    clock = FakeClock()
    failing(patience(clock, seconds=0), RetryReason.SILENT)
    assert clock.seconds == pytest.approx(0.1 + 0.2)


def test_a_request_that_takes_longer_than_the_patience_is_tried_again_all_the_same() -> None:
    clock = FakeClock()
    failing(patience(clock), RetryReason.SILENT, took=70)
    assert clock.seconds == pytest.approx(3 * 70 + 0.1 + 0.2)


def test_after_one_gave_up_the_next_does_not_wait_as_long_again() -> None:
    clock = FakeClock()
    known = patience(clock)
    failing(known, RetryReason.SILENT)
    before = clock.seconds
    failing(known, RetryReason.SILENT)
    assert clock.seconds - before < 1


def test_an_answer_and_a_long_silence_of_ones_own_end_an_outage() -> None:
    clock = FakeClock()
    known = patience(clock)
    for end in (known.answered, lambda: clock.sleep(100)):
        failing(known, RetryReason.SILENT)
        end()
        before = clock.seconds
        failing(known, RetryReason.SILENT)
        assert clock.seconds - before == pytest.approx(60)


def test_a_request_that_fails_while_others_succeed_gives_up_as_well() -> None:
    clock = FakeClock()
    known = patience(clock)
    clock.on_sleep = lambda _: known.answered()
    failing(known, RetryReason.BUSY)
    assert clock.seconds == pytest.approx(60)


@pytest.mark.parametrize("writes", [True, False], ids=["writes fail", "reads fail"])
def test_answers_of_the_other_kind_do_not_make_a_request_wait_longer(
    writes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A storage whose volumes are full answers each read, and 500 to each write."""
    clock = FakeClock()
    known = patience(clock)
    clock.on_sleep = lambda _: known.answered(writes=not writes)
    wait = known.begin(writes=writes)
    while wait.again(RetryReason.BUSY, said="InternalError: no free \x1b volumes"):
        pass
    assert clock.seconds == pytest.approx(60)
    failing(known, RetryReason.BUSY, writes=writes)
    assert clock.seconds == pytest.approx(60.3), "the next one does not wait as long again"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 6
    assert told[0].startswith(
        "waiting for storage for 2 s now, since it answers with an error: InternalError: no free \\x1b volumes; giving "
    )
    known.answered(writes=writes)
    assert caplog.records[-1].getMessage().startswith("storage answers again after 60 s")


@pytest.mark.parametrize("writes", [True, False])
def test_an_answer_ends_what_only_requests_of_its_own_kind_failed_in(writes: bool) -> None:
    """Reads that fail now and then do not take away the patience of the first write."""
    clock = FakeClock()
    known = patience(clock)
    for _ in range(10):
        assert known.begin(writes=writes).again(RetryReason.BUSY)
        known.answered(writes=writes)
        clock.seconds += 10
    before = clock.seconds
    failing(known, RetryReason.BUSY, writes=not writes)
    assert clock.seconds - before == pytest.approx(60)


def test_where_both_fail_the_log_tells_once_for_both(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    known = patience(clock)
    waits = [known.begin(), known.begin(writes=True)]
    while clock.seconds < 25:
        for wait in waits:
            assert wait.again(RetryReason.SILENT)
    known.answered()
    known.answered(writes=True)
    told = [record.getMessage()[:7] for record in caplog.records]
    assert told == ["waiting"] * 3 + ["storage"]


def test_the_log_tells_of_the_wait_and_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    known = Patience(60, clock, place="http://there")
    known.answered()
    with caplog.at_level(logging.WARNING):
        waits = [known.begin(), known.begin()]
        while clock.seconds < 25:
            for wait in waits:
                assert wait.again(RetryReason.SILENT)
        known.answered()
        known.answered()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert told[0].startswith("waiting for storage for 1 s now, since it does not answer; giving up in 59 s (http://")
    assert "giving up in 3" in told[2]
    assert told[3] == f"storage answers again after {clock.seconds:.0f} s (http://there)"


def test_a_request_that_was_sent_twice_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    known = patience(FakeClock())
    assert known.begin().again(RetryReason.BUSY)
    known.answered()
    assert caplog.records == []
