"""What goes wrong in a run, and how often: drawn once a run, so that each run is bad in its own way (swarm testing)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.simulation.world.choices import Choices
from tests.simulation.world.clocks import RIGHT, Wrongness, wrongness


class Fate(Enum):
    """What becomes of one request, as the storage port can answer it."""

    GOES_WELL = "goes well"
    UNAVAILABLE = "is answered with 503, or 409 to the end of the tries; nothing happens"
    REPLY_LOST = "takes effect; the reply is lost"
    NEVER = "is lost on the way, which nobody can tell"
    LATE = "takes effect when its caller has given it up"
    REFUSED = "takes effect, and is answered 412 by its own second try"
    TWICE = "goes well; an earlier try that was given up lands later"
    DUPLICATED = "takes effect; a balancer sends it again and passes on the second answer"


_OF_READS = (Fate.UNAVAILABLE,)
_OF_WRITES = (Fate.UNAVAILABLE, Fate.REPLY_LOST, Fate.LATE, Fate.NEVER, Fate.REFUSED, Fate.TWICE, Fate.DUPLICATED)
_READS = frozenset(("get", "head", "list", "list_folder", "read_range", "beginning", "open", "read"))
_STALLS = (1.0, 4.0, 15.0, 45.0, 300.0, 4000.0)
_OUTAGES = (0.5, 5.0, 60.0)
_LATENESS = (0.05, 0.5, 3.0, 12.0, 60.0, 600.0)


@dataclass(frozen=True)
class Profile:
    """How a run is bad. ``request``, ``outage``, ``stall``, ``crash``: times in a thousand steps. ``fates``: what
    becomes of the writes that something becomes of. ``budget``: when that many faults have happened there are no more.
    ``stick`` and ``ticks`` are the scheduler's; ``rests`` are the seconds for which an actor thinks of something else.
    """

    request: int
    fates: tuple[Fate, ...]
    outage: int
    stall: int
    crash: int
    clocks: bool
    budget: int
    stick: int
    ticks: tuple[float, ...]
    rests: tuple[float, ...]


def profile(choices: Choices) -> Profile:
    """A profile; the dull one has no fault at all."""
    fates = (
        tuple(fate for fate in _OF_WRITES if choices.below(2)) if choices.below(2) else (choices.one_of(_OF_WRITES),)
    )
    return Profile(
        request=choices.one_of((0, 20, 60, 200)) if fates else 0,
        fates=fates,
        outage=choices.one_of((0, 0, 0, 3)),
        stall=choices.one_of((0, 0, 5, 20)),
        crash=choices.one_of((0, 0, 4, 12)),
        clocks=bool(choices.below(2)),
        budget=choices.one_of((0, 4, 12, 40)),
        stick=choices.one_of((0, 50, 90)),
        ticks=choices.one_of(((0.001,), (0.001, 0.01), (0.001, 0.05, 0.3), (0.001, 0.001, 0.1, 2.0))),
        rests=choices.one_of(((0.0,), (0.0, 0.05, 0.3), (0.0, 0.05, 0.5, 3.0, 20.0), (0.0, 3.0, 60.0))),
    )


class Faults:
    """Hands out faults until there are to be no more."""

    def __init__(self, profile: Profile, choices: Choices) -> None:
        self._profile = profile
        self._choices = choices
        self._left = profile.budget
        self._out_until = 0.0
        self._out = False

    def cease(self) -> None:
        """From now on all goes well."""
        self._left = 0
        self._out_until = 0.0
        self._out = False

    @property
    def ceased(self) -> bool:
        return self._left <= 0 and not self._out

    def fate(self, operation: str, now: float) -> Fate:
        """What becomes of the next request. In an outage everybody's fail, and of a write nobody knows why."""
        self._out_until = max(self._out_until, now + self._drawn(self._profile.outage, _OUTAGES))
        self._out = now < self._out_until
        if self._out:
            return Fate.UNAVAILABLE if operation in _READS else self._choices.one_of((Fate.UNAVAILABLE, Fate.NEVER))
        if self._left <= 0 or not self._choices.chance(self._profile.request):
            return Fate.GOES_WELL
        fate = self._choices.one_of(_OF_READS if operation in _READS else self._profile.fates)
        self._left -= 1
        return fate

    def stall(self) -> float:
        """For how many seconds the process is stopped here; 0: not at all."""
        return self._drawn(self._profile.stall, _STALLS)

    def crashes(self) -> bool:
        """Whether the process ends here."""
        return self._drawn(self._profile.crash, (1.0,)) > 0

    def lateness(self) -> float:
        """Seconds until a late request lands."""
        return self._choices.one_of(_LATENESS)

    def clock(self, now: float) -> Wrongness:
        """The clock of a new process."""
        if self._profile.clocks and not self.ceased and self._choices.below(2):
            return wrongness(self._choices, now)
        return RIGHT

    def _drawn(self, per_mille: int, values: tuple[float, ...]) -> float:
        if self._left <= 0 or not self._choices.chance(per_mille):
            return 0.0
        self._left -= 1
        return self._choices.one_of(values)
