"""The page on Spark's declarative pipelines: run as it stands there by Spark's command, and what it says of errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from singerlake.lake import Lake
from singerlake.spark.java import Java
from tests.docs.readme import blocks
from tests.lakes import build_stream
from tests.spark.cluster.processes import environment

# Each run starts a Java and a server of its own, on machines that may be busy with other tests.
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.thorough,
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3), reason="the page tells of pyspark 4.3"
    ),
]

PAGE = Path(__file__).parents[3] / "docs/how-to/spark-pipelines.md"
NARROW, WIDE = {"type": "integer"}, {"type": "number"}
LATEST = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col

@dp.temporary_view
def changes():
    return spark.readStream.format("singerlake").options(path="{lake}", tap="tap-shop", stream="orders").load()

dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="changes", keys=["id"], sequence_by=col("total"), stored_as_scd_type=1)
"""


class Project:
    """A folder with what the page shows, and the lake that it names."""

    def __init__(self, folder: Path, java: Java) -> None:
        self.folder, self.java = folder / "project", java
        self.lake = Lake.open(str(folder / "lake"))
        for block in blocks(PAGE):
            if block.name:
                self.write(block.name, block.text.replace("s3://bucket/lake", self.lake.storage.url))
        spec = self.folder / "spark-pipeline.yml"
        self.write(spec.name, spec.read_text().replace("/pipelines/shop", str(self.folder)))

    def write(self, name: str, text: str) -> None:
        # The page names files of a folder in their language, without it.
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def capture(self, user: dict[str, str], *records: tuple[int, float, float]) -> None:
        schema = {"properties": {"id": NARROW, "user_id": user, "total": WIDE}}
        rows = [{"id": id, "user_id": user_id, "total": total} for id, user_id, total in records]
        build_stream(self.lake, "tap-shop", "orders", schema, rows)

    def run(self) -> subprocess.CompletedProcess[str]:
        """The command of the page, on this machine alone and with little memory."""
        (command,) = [block.text.split() for block in blocks(PAGE) if block.language == "sh"]
        own = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
        more = [part for name, value in own.items() for part in ("--conf", f"{name}={value}")]
        command = [str(Path(sys.executable).parent / command[0]), *more, *command[1:]]
        environ = environment(self.folder, Path(self.java.home))
        return subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=600)

    def rows(self, table: str) -> list[tuple[object, ...]]:
        files = sorted((self.folder / "spark-warehouse" / table).glob("*.parquet"))
        return sorted((tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()), key=repr)


@pytest.fixture
def project(tmp_path: Path, java: Java) -> Project:
    return Project(tmp_path, java)


def test_a_streaming_table_has_its_schema_also_where_a_type_is_wider(project: Project) -> None:
    project.capture(NARROW, (1, 7, 0.5), (2, 8, 1.0))
    project.capture(WIDE, (3, 7, 2.0), (4, 7.5, 4.0))
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    check_widened(project)


@pytest.mark.soak
def test_it_reads_what_is_new_also_where_a_type_widens(project: Project) -> None:
    project.capture(NARROW, (1, 7, 0.5), (2, 8, 1.0))
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.rows("orders") == [(1, 7, 0.5, None), (2, 8, 1.0, None)]
    project.capture(WIDE, (3, 7, 2.0), (4, 7.5, 4.0))
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    check_widened(project)


def check_widened(project: Project) -> None:
    found = project.rows("orders")
    assert [row[:3] for row in found] == [(1, 7, 0.5), (2, 8, 1.0), (3, 7, 2.0), (4, None, 4.0)]
    assert "7.5" in str(found[3][3])
    assert project.rows("totals") == [(7, 2, 2.5), (8, 1, 1.0), (None, 1, 4.0)]


@pytest.mark.soak
def test_without_its_schema_it_stops_where_a_type_widens(project: Project) -> None:
    project.capture(NARROW, (1, 7, 0.5), (2, 8, 1.0))
    assert project.run().returncode == 0
    project.capture(WIDE, (3, 7, 2.0), (4, 7.5, 4.0))
    found = project.rows("orders")
    orders = project.folder / "transformations/orders.py"
    orders.write_text(re.sub(r" +\.schema\(.*\)\n", "", orders.read_text()))
    done = project.run()
    assert done.returncode != 0
    assert "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE" in done.stdout + done.stderr
    assert project.rows("orders") == found


@pytest.mark.soak
def test_changes_cannot_be_merged_into_parquet(project: Project) -> None:
    project.capture(NARROW, (1, 7, 0.5))
    (project.folder / "transformations/totals.sql").unlink()
    project.write("transformations/orders.py", LATEST.format(lake=project.lake.storage.url))
    done = project.run()
    assert done.returncode != 0
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in done.stdout + done.stderr
