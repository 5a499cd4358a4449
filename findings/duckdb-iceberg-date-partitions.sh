#!/bin/sh
# duckdb 1.4.4 with its extension iceberg (of PyPI) on tables that pyiceberg 0.12.0 wrote, partitioned by a date: by
# identity, "d < DATE '2023-02-26'" and "d > ..." give no row, and by month(d), "d = DATE '2023-03-13'" and "IN" give none
# and "d >= ..." loses rows, without an error. All rows are there, as a count of all and pyiceberg's scan say. By year(d)
# and day(d) the same conditions are right.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet duckdb==1.4.4 duckdb-ext-avro==1.4.4.20260205 \
    duckdb-ext-httpfs==1.4.4.20260205 duckdb-ext-iceberg==1.4.4.20260205 pyiceberg==0.12.0 pyiceberg-core==0.11.0 sqlalchemy==2.0.51 pyarrow==26.0.1
"$folder/venv/bin/python" -m pip freeze | grep -iE "^(duckdb|duckdb-ext-iceberg|pyiceberg)=="
cat > "$folder/ask.py" <<'PYTHON'
import glob
import site
import sys
from datetime import date

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
catalog.create_namespace("n")
connection = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    (path,) = glob.glob(f"{site.getsitepackages()[0]}/**/{name}.duckdb_extension", recursive=True)
    connection.execute(f"LOAD '{path}'")
days = [date(1999, 9, 22), date(2000, 6, 28), date(2023, 3, 13), date(2024, 5, 19), date(2025, 2, 3)]
rows = pa.table({"d": pa.array(days, pa.date32())})
asked = ("d < '2023-02-26'", "d = '2023-03-13'", "d >= '1999-09-22'")
answers = {}
for transform in ("identity", "month", "year", "day"):
    table = catalog.create_table(f"n.by_{transform}", schema=rows.schema)
    with table.update_spec() as change:
        change.add_field("d", transform)
    table.append(rows)
    metadata = table.metadata_location.removeprefix("file://")
    counts = [table.scan(row_filter=where).to_arrow().num_rows for where in asked]
    for where in ("true", *(each.replace("'", "DATE '", 1) for each in asked)):
        counts += connection.execute(f"SELECT count(*) FROM iceberg_scan('{metadata}') WHERE {where}").fetchone()
    print(f"{transform}: pyiceberg {counts[:3]}, duckdb {counts[4:]} of {counts[3]}")
    answers[transform] = (counts[:3], counts[3], counts[4:])
wanted = [2, 1, 5]
sys.exit(
    answers
    != {
        "identity": (wanted, 5, [0, 1, 5]),
        "month": (wanted, 5, [2, 0, 4]),
        "year": (wanted, 5, wanted),
        "day": (wanted, 5, wanted),
    }
)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" "$folder"
