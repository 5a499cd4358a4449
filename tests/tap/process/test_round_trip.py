"""Both plugins as processes: what the target takes in, the tap gives back."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.tap.process.test_passthrough import ODD_LINES
from tests.tap.runs import environment, run_process

TARGET = (sys.executable, "-c", "from target_singerlake.target import main; main()")
SCHEMA = b'{"type":"SCHEMA", "stream":"odd", "schema":{"properties":{"id":{}, "any":true}},  "key_properties":[]}'


def test_what_the_target_takes_in_the_tap_gives_back_byte_for_byte_in_any_number_of_runs(tmp_path):
    settings = {"lake_root": str(tmp_path / "lake"), "tap_id": "tap-a"}
    config, state = tmp_path / "target.json", tmp_path / "state.json"
    config.write_text(json.dumps({**settings, "max_file_records": 3}))
    state.write_text("{}")
    for _ in range(2):
        subprocess.run(
            [*TARGET, "--config", str(config)],
            input=b"".join(line + b"\n" for line in (SCHEMA, *ODD_LINES)),
            capture_output=True,
            env=environment(),
            check=True,
            timeout=60,
        )
        result = run_process(tmp_path, settings, "--state", str(state))
        assert result.returncode == 0
        lines = [line for line in result.stdout.split(b"\n")[:-1] if not line.startswith(b'{"type":"STATE"')]
        assert lines == [SCHEMA, *ODD_LINES]
        state.write_text(json.dumps(json.loads(result.stdout.splitlines()[-1])["value"]))
