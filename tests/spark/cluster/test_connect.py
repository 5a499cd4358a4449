"""Spark Connect: a server of its own, whose clients have neither a Java nor, but for a list of streams, a lake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from singerlake.lake import Lake
from singerlake.spark.java import Java
from tests.attached.lakes import attach
from tests.lakes import build_stream
from tests.spark.cluster.connect import ConnectServer, connect_server

# Several Javas have to start, on machines that may be busy with other tests.
pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

SCHEMA = {"properties": {"id": {"type": "integer"}}}
TWICE = """
def total(found):
    return [list(row) for row in found.selectExpr("count(*)", "sum(id)").collect()]
print(json.dumps([total(load()), total(load(partition_bytes="2000"))]))
register(spark)
print(json.dumps([total(load()), load().columns]))
"""
STREAMS = """
found = read_streams(spark, sys.argv[2], "tap", to_offset={"orders": 10})
print(json.dumps({name: each.count() for name, each in found.items()}))
"""
TABLE = """
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.spark.tasks import SparkTasks
lake = Lake.open(sys.argv[2])
runner = lake.table_runner(lambda _: SparkTasks(spark, sys.argv[2], None))
done = runner.run(TableDeclaration(name="orders", tap="tap", stream="orders", keep=Keep.LATEST, key=("id",)))
print(json.dumps([done.run.inserted, lake.table("orders").rows]))
options = {"path": sys.argv[2], "table": "orders"}
print(spark.read.format("singerlake").options(**options).load().count())
"""
SQL = """
from pathlib import Path
from singerlake.lake import Lake
from singerlake.spark import spark_engine
file = Path(sys.argv[2], "projections.yml")
file.write_text('''
tables:
  twice: {sql: SELECT id * 2 AS id FROM orders WHERE id < 3}
  orders: {from: tap.orders, keep: append, format: csv}
  wrong: {sql: SELECT id FROM ordres}
''')
lake = Lake.open(sys.argv[2])
made = lake.project(file, engine=spark_engine(spark, lake), raise_errors=False)
print(json.dumps([[each.name, each.status, str(each.error)] for each in made]))
if made[1].status == "made":
    print(lake.table("twice").to_arrow().read_all().to_pydict())
    print(lake.table("twice").state.made_from[0].up_to)
"""
FILES = """
from singerlake.spark import file_bytes
keys = {"aws_access_key_id": "AKIASHOWN", "aws_secret_access_key": "hush-hush"}
found = load(stream="photos", files="true").selectExpr("explode(_singerlake_files) AS file")
read = found.withColumn("content", file_bytes("file.path", sys.argv[2], **keys))
read.explain(True)
print(json.dumps([bytes(row.content).decode() for row in read.orderBy("content").collect()]))
"""
REFUSED = """
keys = {"aws_access_key_id": "AKIASHOWN", "aws_secret_access_key": "hush-hush"}
load(**keys).explain(True)
print(load(**keys).count())
try:
    load(stream="nope", **keys).count()
except PySparkException as error:
    print(error)
"""


@pytest.fixture(scope="module")
def server(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect"), java.home) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "tap", "orders", SCHEMA, [{"id": n} for n in range(1000)], file_size=400, member_size=50)
    build_stream(lake, "tap", "users", SCHEMA, [{"id": 1}])
    return lake


def test_the_server_finds_the_format_and_registering_it_reads_the_same(server: ConnectServer, lake: Lake) -> None:
    first, second = map(json.loads, server.client(TWICE, lake.storage.url).splitlines())
    assert first == [[[1000, 499500]], [[1000, 499500]]]
    assert second == [[[1000, 499500]], ["id", "_rescued_data"]]


def test_it_makes_tables_of_statements(server: ConnectServer, lake: Lake) -> None:
    told, *read = server.client(SQL, lake.storage.url).splitlines()
    orders, *others = json.loads(told)
    assert orders[:2] == ["orders", "made"]
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3):
        # Earlier clients give no second session of a server.
        assert all("need pyspark 4.3 or newer" in error for _, _, error in others)
        return
    assert others[0] == ["twice", "made", "None"]
    # Connect gives no plan, and so nothing that a later run could go on from.
    assert read == ["{'id': [0, 2, 4]}", "None"]
    assert "reads `ordres`, which is not a table of this lake; did you mean 'orders'?" in others[1][2]


def test_all_streams_of_a_tap_in_one_call(server: ConnectServer, lake: Lake) -> None:
    assert json.loads(server.client(STREAMS, lake.storage.url)) == {"orders": 10, "users": 1}


def test_its_tasks_make_tables(server: ConnectServer, lake: Lake) -> None:
    made, read = server.client(TABLE, lake.storage.url).splitlines()
    assert json.loads(made) == [1000, 1000]
    assert json.loads(read) == 1000
    assert lake.table("orders").to_arrow().read_all().column("id").to_pylist() == list(range(1000))


def test_its_tasks_read_attached_files_and_secrets_are_not_told(server: ConnectServer, lake: Lake) -> None:
    attach(lake, "tap", "photos", [[b"a", b"b"], [b"c"]])
    said = server.client(FILES, lake.storage.url)
    assert json.loads(said.splitlines()[-1]) == ["a", "b", "c"]
    told = [said, server.log.read_text(), *(path.read_text() for path in server.events.rglob("*") if path.is_file())]
    assert [text for text in told if "hush" in text] == []


def test_what_is_wrong_is_told_on_first_use_and_secrets_are_not(server: ConnectServer, lake: Lake) -> None:
    said = server.client(REFUSED, lake.storage.url)
    assert "tap 'tap' has no stream 'nope'; it has: orders, users" in said
    assert "\n1000\n" in said
    assert "hush" not in said
    assert "hush" not in server.log.read_text()
