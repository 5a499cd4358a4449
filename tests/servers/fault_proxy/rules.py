"""What the fault proxies have in common: which request meets which fault, and the test's hand on both.

The test writes one JSON command a line to the process's standard input and reads one JSON answer a line.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from dataclasses import dataclass, field
from typing import Any

from tests.servers.fault_proxy.door import Door


@dataclass
class Rule:
    """One fault. It applies to requests whose line of description ``matches``, after the first ``skip`` of those, at
    most ``times`` times (-1: always), each time with ``probability``."""

    effect: str
    matches: str
    skip: int = 0
    times: int = 1
    probability: float = 1.0
    seed: int = 0
    after: bool = False
    status: int = 0
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    gather: int = 0
    hits: int = 0
    waiting: int = 0
    done: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._pattern = re.compile(self.matches, re.DOTALL)
        self._chance = random.Random(self.seed)

    def takes(self, described: str) -> bool:
        """Whether this request meets the fault, which uses up one of its times."""
        if self.times == 0 or not self._pattern.search(described) or self._chance.random() >= self.probability:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        self.hits += 1
        return True

    async def wait(self) -> None:
        """Hold a request until the test lets it go, or until ``gather`` requests are here."""
        self.waiting += 1
        if self.gather and self.waiting >= self.gather:
            self.gate.set()
        await self.gate.wait()
        self.waiting -= 1


class Rules:
    """The faults in force, in the order given; the first that takes a request has it. ``quirks`` are what the server
    seems to do to all requests beside that."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._seen: list[str] = []
        self.quirks: set[str] = set()

    def meet(self, described: str) -> Rule | None:
        self._seen.append(described[:300])
        return next((rule for rule in self._rules if rule.takes(described)), None)

    async def obey(self, door: Door) -> None:
        """Open the door, say on standard output where it is, and carry out commands until standard input ends."""
        await door.open()
        print(door.port, flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await self._command(json.loads(line), door)), flush=True)

    async def _command(self, command: dict[str, Any], door: Door) -> Any:
        do = command.pop("do")
        if do == "add":
            self._rules.append(Rule(**command))
            return len(self._rules) - 1
        if do == "look":
            rule = self._rules[command["rule"]]
            return {"hits": rule.hits, "waiting": rule.waiting, "done": rule.done}
        if do == "release":
            self._rules[command["rule"]].gate.set()
        elif do == "shut":
            door.shut(command["seconds"])
        elif do == "open":
            await door.open()
        elif do == "act_as":
            self.quirks.update(command["quirks"])
        elif do == "calm":
            for rule in self._rules:
                rule.times = 0
                rule.gate.set()
            self._seen.clear()
            self.quirks.clear()
            await door.open()
        elif do == "seen":
            seen, self._seen = self._seen, []
            return seen
        return None
