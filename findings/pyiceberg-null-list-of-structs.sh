#!/bin/sh
# pyiceberg 0.12.0: a null in a column of lists of structs is written as an empty list. The parquet file that append()
# makes holds it, so that no reader finds the null; one in a column of lists of integers stays. Its scan does the same to
# files that others wrote.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pyiceberg==0.12.0 sqlalchemy==2.0.51 pyarrow==26.0.1
"$folder/venv/bin/python" -m pip freeze | grep -iE "^(pyiceberg|pyarrow)=="
cat > "$folder/ask.py" <<'CODE'
import glob
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
schema = pa.schema([("structs", pa.list_(pa.struct([("x", pa.int64())]))), ("numbers", pa.list_(pa.int64()))])
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/lake")
catalog.create_namespace("n")
table = catalog.create_table("n.t", schema=schema)
table.append(pa.table({"structs": [None, [{"x": 1}]], "numbers": [None, [1]]}, schema=schema))
(path,) = glob.glob(f"{folder}/lake/**/*.parquet", recursive=True)
first = pq.read_table(path).to_pylist()[0]
print("in the file:", first)
sys.exit(first != {"structs": [], "numbers": None})
CODE
"$folder/venv/bin/python" "$folder/ask.py" "$folder"
