from __future__ import annotations

import psutil
import pytest

from tests.servers.dynamodb_local import dynamodb_local


@pytest.mark.thorough
def test_it_listens_on_loopback_alone() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with dynamodb_local() as server:
        (java,) = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        listening = [each.laddr for each in java.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
        assert int(server.endpoint_url.rpartition(":")[2]) in {address.port for address in listening}
    assert not java.is_running()
