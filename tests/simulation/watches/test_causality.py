"""The causal checker on the conversations that MPS3 tests its own with, and on ones that only P4 can judge."""

from __future__ import annotations

from tests.simulation.watches.causality import Causality, Tick

ALICE, BOB, CAROL = "alice", "bob", "carol"


def test_a_reply_heard_before_its_question_is_not_consistent() -> None:
    system = Causality()
    system.observe(CAROL, Tick(BOB, 0))
    assert system.consistent
    system.observe(ALICE, Tick(CAROL, 1))
    assert system.consistent
    system.observe(ALICE, Tick(BOB, 0))
    assert not system.consistent


def test_the_same_with_every_message_written_first() -> None:
    system = Causality()
    question = system.send(BOB)
    system.observe(CAROL, question)
    assert system.consistent
    assert [system.clock(name) for name in (ALICE, BOB, CAROL)] == [0, 1, 1]
    reply = system.send(CAROL)
    system.observe(ALICE, reply)
    assert system.clock(ALICE) == 1
    assert system.broken is not None
    assert system.broken.startswith("P4"), "that the question is missing is known before it comes"
    system.observe(ALICE, question)
    assert not system.consistent


def test_who_was_offline_may_catch_up_in_any_order_of_senders_but_not_within_one() -> None:
    system = Causality(per_sender=True)
    system.observe(CAROL, Tick(CAROL, 0))
    system.observe(BOB, Tick(ALICE, 0))
    system.observe(ALICE, Tick(BOB, 1))
    system.observe(CAROL, Tick(CAROL, 1))
    system.observe(CAROL, Tick(ALICE, 0))
    system.observe(CAROL, Tick(BOB, 1))
    system.observe(BOB, Tick(CAROL, 1))
    system.observe(ALICE, Tick(CAROL, 1))
    assert system.consistent
    system.observe(BOB, Tick(CAROL, 0))
    assert system.broken == "P3: Tick(client='carol', clock=1) is not before Tick(client='carol', clock=0)"


def test_a_message_cannot_be_received_before_it_is_sent() -> None:
    system = Causality()
    system._client(BOB).grounding[1] = 5
    system.observe(ALICE, Tick(BOB, 1))
    assert system.broken == "P2: Tick(client='bob', clock=1) is not before Tick(client='alice', clock=1)"


def test_with_one_order_for_all_two_senders_messages_come_as_they_were_sent() -> None:
    strict, loose = Causality(), Causality(per_sender=True)
    for system in (strict, loose):
        first, second = system.send(ALICE), system.send(BOB)
        system.observe(CAROL, second)
        system.observe(CAROL, first)
    assert not strict.consistent
    assert loose.consistent


def test_what_a_sender_knew_is_known_to_who_receives_its_message() -> None:
    system = Causality(per_sender=True)
    question = system.send(ALICE)
    system.observe(BOB, question)
    reply = system.send(BOB)
    system.observe(CAROL, question)
    system.observe(CAROL, reply)
    assert system.consistent
    late = Causality(per_sender=True)
    question = late.send(ALICE)
    late.observe(BOB, question)
    late.observe(CAROL, late.send(BOB))
    assert late.broken is not None
    assert late.broken.startswith("P4: carol received")
