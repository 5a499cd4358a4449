"""How long capture and replay of 1 GB take where the lake is on S3, 30 ms and 200 MB a second a connection away,
against a lake on the local disk."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Command, Row, paired, run
from bench.plugins import data
from bench.plugins.far_server import ENVIRONMENT, far_server
from bench.plugins.small_runs import messages
from singerlake.adapters import open_storage
from singerlake.format.layout import tap_prefix
from singerlake.settings import storage_settings

SCRIPTS = Path(sys.executable).parent
SECONDS = 0.03
RATE = 200e6


def rows(cache: Path) -> Iterator[Row]:
    """The server is a small one in memory, in a process of its own on this machine. Both lakes are there before, so
    that no run makes one."""
    work = cache / "far"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    yield _capture(work)
    yield _replay(work)
    shutil.rmtree(work, ignore_errors=True)


def _capture(work: Path) -> Row:
    """The server drops the parts of uploads: to copy them takes time of this machine, and none where a server is far
    away. Each timed capture begins without those before it, whichever lake has them: the kernel gives memory that was
    in use a moment ago several times as fast as other memory, above all on a virtual machine. Had one lake kept its
    captures, the other's files would have paid for that."""
    with _lakes(work, drops=True) as (far, near):

        def forget() -> None:
            for place in (far, near):
                place.forget()

        ours, local = (place.capture(data.flights(), forget) for place in (far, near))
        return paired("capture of 1 GB to S3", ours, "to the local disk", local, bound=1.25)


def _replay(work: Path) -> Row:
    with _lakes(work) as (far, near):
        for place in (far, near):
            run(place.capture(data.flights(), place.forget))
        return paired("replay of 1 GB from S3", far.replay(), "from the local disk", near.replay(), bound=1.25)


@contextmanager
def _lakes(work: Path, *, drops: bool = False) -> Iterator[tuple[_Place, _Place]]:
    """A far lake and a near one with a small stream in each."""
    with far_server(SECONDS, RATE, drops=drops) as url:
        far = _Place(work / "far.json", {"lake_root": "s3://lake/flights", "s3_endpoint_url": url})
        near = _Place(work / "near.json", {"lake_root": str(work / "lake")})
        few = work / "few.jsonl"
        few.write_text("".join(json.dumps(message) + "\n" for message in messages(0)))
        for place in (far, near):
            run(place.capture(few))
        yield far, near
        shutil.rmtree(work / "lake")


class _Place:
    """A lake. Each capture is that of another tap, since it would find the files of the one before."""

    def __init__(self, config: Path, settings: Mapping[str, str]) -> None:
        self._config = config
        self._settings = settings
        self._taps = 0

    def capture(self, source: Path, before: Callable[[], None] = lambda: None) -> Command:
        def setup() -> None:
            before()
            self._taps += 1
            self._config.write_text(json.dumps({"tap_id": f"tap-{self._taps}", **self._settings}))

        return self._command("target-singerlake", source, setup)

    def forget(self) -> None:
        """Remove what the last capture brought."""
        access = {name.lower(): value for name, value in ENVIRONMENT.items() if "KEY" in name}
        storage = open_storage(self._settings["lake_root"], storage_settings({**self._settings, **access}))
        storage.delete_all([entry.key for entry in storage.list(tap_prefix(f"tap-{self._taps}"))])

    def replay(self) -> Command:
        return self._command("tap-singerlake")

    def _command(self, plugin: str, source: Path | None = None, setup: Callable[[], None] | None = None) -> Command:
        argv = [str(SCRIPTS / plugin), "--config", str(self._config)]
        return Command(argv, stdin=source, env=ENVIRONMENT, setup=setup)
