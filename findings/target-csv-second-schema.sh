#!/bin/sh
# meltanolabs-target-csv 0.5.0 (singer-sdk 0.54.9): where a stream's SCHEMA comes a second time with another column, after
# records were written, the file is begun anew and those records are gone. Exit code 0, and the STATE of all is printed.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet meltanolabs-target-csv==0.5.0 singer-sdk==0.54.9
"$folder/venv/bin/python" -m pip freeze | grep -i "^meltanolabs-target-csv=="
mkdir "$folder/out"
printf '{"output_path": "%s/out", "batch_size_rows": 2}' "$folder" > "$folder/config.json"
cat > "$folder/in" <<'LINES'
{"type":"SCHEMA","stream":"users","schema":{"type":"object","properties":{"id":{"type":"integer"}}},"key_properties":["id"]}
{"type":"RECORD","stream":"users","record":{"id":1}}
{"type":"RECORD","stream":"users","record":{"id":2}}
{"type":"SCHEMA","stream":"users","schema":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":["null","string"]}}},"key_properties":["id"]}
{"type":"RECORD","stream":"users","record":{"id":3,"name":"Ada"}}
{"type":"STATE","value":{"users":3}}
LINES
"$folder/venv/bin/target-csv" --config "$folder/config.json" < "$folder/in" > "$folder/state" 2> "$folder/log"
echo "three records went in, the target ended with 0 and STATE $(cat "$folder/state"); the file:"
cat "$folder"/out/*.csv
grep -q '"users": 3' "$folder/state"
printf 'id,name\r\n3,Ada\r\n' | cmp - "$folder"/out/*.csv
