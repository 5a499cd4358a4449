#!/bin/sh
# duckdb 1.4.4 with its extension iceberg (of PyPI) on a table that pyiceberg 0.12.0 wrote, partitioned by month(day):
# "WHERE day = TIMESTAMP '1969-12-10'" gives no row, and no error. The row is there, as pyiceberg's own scan and a
# condition that DuckDB does not take to partitions say. Iceberg counts months down from 1970, December 1969 is -1; DuckDB
# cuts towards 1970, and leaves the file out.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet duckdb==1.4.4 duckdb-ext-avro==1.4.4.20260205 \
    duckdb-ext-httpfs==1.4.4.20260205 duckdb-ext-iceberg==1.4.4.20260205 pyiceberg==0.12.0 pyiceberg-core==0.11.0 sqlalchemy==2.0.51 pyarrow==26.0.1
"$folder/venv/bin/python" -m pip freeze | grep -iE "^(duckdb|duckdb-ext-iceberg|pyiceberg)=="
cat > "$folder/ask.py" <<'CODE'
import glob
import site
import sys
from datetime import datetime

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
catalog.create_namespace("n")
rows = pa.table({"day": pa.array([datetime(1969, 12, 10), datetime(2026, 1, 1)], pa.timestamp("us"))})
table = catalog.create_table("n.t", schema=rows.schema)
with table.update_spec() as change:
    change.add_field("day", "month")
table.append(rows)
connection = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    (path,) = glob.glob(f"{site.getsitepackages()[0]}/**/{name}.duckdb_extension", recursive=True)
    connection.execute(f"LOAD '{path}'")
metadata = table.metadata_location.removeprefix("file://")
answers = []
for where in ("true", "day = TIMESTAMP '1969-12-10'", "day + INTERVAL 0 DAY = TIMESTAMP '1969-12-10'"):
    (count,) = connection.execute(f"SELECT count(*) FROM iceberg_scan('{metadata}') WHERE {where}").fetchone()
    print(f"{where}: {count}")
    answers.append(count)
found = table.scan(row_filter="day = '1969-12-10T00:00:00'").to_arrow().num_rows
print("pyiceberg, day = 1969-12-10:", found)
sys.exit((answers, found) != ([2, 0, 1], 1))
CODE
"$folder/venv/bin/python" "$folder/ask.py" "$folder"
