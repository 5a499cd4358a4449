"""A Delta table on S3: runs commit to it through the lake's storage, and engines read it there."""

from __future__ import annotations

from dataclasses import replace

import deltalake
import polars
import pytest

from singerlake.lake import Lake
from singerlake.tables.declaration.model import Partition
from singerlake.tables.delta import publish as publish_module
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, s3_server
from tests.tables.delta.world import DECLARED, PROPERTIES
from tests.tables.tables import STREAM, TAP, runner_of


def test_a_table_on_s3_is_a_delta_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_module, "CHECKPOINT_AFTER", 2)
    with s3_server() as server:
        server.create_bucket("lakes")
        lake = Lake.open("s3://lakes/with/prefix", server.settings())
        options = {
            "aws_access_key_id": ACCESS_KEY_ID,
            "aws_secret_access_key": SECRET_ACCESS_KEY,
            "aws_region": REGION,
            "aws_endpoint_url": server.endpoint_url,
            "aws_allow_http": "true",
        }
        root = "s3://lakes/with/prefix/published/t"
        for turn in range(3):
            records = [{"id": turn, "v": "a/b"}, {"id": 0, "v": str(turn)}]
            build_stream(lake, TAP, STREAM, {"properties": PROPERTIES}, records, key_properties=["id"])
            runner_of(lake).run(replace(DECLARED, partition_by=(Partition("v"),)))
        table = LakeTable.load(lake.storage, "t")
        assert list(verify_derived(lake.storage, table.state)) == []
        found = deltalake.DeltaTable(root, storage_options=options)
        assert found.version() == 2
        wanted = sorted(table.to_arrow().read_all().to_pylist(), key=lambda row: row["id"])
        assert sorted(found.to_pyarrow_dataset().to_table().to_pylist(), key=lambda row: row["id"]) == wanted
        read = polars.scan_delta(root, storage_options=options).sort("id").collect()
        assert read.to_arrow().to_pylist() == wanted
