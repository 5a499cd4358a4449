"""How long capture and replay of 1 GB take where the lake is on S3, 30 ms and 200 MB a second a connection away,
against a lake on the local disk."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.measure import Command, Row, paired, run
from bench.plugins import data
from bench.plugins.far_server import ENVIRONMENT, far_server
from bench.plugins.small_runs import messages
from singerlake.adapters import open_storage
from singerlake.format.layout import tap_prefix
from singerlake.storage.s3.settings import S3Settings
from singerlake.storage.settings import together

SCRIPTS = Path(sys.executable).parent
SECONDS = 0.03
RATE = 200e6


def rows(cache: Path) -> Iterator[Row]:
    """The server is a small one in memory, in a process of its own on this machine. Both lakes are there before, so
    that no run makes one."""
    work = cache / "far"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with far_server(SECONDS, RATE) as url:
        root = "s3://lake/flights"
        far = _Place(work / "far.json", {"lake_root": root, "s3_endpoint_url": url}, partial(_remove, root, url))
        near = _Place(work / "near.json", {"lake_root": str(work / "lake")}, lambda tap: None)
        few = work / "few.jsonl"
        few.write_text("".join(json.dumps(message) + "\n" for message in messages(0)))
        for place in (far, near):
            run(place.capture(few))
        ours, local = (place.capture(data.flights()) for place in (far, near))
        yield paired("capture of 1 GB to S3", ours, "to the local disk", local, bound=1.25)
        yield paired("replay of 1 GB from S3", far.replay(), "from the local disk", near.replay(), bound=1.25)
    shutil.rmtree(work, ignore_errors=True)


class _Place:
    """A lake. Each capture is that of another tap, since it would find the files of the one before. ``forget`` gets the
    one before."""

    def __init__(self, config: Path, settings: Mapping[str, str], forget: Callable[[str], None]) -> None:
        self._config = config
        self._settings = settings
        self._forget = forget
        self._taps = itertools.count()

    def capture(self, source: Path) -> Command:
        return self._command("target-singerlake", source, setup=lambda: self._write(next(self._taps)))

    def replay(self) -> Command:
        return self._command("tap-singerlake")

    def _command(self, plugin: str, source: Path | None = None, setup: Callable[[], None] | None = None) -> Command:
        argv = [str(SCRIPTS / plugin), "--config", str(self._config)]
        return Command(argv, stdin=source, env=ENVIRONMENT, setup=setup)

    def _write(self, tap: int) -> None:
        self._forget(f"tap-{tap - 1}")
        self._config.write_text(json.dumps({"tap_id": f"tap-{tap}", **self._settings}))


def _remove(root: str, url: str, tap: str) -> None:
    """Remove what is there of a tap, so that the server uses its memory again."""
    key, secret = ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
    storage = open_storage(root, together(S3Settings(endpoint_url=url, access_key_id=key, secret_access_key=secret)))
    storage.delete_all([entry.key for entry in storage.list(tap_prefix(tap))])
