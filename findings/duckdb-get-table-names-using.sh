#!/bin/sh
# duckdb 1.4.4 and 2.0.1: get_table_names(), which gives the tables that a query needs before any of them is there, raises
# BinderException where the query joins with USING or NATURAL, since it binds the columns of tables that it does not know.
# With ON it answers. json_serialize_sql() parses all three and names the tables.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat > "$folder/ask.py" <<'CODE'
import json
import sys

import duckdb

connection = duckdb.connect()
answers = []
for join in ("ON a.id = b.id", "USING (id)"):
    query = f"SELECT 1 FROM a JOIN b {join}"
    try:
        said = sorted(connection.get_table_names(query))
    except duckdb.BinderException as error:
        said = type(error).__name__
    (text,) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    print(f"{join}: {said}; parsed: {text.count('BASE_TABLE')} tables")
    answers.append((said, json.loads(text)["error"]))
sys.exit(answers != [(["a", "b"], False), ("BinderException", False)])
CODE
for version in 1.4.4 2.0.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet "duckdb==$version"
    echo "duckdb $version"
    "$folder/$version/bin/python" "$folder/ask.py"
done
