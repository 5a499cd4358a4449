"""Credentials that end in the middle of a capture: they are renewed, or the run says what to do; what it acknowledged
is in the lake, once, and the next run goes on from there."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, Azurite, azurite
from tests.servers.gcs.server import ALWAYS, GcsServer, gcs_server, private_key
from tests.storage.cloud.commands import SCHEMA, STREAM, Capture, Cloud, Commands, record, state
from tests.storage.cloud.entra import CLIENT_ID, Entra, entra

pytestmark = pytest.mark.thorough

STORES = ("lockfile", "log")
RECORDS = 6
TOKEN_LASTS = 6
"""Seconds. Azure's library asks for a new one from five minutes before the end of one on."""


@dataclass(frozen=True)
class Passing:
    """A cloud whose credentials pass away: ``end`` returns once those of a run are of no use. ``mended`` gives the same
    one with credentials that last. ``secrets`` are what no log may show."""

    cloud: Cloud
    end: Callable[[], None]
    mended: Callable[[], Cloud]
    secrets: Callable[[], list[str]]


def in_azure(server: Azurite, environment: Mapping[str, str] | None = None, **credentials: str) -> Cloud:
    given = {"azure_endpoint_url": f"{server.url}/{ACCOUNT}", **credentials}
    return Cloud("az", given, server.settings(), environment=environment or {})


