#!/bin/sh
# pipelinewise-transform-field 2.3.0: a mapper between tap and target. It passes SCHEMA, RECORD and STATE on, and drops
# each ACTIVATE_VERSION without a word, so that a target never deletes what a full-table replication left out.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pipelinewise-transform-field==2.3.0 setuptools==79.0.1
"$folder/venv/bin/python" -m pip freeze | grep -i "^pipelinewise-transform-field=="
echo '{"transformations": [{"tap_stream_name": "users", "field_id": "name", "type": "HASH"}]}' > "$folder/config.json"
cat > "$folder/in" <<'LINES'
{"type":"SCHEMA","stream":"users","schema":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":["null","string"]}}},"key_properties":["id"]}
{"type":"RECORD","stream":"users","record":{"id":1,"name":"Ada"},"version":7}
{"type":"ACTIVATE_VERSION","stream":"users","version":7}
{"type":"STATE","value":{"users":1}}
LINES
"$folder/venv/bin/transform-field" --config "$folder/config.json" < "$folder/in" > "$folder/out" 2> "$folder/log"
cat "$folder/out"
grep -q '"version": 7' "$folder/out"
grep -q '"STATE"' "$folder/out"
! grep -q ACTIVATE_VERSION "$folder/out"
