"""The servers of the clouds, for commands that run on lakes in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from singerlake.adapters import open_storage
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, azurite
from tests.servers.gcs.server import gcs_server
from tests.storage.cloud.commands import Cloud


@pytest.fixture(scope="module")
def clouds() -> Iterator[dict[str, Cloud]]:
    with ExitStack() as running:
        azure, google = running.enter_context(azurite()), running.enter_context(gcs_server())
        azure.create_container("lake")
        google.create_bucket("lake")
        of_azure, of_google = azure.settings(), google.settings()
        yield {
            "az": Cloud(
                "az",
                {"azure_endpoint_url": f"{azure.url}/{ACCOUNT}", "azure_account_key": ACCOUNT_KEY},
                of_azure,
                lambda: list(azure.client("lake").list_blob_names()),
            ),
            "gs": Cloud(
                "gs",
                {"gcs_endpoint_url": google.endpoint_url},
                of_google,
                lambda: [entry.key for entry in open_storage("gs://lake", of_google).list("")],
            ),
        }
