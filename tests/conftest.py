"""What every test can ask for: the servers of ``tests/servers``, each started once and only when asked for."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from xdist.scheduler import Scheduling

from tests.processes import service_models
from tests.processes.signals import signals_kept
from tests.processes.workers import SharedScheduling
from tests.suite.memory_disk import take_memory
from tests.suite.tiers import mark_tiers

pytest_plugins = [
    "pytester",
    "tests.servers.ports.first_contact",
    "tests.servers.java",
    "tests.servers.postgres",
    "tests.servers.s3",
    "tests.servers.web.https",
    "tests.servers.azurite",
    "tests.servers.gcs.server",
    "tests.servers.dynamodb",
    "tests.servers.dynamodb_local",
    "tests.servers.sqs.server",
    "tests.servers.databases",
    "tests.servers.browser",
]

# Before anything has asked where temporary files go.
take_memory()

# A shared machine may stall anywhere; how long an example takes says nothing about the code. Where CI is set the same
# examples are tried every time, as hypothesis does by itself there; elsewhere new ones are.
settings.register_profile(
    "singerlake",
    parent=settings.get_profile("ci" if "CI" in os.environ else "default"),
    deadline=None,
    max_examples=int(os.environ.get("SINGERLAKE_TEST_EXAMPLES", 40)),
)
settings.load_profile("singerlake")

service_models.share()

# A shell has what it runs in the background ignore SIGINT, and what tests start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Collecting tests makes little garbage; looking for it took two fifths of the time. pytest_collection_finish ends this.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_tiers(items)


def pytest_collection_finish() -> None:
    """All that was collected stays until the end, so no collection of a test's garbage has to go through it."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    return SharedScheduling(config, log)


@pytest.fixture
def stride(request: pytest.FixtureRequest) -> int:
    """From one step of the product to the next one that a test interrupts: each of them in ``make test-thorough``."""
    return 1 if any(request.node.get_closest_marker(tier) for tier in ("thorough", "soak")) else 3


@pytest.fixture(autouse=True)
def handlers_of_signals() -> Iterator[None]:
    """A tap or a target that a test makes here leaves no handler to the tests after it."""
    with signals_kept():
        yield


@pytest.fixture(autouse=True, scope="module")
def handlers_of_signals_before_the_module() -> Iterator[None]:
    """The same of those that a fixture makes for many tests, as singer-sdk's own suite does."""
    with signals_kept():
        yield