def seconds_of_a_run(server: Azurite) -> float:
    """How long a small capture takes here and now."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        Commands(in_azure(server, azure_account_key=ACCOUNT_KEY), "lockfile", Path(folder)).capture([record(0)])
        return time.monotonic() - start


@contextmanager
def sas_token() -> Iterator[Passing]:
    with azurite() as server:
        server.create_container("lake")
        # Long enough for a first STATE, also where the machine is busy.
        lasts = timedelta(seconds=5 + 4 * seconds_of_a_run(server))
        over, token = time.monotonic() + lasts.total_seconds(), server.sas("lake", "rcwdl", lasts=lasts)
        yield Passing(
            in_azure(server, azure_sas_token=token),
            # Its end has whole seconds.
            lambda: time.sleep(max(0.0, over - time.monotonic()) + 1),
            lambda: in_azure(server, azure_sas_token=server.sas("lake", "rcwdl")),
            lambda: [token, token.rpartition("sig=")[2]],
        )


@contextmanager
def identity() -> Iterator[tuple[Azurite, Entra, Cloud]]:
    """An account that takes tokens, what gives them, and a cloud that is reached with them."""
    with azurite(secure=True) as server, entra(lasts=TOKEN_LASTS) as tokens:
        server.create_container("lake")
        environment = {"REQUESTS_CA_BUNDLE": str(server.certificate), **tokens.environment}
        yield server, tokens, in_azure(server, environment, azure_client_id=CLIENT_ID)


@contextmanager
def managed_identity() -> Iterator[Passing]:
    with identity() as (server, tokens, cloud):
        yield Passing(
            cloud,
            tokens.refuse,
            lambda: in_azure(server, cloud.environment, azure_account_key=ACCOUNT_KEY),
            lambda: [*tokens.given, *tokens.environment.values()],
        )


@contextmanager
def google() -> Iterator[tuple[GcsServer, Cloud]]:
    """A server that takes tokens alone, and a cloud that is reached with them."""
    with gcs_server() as server:
        server.create_bucket("lake")
        server.refuse_strangers()
        key = server.service_account()
        given = {"gcs_endpoint_url": server.endpoint_url, "gcs_service_account_json": key}
        yield server, Cloud("gs", given, server.settings(service_account_json=key))


@contextmanager
def service_account() -> Iterator[Passing]:
    with google() as (server, cloud):

        def end() -> None:
            # In this order: the lock's heartbeat asks for a new token as soon as its own has expired.
            server.fail("token", status=400, reason="invalid_grant", message="Invalid JWT Signature.", times=ALWAYS)
            server.expire_tokens()

        def mended() -> Cloud:
            server.calm()
            return cloud

        yield Passing(cloud, end, mended, lambda: GOOGLE_SECRETS)


GOOGLE_SECRETS = ["secret-token", "secret-key-id", *private_key().splitlines()]
ENDS = {
    "SAS token": (sas_token, "the SAS token has expired; renew azure_sas_token, then run again"),
    "managed identity": (managed_identity, "there are no credentials for Azure; set azure_account_key"),
    "service account": (
        service_account,
        "no access token was given for the credentials; check gcs_service_account_json",
    ),
}


def begun(cloud: Cloud, store: str, folder: Path) -> tuple[Commands, Capture]:
    """A capture with one record a file, whose first STATE has come out."""
    commands = Commands(cloud, store, folder)
    # People pass on logs that they made to find out what is wrong.
    commands.environment["TARGET_SINGERLAKE_LOGLEVEL"] = "DEBUG"
    commands.set(max_file_records=1, lock_stale_after_seconds=2, lock_refresh_seconds=1)
    capture = commands.capturing()
    capture.send(SCHEMA, record(0), state(0), record(1))
    assert capture.acknowledged() == state(0)["value"]
    return commands, capture


def rest(first: int) -> list[dict[str, object]]:
    """What a tap sends from this record on."""
    return [message for number in range(first, RECORDS) for message in (record(number), state(number))]


@pytest.mark.parametrize(
    ("what", "store"), [("SAS token", "lockfile"), ("managed identity", "log"), *product(("service account",), STORES)]
)
def test_a_run_ends_with_a_clear_error_and_the_next_one_goes_on(tmp_path: Path, what: str, store: str) -> None:
    make, said = ENDS[what]
    with make() as passing:
        commands, capture = begun(passing.cloud, store, tmp_path)
        passing.end()
        with suppress(BrokenPipeError):
            capture.send(state(1), *rest(2))
        code, states, log = capture.ended()
        assert code == 1
        assert log.splitlines()[-1].split("| ", 3)[3].startswith(said)
        assert "Traceback" not in log
        for command in (("singerlake", "verify"), ("tap-singerlake", "--config", str(commands.config))):
            failed, shown, why = commands.outcome(*command)
            assert failed != 0
            assert said in why
            log += shown + why
        assert not [secret for secret in passing.secrets() if secret in log]
        last = 1 + [state(0)["value"], *states][-1]["bookmarks"][STREAM]["id"]
        commands = Commands(passing.mended(), store, tmp_path)
        assert [each["record"]["id"] for each in commands.replayed()] == list(range(last))
        commands.capture(rest(last))
        assert commands.replayed() == [record(number) for number in range(RECORDS)]
        assert commands.run("singerlake", "verify", "--ignore", "unlisted").startswith("sound")


def test_tokens_of_azure_are_renewed(tmp_path: Path) -> None:
    with identity() as (_, tokens, cloud):
        commands, capture = begun(cloud, "lockfile", tmp_path)
        before = len(tokens.given)
        time.sleep(TOKEN_LASTS + 1)
        capture.send(state(1), *rest(2))
        code, states, log = capture.ended()
        assert (code, states[-1]) == (0, state(RECORDS - 1)["value"]), log
        assert len(tokens.given) > before
        assert commands.replayed() == [record(number) for number in range(RECORDS)]
        assert not [secret for secret in (*tokens.given, *tokens.environment.values()) if secret in log]


def test_tokens_of_google_are_renewed(tmp_path: Path) -> None:
    with google() as (server, cloud):
        commands, capture = begun(cloud, "lockfile", tmp_path)
        server.requests()
        server.expire_tokens()
        capture.send(state(1), *rest(2))
        code, states, log = capture.ended()
        assert (code, states[-1]) == (0, state(RECORDS - 1)["value"]), log
        assert "token" in server.operations()
        assert commands.replayed() == [record(number) for number in range(RECORDS)]
        assert not [secret for secret in GOOGLE_SECRETS if secret in log]
