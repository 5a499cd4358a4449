#!/bin/sh
# duckdb 1.4.4 with its extension iceberg (of PyPI) on a table that pyiceberg 0.12.0 wrote: a column is added, and rows
# with it are appended. "WHERE b IS NULL" gives none of the rows that were written before, and no error; 4 rows are
# there, 3 of them with null, as pyiceberg's own scan and coalesce(b, -1) = -1 in DuckDB say. The manifest has no count of
# nulls for a column that a file does not have, and DuckDB takes that for a file without nulls.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet duckdb==1.4.4 duckdb-ext-avro==1.4.4.20260205 \
    duckdb-ext-httpfs==1.4.4.20260205 duckdb-ext-iceberg==1.4.4.20260205 pyiceberg==0.12.0 sqlalchemy==2.0.51 pyarrow==26.0.1
"$folder/venv/bin/python" -m pip freeze | grep -iE "^(duckdb|duckdb-ext-iceberg|pyiceberg)=="
cat > "$folder/ask.py" <<'CODE'
import glob
import site
import sys

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
catalog.create_namespace("n")
table = catalog.create_table("n.t", schema=pa.schema([("id", pa.int64())]))
table.append(pa.table({"id": [1, 2, 3]}))
with table.update_schema() as change:
    change.add_column("b", LongType())
table.append(pa.table({"id": [4], "b": [7]}))
connection = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    (path,) = glob.glob(f"{site.getsitepackages()[0]}/**/{name}.duckdb_extension", recursive=True)
    connection.execute(f"LOAD '{path}'")
metadata = table.metadata_location.removeprefix("file://")
answers = []
for where in ("true", "b IS NULL", "coalesce(b, -1) = -1"):
    (count,) = connection.execute(f"SELECT count(*) FROM iceberg_scan('{metadata}') WHERE {where}").fetchone()
    print(f"{where}: {count}")
    answers.append(count)
print("pyiceberg, b is null:", table.scan(row_filter="b is null").to_arrow().num_rows)
sys.exit(answers != [4, 0, 3])
CODE
"$folder/venv/bin/python" "$folder/ask.py" "$folder"
