#!/bin/sh
# singer-sdk 0.54.9: a tap whose property is declared as boolean sends true for every text that it has, also for "false",
# "no" and "0". No warning. A target that validates records sees a boolean.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet singer-sdk==0.54.9
"$folder/venv/bin/python" -m pip freeze | grep -i "^singer-sdk=="
cat > "$folder/tap.py" <<'CODE'
from singer_sdk import Stream, Tap

class Answers(Stream):
    name = "answers"
    schema = {"type": "object", "properties": {"said": {"type": "string"}, "agreed": {"type": ["boolean", "null"]}}}

    def get_records(self, context):
        for said in ("yes", "no", "false", "0"):
            yield {"said": said, "agreed": said}

class AnswersTap(Tap):
    name = "tap-answers"
    config_jsonschema = {"properties": {}}

    def discover_streams(self):
        return [Answers(self)]

AnswersTap.cli()
CODE
"$folder/venv/bin/python" "$folder/tap.py" 2> "$folder/log" | grep '"RECORD"' > "$folder/out"
grep -o '"record":{[^}]*}' "$folder/out"
test "$(grep -c '"agreed":true' "$folder/out")" = 4
! grep -q WARN "$folder/log"
