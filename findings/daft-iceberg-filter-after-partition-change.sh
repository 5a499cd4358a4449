#!/bin/sh
# daft 0.7.26 on an Iceberg table of pyiceberg 0.11.1 (its own bound is below 0.12) to which a partition was added after
# the first rows: where(name = 'a') gives the row of 'a' that has the partition, and all rows of files that are older than
# it, whatever their name is. pyiceberg's scan filters both. Daft takes a condition on a partition's column for done once
# partitions are chosen; files of another spec have none to choose by.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet daft==0.7.26 pyiceberg==0.11.1 sqlalchemy==2.0.51 pyarrow==25.0.1
"$folder/venv/bin/python" -m pip freeze | grep -iE "^(daft|pyiceberg|pyarrow)=="
cat > "$folder/ask.py" <<'PYTHON'
import sys

import daft
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/lake")
catalog.create_namespace("n")
table = catalog.create_table("n.t", schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
with table.update_spec() as change:
    change.add_identity("name")
table.append(pa.table({"id": [3, 4], "name": ["a", "b"]}))
wanted = sorted(table.scan(row_filter="name = 'a'").to_arrow()["id"].to_pylist())
found = sorted(daft.read_iceberg(table).where(daft.col("name") == "a").to_pydict()["id"])
print("pyiceberg:", wanted)
print("daft:", found)
sys.exit((wanted, found) != ([1, 3], [1, 2, 3]))
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" "$folder"
