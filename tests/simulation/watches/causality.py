"""Is what clients see causally consistent? A checker in the manner of MPS3's (its ``causal_consistency_checking.md``).

Each client has a clock that ticks at each of its events, and each tick is grounded: it stands for a step of the one
global timeline that a simulation knows. What a client observes implies inequalities between ticks; the whole is
consistent exactly if all of them are true of the steps. Nothing is searched, and nothing is kept but the last ticks.

    P1  a client's tick comes after its tick before
    P2  a message is sent before it is received
    P3  the message that a client received before was sent before this one
    P4  what a sender had received when it sent a message, whoever receives that message has received before it
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tick:
    """The ``clock``-th event of a client."""

    client: str
    clock: int


@dataclass
class _Client:
    clock: int = 0
    grounding: dict[int, int] = field(default_factory=lambda: {0: 0})
    seen: dict[str, Tick] = field(default_factory=dict)
    """The last message of others that it received: in all, or from each sender."""
    received: dict[str, int] = field(default_factory=dict)
    """Of each sender, the clock of the last message that it received."""


@dataclass
class Causality:
    """What a set of clients has observed. ``per_sender``: messages may be written long before others can see them, so
    that only the order of each sender's own says anything (P3 for each sender by itself)."""

    per_sender: bool = False
    steps: int = 0
    broken: str | None = None
    """The first inequality that is not true; None: all is consistent."""
    _clients: dict[str, _Client] = field(default_factory=dict)
    _knew: dict[Tick, dict[str, int]] = field(default_factory=dict)

    @property
    def consistent(self) -> bool:
        return self.broken is None

    def clock(self, client: str) -> int:
        """The clock of a client's last event."""
        return self._client(client).clock

    def send(self, sender: str) -> Tick:
        """A client writes a message, which it thereby has seen itself."""
        sent = Tick(sender, self._client(sender).clock + 1)
        self._knew[sent] = dict(self._client(sender).received)
        self.observe(sender, sent)
        return sent

    def observe(self, receiver: str, message: Tick, *, ordered: bool = True) -> None:
        """A client sees a message, named by the tick at which its sender wrote it. Not ``ordered`` (P3): its sender
        never learned that it was sent, and may have sent others before it was."""
        client = self._client(receiver)
        self.steps += 1
        client.clock += 1
        client.grounding[client.clock] = self.steps
        now = Tick(receiver, client.clock)
        self._holds("P1", Tick(receiver, client.clock - 1), now)
        if message != now:
            self._holds("P2", message, now)
        before = client.seen.get(self._topic(message.client))
        if before is not None and ordered:
            self._holds("P3", before, message)
        for sender, clock in self._knew.get(message, {}).items():
            if sender != receiver and client.received.get(sender, 0) < clock:
                self._say(f"P4: {receiver} received {message} and not {Tick(sender, clock)}, which its sender knew")
        if message.client != receiver:
            # A client's own messages do not pass through what all share: it may see them earlier than others do.
            if ordered:
                client.seen[self._topic(message.client)] = message
            client.received[message.client] = max(client.received.get(message.client, 0), message.clock)

    def _topic(self, sender: str) -> str:
        return sender if self.per_sender else ""

    def _client(self, name: str) -> _Client:
        return self._clients.setdefault(name, _Client())

    def _step(self, tick: Tick) -> int:
        return self._client(tick.client).grounding[tick.clock]

    def _holds(self, principle: str, earlier: Tick, later: Tick) -> None:
        if not self._step(earlier) < self._step(later):
            self._say(f"{principle}: {earlier} is not before {later}")

    def _say(self, what: str) -> None:
        if self.broken is None:
            self.broken = what
