#!/bin/sh
# singer-sdk 0.54.9: a target whose sink is a RecordSink takes BATCH messages, since every sink counts as able to, loads
# none of their records, and passes the STATE behind them on. Exit code 0, no warning.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet singer-sdk==0.54.9
"$folder/venv/bin/python" -m pip freeze | grep -i "^singer-sdk=="
cat > "$folder/target.py" <<'CODE'
import sys
from singer_sdk import RecordSink, Target

class Printing(RecordSink):
    def process_record(self, record, context):
        print("loaded", record, file=sys.stderr)

class PrintingTarget(Target):
    name = "target-printing"
    config_jsonschema = {"properties": {}}
    default_sink_class = Printing

PrintingTarget.cli()
CODE
echo '{"id":2}' > "$folder/batch.jsonl"
cat > "$folder/in" <<LINES
{"type":"SCHEMA","stream":"users","schema":{"type":"object","properties":{"id":{"type":"integer"}}},"key_properties":["id"]}
{"type":"RECORD","stream":"users","record":{"id":1}}
{"type":"BATCH","stream":"users","encoding":{"format":"jsonl","compression":"none"},"manifest":["file://$folder/batch.jsonl"]}
{"type":"STATE","value":{"users":2}}
LINES
"$folder/venv/bin/python" "$folder/target.py" < "$folder/in" > "$folder/state" 2> "$folder/log"
echo "STATE: $(cat "$folder/state"); loaded: $(grep -c '^loaded' "$folder/log") of 2 records"
grep -q '"users": 2' "$folder/state"
test "$(grep -c '^loaded' "$folder/log")" = 1
! grep -q WARN "$folder/log"
