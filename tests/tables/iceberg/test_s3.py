"""Iceberg metadata on S3: runs write it through the lake's storage, and engines read it there."""

from __future__ import annotations

import pytest
from pyiceberg.table import StaticTable

from singerlake.lake import Lake
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, s3_server
from tests.tables.delta.test_readers import rows_of
from tests.tables.iceberg.world import DECLARED, PROPERTIES
from tests.tables.tables import STREAM, TAP, runner_of


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_table_on_s3_is_an_iceberg_table() -> None:
    with s3_server() as server:
        server.create_bucket("lakes")
        lake = Lake.open("s3://lakes/with/prefix", server.settings())
        for turn in range(3):
            records = [{"id": turn, "v": "a/b"}, {"id": 0, "v": str(turn)}]
            build_stream(lake, TAP, STREAM, {"properties": PROPERTIES}, records, key_properties=["id"])
            runner_of(lake).run(DECLARED)
        table = LakeTable.load(lake.storage, "t")
        assert list(verify_derived(lake.storage, table.state)) == []
        found = StaticTable.from_metadata(
            "s3://lakes/with/prefix/published/t/metadata/v3.metadata.json",
            {
                "s3.endpoint": server.endpoint_url,
                "s3.access-key-id": ACCESS_KEY_ID,
                "s3.secret-access-key": SECRET_ACCESS_KEY,
                "s3.region": REGION,
            },
        )
        assert len(found.metadata.snapshots) == 3
        assert rows_of(found.scan().to_arrow()) == rows_of(table.to_arrow().read_all())
