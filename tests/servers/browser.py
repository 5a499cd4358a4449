"""A headless Chromium for tests of pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tools.chromium import find

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# Not for the whole session: while Playwright runs, no other test of this process could have an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that reads pages from the disk. Fails, with what to do, where there is none."""
    from playwright.sync_api import sync_playwright

    # As root, as in containers, Chromium starts without its sandbox only.
    sandbox = [] if os.geteuid() else ["--no-sandbox"]
    program = find()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=sandbox)
        yield started
        started.close()
