"""Microsoft's emulator of Azure Blob Storage, in a process of its own.

with azurite() as server:
    server.create_container("lake")
    driver = AzureDriver("lake", "prefix", server.settings())
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from singerlake.storage.azure.settings import AzureSettings
from tools.azurite import find

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""https://learn.microsoft.com/azure/storage/common/storage-connect-azurite: the same for everybody, and no secret."""
_STARTS_IN = 60.0


@dataclass(frozen=True)
class Azurite:
    """A running server; ``url`` is without the account's name."""

    url: str

    def settings(self, **changes: Any) -> AzureSettings:
        """What reaches this server, with some settings changed."""
        known: dict[str, Any] = {"account_key": ACCOUNT_KEY, "endpoint_url": f"{self.url}/{ACCOUNT}"}
        return AzureSettings(**{**known, **changes})

    def create_container(self, name: str) -> str:
        """Make a container; gives its name."""
        self.client(name).create_container()
        return name

    def sas(self, container: str, permissions: str) -> str:
        """A SAS token for a container that lasts an hour."""
        from azure.storage.blob import ContainerSasPermissions, generate_container_sas

        return generate_container_sas(
            ACCOUNT,
            container,
            account_key=ACCOUNT_KEY,
            permission=ContainerSasPermissions.from_string(permissions),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )

    def client(self, container: str) -> Any:
        """A plain client, to arrange and to look behind an adapter's back."""
        from azure.storage.blob import ContainerClient

        return ContainerClient(f"{self.url}/{ACCOUNT}", container, credential=ACCOUNT_KEY)


@contextmanager
def azurite() -> Iterator[Azurite]:
    """A fresh, empty server on a free port of 127.0.0.1; it ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        command = [str(find()), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        process = subprocess.Popen(
            [*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)], cwd=folder, stdout=said, stderr=said
        )
        try:
            _wait(process, port, said)
            yield Azurite(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, said: Any) -> None:
    deadline = time.monotonic() + _STARTS_IN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    said.seek(0)
    raise AssertionError(f"Azurite did not start: {said.read().decode(errors='replace')}")


@pytest.fixture(scope="session")
def azurite_session() -> Iterator[Azurite]:
    """The server that all tests of a session share; give each test a container or a prefix of its own."""
    with azurite() as server:
        yield server
