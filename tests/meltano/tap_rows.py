#!/usr/bin/env python3
"""A small tap over a JSON file of tables, incremental by ``id`` and, like many, inclusive of its bookmark.

Settings: ``source``, a file {"table": [{"id": 1, ...}]}; and ``pause``, a folder: after each row the tap waits there
until a file ``go`` appears.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=Path, required=True)
parser.add_argument("--catalog", type=Path)
parser.add_argument("--state", type=Path)
parser.add_argument("--discover", action="store_true")
options = parser.parse_args()

config = json.loads(options.config.read_text())
tables = json.loads(Path(config["source"]).read_text())


def schema(rows: list[dict]) -> dict:
    names = {"integer": int, "string": str}
    types = {key: name for row in rows for key, value in row.items() for name in names if type(value) is names[name]}
    return {"type": "object", "properties": {key: {"type": ["null", name]} for key, name in types.items()}}


def write(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if options.discover:
    entries = [
        {"tap_stream_id": name, "stream": name, "schema": schema(rows), "metadata": [], "key_properties": ["id"]}
        for name, rows in tables.items()
    ]
    json.dump({"streams": entries}, sys.stdout)
    sys.exit()

chosen = {entry["tap_stream_id"] for entry in json.loads(options.catalog.read_text())["streams"]}
state = json.loads(options.state.read_text()) if options.state else {}
bookmarks = dict(state.get("bookmarks", {}))
for name in sorted(chosen & tables.keys()):
    write({"type": "SCHEMA", "stream": name, "schema": schema(tables[name]), "key_properties": ["id"]})
    for row in tables[name]:
        if row["id"] < bookmarks.get(name, {}).get("id", 0):
            continue
        write({"type": "RECORD", "stream": name, "record": row})
        if config.get("pause"):
            while not (Path(config["pause"]) / "go").exists():
                time.sleep(0.02)
    bookmarks[name] = {"id": tables[name][-1]["id"]}
    write({"type": "STATE", "value": {"bookmarks": bookmarks}})
