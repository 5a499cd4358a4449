"""Microsoft's emulator of Azure Blob Storage, in a process of its own.

with azurite() as server:
    server.create_container("lake")
    driver = AzureDriver("lake", "prefix", server.settings())

With ``secure`` it speaks https alone, and takes tokens of Microsoft Entra: any that say who gave them and that last.
"""

from __future__ import annotations

import ipaddress
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.storage.drivers.azure.settings import AzureSettings
from tests.servers.ports.place import place, port_of
from tools.azurite import find

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""https://learn.microsoft.com/azure/storage/common/storage-connect-azurite: the same for everybody, and no secret."""
_STARTS_IN = 60.0
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Azurite:
    """A running server; ``url`` is without the account's name. ``certificate`` is to be trusted where it is https."""

    url: str
    certificate: Path | None = None

    def settings(self, **changes: Any) -> AzureSettings:
        """What reaches this server, with some settings changed."""
        known: dict[str, Any] = {"account_key": ACCOUNT_KEY, "endpoint_url": f"{self.url}/{ACCOUNT}"}
        return AzureSettings(**{**known, **changes})

    def create_container(self, name: str) -> str:
        """Make a container; gives its name."""
        self.client(name).create_container()
        return name

    def sas(self, container: str, permissions: str, *, lasts: timedelta = timedelta(hours=1)) -> str:
        """A SAS token for a container, which lasts in whole seconds."""
        from azure.storage.blob import ContainerSasPermissions, generate_container_sas

        return generate_container_sas(
            ACCOUNT,
            container,
            account_key=ACCOUNT_KEY,
            permission=ContainerSasPermissions.from_string(permissions),
            expiry=datetime.now(UTC) + lasts,
        )

    def client(self, container: str) -> Any:
        """A plain client, to arrange and to look behind an adapter's back."""
        from azure.storage.blob import ContainerClient

        trusted: dict[str, Any] = {"connection_verify": str(self.certificate)} if self.certificate else {}
        return ContainerClient(f"{self.url}/{ACCOUNT}", container, credential=ACCOUNT_KEY, **trusted)


@contextmanager
def azurite(*, secure: bool = False) -> Iterator[Azurite]:
    """A fresh, empty server on a free port of 127.0.0.1; it ends with the block."""
    with place() as held, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        port = port_of(held)
        command = [str(find()), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        certificate = _certified(Path(folder)) if secure else None
        if certificate is not None:
            command += ["--oauth", "basic", "--cert", str(certificate), "--key", str(certificate)]
        process = subprocess.Popen(
            [*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)], cwd=folder, stdout=said, stderr=said
        )
        try:
            _wait(process, port, said)
            yield Azurite(f"{'https' if secure else 'http'}://127.0.0.1:{port}", certificate)
        finally:
            process.kill()
            process.wait()


def _certified(folder: Path) -> Path:
    """A file with a key and its own certificate for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Azurite of the tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


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
