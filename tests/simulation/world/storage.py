"""The storage that simulated actors share: the memory storage, with replies that are lost, requests that land late or
twice, listings by the page, and an eye on every effect."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from singerlake.clock import Clock, IdSource
from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.storage.port import Capabilities, Entry, Part, Refused, Stored, Written
from singerlake.storage.probe import in_turn, prove
from tests.simulation.world.faults import Fate
from tests.storage.memory import MemoryStorage, Step

Answer = TypeVar("Answer")

PAGE = 3
"""Objects in a page of a listing. Real ones have 1,000; what counts is that others write between two pages."""
PROBE_MAX_WAIT = 10.0
_RACERS = 3


class Weather(Protocol):
    """What storage asks of the simulation around it."""

    def step(self, step: Step) -> None:
        """Before and after each effect: the place where others run."""
        ...

    def fate(self, operation: str, key: str) -> Fate: ...

    def later(self, what: str, effect: Callable[[], object]) -> None: ...

    def note(self, text: str) -> None: ...

    def changed(self, key: str, before: Stored | None, after: Stored | None) -> None:
        """Called at each effect, when it has happened."""
        ...

    def probes(self) -> Clock | None:
        """The clock of the process that calls, where it is to find out by itself what storage honours."""
        ...

    def fail(self, what: str) -> None: ...


class _Watched(dict[str, Stored]):
    """Objects that tell of each change."""

    def __init__(self, changed: Callable[[str, Stored | None, Stored | None], None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, key: str, stored: Stored) -> None:
        before = self.get(key)
        super().__setitem__(key, stored)
        self._changed(key, before, stored)

    def pop(self, key: str, *default: Any) -> Any:
        before = super().pop(key, None)
        if before is not None:
            self._changed(key, before, None)
        return before


class SimulatedStorage(MemoryStorage):
    """A storage whose ``last_modified`` is on one clock, whatever its users' clocks say. ETags are the bodies' hashes,
    as on S3, so that a body which comes back looks as if it had never been away."""

    def __init__(
        self, weather: Weather, *, clock: Clock, ids: IdSource, ignore_conditions: bool, ignore_delete_conditions: bool
    ) -> None:
        super().__init__(
            clock=clock,
            ids=ids,
            ignore_conditions=ignore_conditions,
            ignore_delete_conditions=ignore_delete_conditions,
            hook=weather.step,
        )
        self._weather = weather
        self._objects = _Watched(weather.changed)
        self._proved: dict[Clock, Capabilities] = {}

    def as_it_is(self, key: str) -> Stored | None:
        """An object, seen by nobody who takes part."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """All keys, likewise."""
        return list(self._objects)

    def capabilities(self) -> Capabilities:
        """What the product's probe makes of the answers that a process gets, once for each; others believe what is
        so."""
        told = super().capabilities()
        clock = self._weather.probes() if told.conditional_put else None
        if clock is None:
            return told
        if clock not in self._proved:
            self._proved[clock] = prove(
                self, clock=clock, ids=self._ids, max_wait=PROBE_MAX_WAIT, together=in_turn, racers=_RACERS
            )
            if not self._proved[clock].conditional_put:
                self._weather.fail("the probe takes a storage for one that ignores conditions, which it does not")
        return self._proved[clock]

    def get(self, key: str) -> Stored | None:
        return self._read("get", key, partial(super().get, key))

    def head(self, key: str) -> Entry | None:
        return self._read("head", key, partial(super().head, key))

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        """Page by page, each as the storage is when it is asked for."""
        while True:
            found = self._read("list", prefix, partial(super().list, prefix, start_after=start_after))
            page = [entry for entry, _ in zip(found, range(PAGE), strict=False)]
            yield from page
            if len(page) < PAGE:
                return
            start_after = page[-1].key

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        send = partial(super().put, key, body, if_absent=if_absent, if_match=if_match)
        return self._write("put", key, send, conditional=if_absent or if_match is not None)

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        return self._write("delete", key, partial(super().delete, key, if_match=if_match), conditional=False)

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        ready()
        body = path.read_bytes()
        kept = cast(Path, Spooled(body))
        return self._made("upload", key, partial(super().upload, key, kept))

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        return self._made("compose", key, partial(super().compose, key, pieces))

    def _made(self, operation: str, key: str, send: Callable[[], Answer]) -> Answer:
        try:
            return self._write(operation, key, send, conditional=False)
        except UnknownOutcomeError as error:
            # As on S3: what was left behind is an object that nobody lists.
            raise StorageUnavailableError("storage could not answer", key=key) from error

    def _store(self, key: str, body: bytes) -> Stored:
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        stored = Stored(body=bytes(body), etag=etag, last_modified=self._clock.now())
        self._objects[key] = stored
        return stored

    def _read(self, operation: str, key: str, send: Callable[[], Answer]) -> Answer:
        self._unless_unavailable(self._weather.fate(operation, key), operation, key)
        return send()

    def _write(self, operation: str, key: str, send: Callable[[], Answer], *, conditional: bool) -> Answer:
        fate = self._weather.fate(operation, key)
        self._unless_unavailable(fate, operation, key)
        if fate in (Fate.LATE, Fate.NEVER):
            self.hook(Step(operation, key, False))
            if fate is Fate.LATE:
                self._weather.later(f"{operation} {key}", send)
            self.hook(Step(operation, key, True))
            raise UnknownOutcomeError("no answer came", key=key)
        answer = send()
        if fate is Fate.DUPLICATED:
            answer = send()
        self._weather.note(f"{operation} {key}: {answer if isinstance(answer, bool) else type(answer).__name__}")
        if fate is Fate.REPLY_LOST:
            raise UnknownOutcomeError("the reply was lost", key=key)
        if fate is Fate.TWICE:
            self._weather.later(f"{operation} {key} again", send)
        if fate is Fate.REFUSED and conditional and isinstance(answer, Written):
            return cast(Answer, Refused())
        return answer

    def _unless_unavailable(self, fate: Fate, operation: str, key: str) -> None:
        if fate is Fate.UNAVAILABLE:
            self.hook(Step(operation, key, False))
            raise StorageUnavailableError("storage could not answer", key=key)


class Spooled:
    """A finished file's bytes where the product expects a path: there is no disk in a simulation."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def exists(self) -> bool:
        return True

    def read_bytes(self) -> bytes:
        return self._body
