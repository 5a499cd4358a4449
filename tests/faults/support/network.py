"""A place whose workers go through a proxy, while the test itself sees it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.faults.support.crew import Crew, Worker
from tests.faults.support.places import Place
from tests.faults.support.worker import Point
from tests.servers.fault_proxy.proxy import FaultProxy


@dataclass(frozen=True)
class Network:
    """``proxy`` is in front of S3, or of the database that the store's commits go to."""

    crew: Crew
    reached: Place
    proxy: FaultProxy

    def start(self, name: str, *points: Point, **options: Any) -> Worker:
        """Start a writer that goes through the proxy."""
        return self.crew.start(name, *points, place=self.reached, **options)
