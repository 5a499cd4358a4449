"""A lake's site without a folder: its pages as the lake is now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.site.build import bodies, environment
from singerlake.site.facts import NO_SAMPLES, Sampling, gather
from singerlake.site.pages import Site

FRESH = 5.0
"""Seconds that pages are shown before the lake is asked again."""
_PAUSE = 10
"""Times that the lake was asked for: a large one is not asked all the time."""


class LiveSite:
    """The files of ``build_site`` by their paths, for any number of threads. The lake is asked at once, and then where
    somebody wants a page. Raises ``SettingError`` where jinja2 is missing."""

    def __init__(self, lake: Lake, sampling: Sampling = NO_SAMPLES) -> None:
        environment()
        self._lake = lake
        self._sampling = sampling
        self._asking = threading.Lock()
        self._ask()

    def get(self, path: str) -> bytes | None:
        """The file at a path; None where the site has none. Raises as ``Lake.require`` and ``gather``, until the
        lake can be read again."""
        # One asks the lake, and the others get the pages of before.
        if self._lake.clock.monotonic() >= self._until and self._asking.acquire(blocking=False):
            try:
                self._ask()
            finally:
                self._asking.release()
        files = self._files
        if isinstance(files, SingerlakeError):
            raise files.with_traceback(None)
        made = files.get(path)
        return None if made is None else made()

    def _ask(self) -> None:
        begun = self._lake.clock.monotonic()
        self._files: Mapping[str, Callable[[], bytes]] | SingerlakeError
        try:
            self._files = dict(bodies(Site(gather(self._lake.require(), sampling=self._sampling))))
        except SingerlakeError as error:
            self._files = error
        ended = self._lake.clock.monotonic()
        self._until = ended + max(FRESH, _PAUSE * (ended - begun))
