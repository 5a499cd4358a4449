#!/usr/bin/env python3
"""A target that keeps every line it is sent in the file ``path`` and hands back each STATE."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=Path, required=True)
options = parser.parse_args()

with Path(json.loads(options.config.read_text())["path"]).open("w") as kept:
    for line in sys.stdin:
        kept.write(line)
        message = json.loads(line)
        if message["type"] == "STATE":
            kept.flush()
            print(json.dumps(message["value"]), flush=True)
