"""A time after which no test begins: the others are skipped, with that reason. A slow machine would need more time than
CI has.

Each run of several workers begins at another module, so that it does not skip the same tests each time.
"""

from __future__ import annotations

import math
import os
import time
import zlib

import pytest

_END = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--begin-within", type=float, default=math.inf, metavar="SECONDS", help="skip the tests not begun by then"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_END] = time.monotonic() + config.getoption("--begin-within")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The workers of a run have this in common, and no two runs do.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is not None and math.isfinite(config.getoption("--begin-within")):
        modules = list(dict.fromkeys(_module(item) for item in items))
        first = modules[zlib.crc32(run.encode()) % len(modules)] if modules else None
        start = next((at for at, item in enumerate(items) if _module(item) == first), 0)
        items[:] = items[start:] + items[:start]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[_END]:
        pytest.skip(f"not begun within {item.config.getoption('--begin-within'):g} s")


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
