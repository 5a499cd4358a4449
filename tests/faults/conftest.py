"""Places for the fault cases, and the proxies through which workers reach what is not a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.settings import StoreSettings
from singerlake.storage.port import Capabilities
from singerlake.storage.settings import StorageSettings
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.tables import create_table
from singerlake.stores.postgres.schema import create_schema
from tests.faults.support.crew import Crew
from tests.faults.support.haste import Haste
from tests.faults.support.network import Network
from tests.faults.support.places import KINDS, Kind, Place
from tests.servers.dynamodb import DynamoServer
from tests.servers.fault_proxy.proxy import FaultProxy, http_fault_proxy, postgres_fault_proxy
from tests.servers.s3 import S3Server
from tools.postgres import Server

NAME = "faults"
FACTOR = 10
"""How fast time runs for stores that wait for it: fast enough to be waited for, and slow enough for a busy machine."""

HONEST = Capabilities(conditional_put=True, conditional_delete=True)


@pytest.fixture(params=KINDS.values(), ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


Hire = Callable[[Place], Crew]


@pytest.fixture
def hire(tmp_path: Path) -> Iterator[Hire]:
    """Makes a crew for a place; its processes end with the test."""
    crews: list[Crew] = []

    def make(place: Place) -> Crew:
        folder = tmp_path / f"crew{len(crews)}"
        folder.mkdir()
        crews.append(Crew(place, folder))
        return crews[-1]

    yield make
    for crew in crews:
        crew.end()


@pytest.fixture(scope="session")
def dynamodb_ready(dynamodb_session: DynamoServer) -> DynamoServer:
    """The session's server, with a table."""
    endpoint_url = dynamodb_session.endpoint_url
    create_table(DynamoTable(NAME, dynamodb_session.settings(), endpoint_url=endpoint_url, clock=SystemClock()))
    return dynamodb_session


@pytest.fixture(scope="session")
def dynamodb_local_ready(dynamodb_local_session: DynamoServer) -> DynamoServer:
    """Amazon's own server, with a table."""
    endpoint_url = dynamodb_local_session.endpoint_url
    create_table(DynamoTable(NAME, dynamodb_local_session.settings(), endpoint_url=endpoint_url, clock=SystemClock()))
    return dynamodb_local_session


@pytest.fixture(scope="session")
def postgres_ready(postgres: Server) -> Server:
    """The session's server, with the tables."""
    create_schema(postgres.dsn, NAME)
    return postgres


@pytest.fixture(scope="session")
def haste() -> Haste:
    return Haste(SystemClock().now(), FACTOR)


def _database(kind: Kind, request: pytest.FixtureRequest) -> str:
    """What the fixtures of a kind's database begin with. Whether processes at once are granted what only one of them
    should be is decided by Amazon's own code in thorough tests; ``make test`` does without a Java."""
    is_quick = all(request.node.get_closest_marker(tier) is None for tier in ("thorough", "soak"))
    return "dynamodb_local" if kind.on == "dynamodb" and not is_quick else kind.on


@pytest.fixture
def place(kind: Kind, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """A lake in a folder, with a database beside it where the store has one."""
    root = str(tmp_path / "lake")
    # Writers make snapshots all the time, so that whatever befalls a commit befalls them, too.
    stores = StoreSettings(snapshot_transactions=1)
    if kind.on == "dynamodb":
        dynamodb: DynamoServer = request.getfixturevalue(f"{_database(kind, request)}_ready")
        stores = replace(stores, dynamodb_table=NAME, dynamodb_endpoint_url=dynamodb.endpoint_url)
        return Place(kind, root, StorageSettings(s3=dynamodb.settings()), stores)
    if kind.on == "postgres":
        postgres: Server = request.getfixturevalue("postgres_ready")
        return Place(kind, root, stores=replace(stores, postgres_url=postgres.dsn, postgres_schema=NAME))
    return Place(kind, root, stores=stores, haste=request.getfixturevalue("haste") if kind.settles else None)


@pytest.fixture
def crew(place: Place, hire: Hire) -> Crew:
    return hire(place)


@pytest.fixture(scope="session")
def s3_proxy(s3_session: S3Server) -> Iterator[FaultProxy]:
    with http_fault_proxy(s3_session.endpoint_url) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def hastened_s3_proxy(s3_session: S3Server, haste: Haste) -> Iterator[FaultProxy]:
    """In front of S3, whose clock runs faster seen through it."""
    since = haste.since.timestamp()
    with http_fault_proxy(s3_session.endpoint_url, since=since, factor=haste.factor) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def dynamodb_proxy(dynamodb_ready: DynamoServer) -> Iterator[FaultProxy]:
    with http_fault_proxy(dynamodb_ready.endpoint_url) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def dynamodb_local_proxy(dynamodb_local_ready: DynamoServer) -> Iterator[FaultProxy]:
    with http_fault_proxy(dynamodb_local_ready.endpoint_url) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def postgres_proxy(postgres_ready: Server) -> Iterator[FaultProxy]:
    with postgres_fault_proxy(postgres_ready.host, postgres_ready.port) as proxy:
        yield proxy


@pytest.fixture
def database_proxy(kind: Kind, request: pytest.FixtureRequest) -> Iterator[FaultProxy | None]:
    """In front of the store's database; None where it has none."""
    if kind.on == "lake":
        yield None
        return
    proxy: FaultProxy = request.getfixturevalue(f"{_database(kind, request)}_proxy")
    yield proxy
    proxy.calm()


@pytest.fixture
def network(place: Place, hire: Hire, database_proxy: FaultProxy | None, request: pytest.FixtureRequest) -> Network:
    """What the store's commits pass goes through a proxy: to the database, or to S3, where the lake then is."""
    if database_proxy is not None:
        return Network(hire(place), through(place, database_proxy), database_proxy)
    found: Network = request.getfixturevalue("bucket")
    return found


@pytest.fixture
def bucket(place: Place, s3: S3Server, hire: Hire, request: pytest.FixtureRequest) -> Iterator[Network]:
    """A lake in a prefix of its own on S3, behind a proxy; what the store's commits pass goes through one as well."""
    proxy: FaultProxy = request.getfixturevalue("hastened_s3_proxy" if place.kind.settles else "s3_proxy")
    root = f"s3://{s3.create_bucket(f'faults-{place.kind}')}/{random_id()}"
    place = replace(place, root=root, settings=StorageSettings(s3=s3.settings()), honoured=HONEST)
    yield Network(hire(place), place.by_way_of(proxy.url), proxy)
    proxy.calm()


def through(place: Place, proxy: FaultProxy) -> Place:
    """The place, with its database reached through a proxy."""
    if place.kind.on == "dynamodb":
        return place.by_way_of(None, dynamodb_endpoint_url=proxy.url)
    url = place.stores.postgres_url or ""
    return place.by_way_of(None, postgres_url=f"{url.rpartition(':')[0]}:{proxy.port}/{url.rpartition('/')[2]}")
