"""A run that is told to end while threads compress."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from target_singerlake.files.growing import Compressor
from target_singerlake.target import TargetSingerlake
from tests.target.support import config, kept_ids, record, schema, state, text


@pytest.mark.parametrize("streams", [1, 3])
def test_a_signal_between_scanning_and_compressing_keeps_what_was_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: int
) -> None:
    target = TargetSingerlake(config=config(tmp_path, max_memory_bytes=1 << 20))

    ways: set[str] = set()

    def stopping(way: str) -> Callable[..., Future[None]]:
        hand_over = getattr(Compressor, way)

        def stopped(*work: Any) -> Future[None]:
            ways.add(way)
            target._handle_termination(signal.SIGTERM, None)
            return hand_over(*work)  # type: ignore[no-any-return]

        return stopped

    for way in ("submit", "share"):
        monkeypatch.setattr(Compressor, way, stopping(way))
    names = [f"s{number}" for number in range(streams)]
    lines = [schema(name) for name in names]
    for id in range(20_000):
        lines.append(record(id, names[id % streams], filler="x" * 100))
        if id % 100 == 99:
            lines.append(state({"at": id}))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out), pytest.raises(SystemExit) as raised:
        target.listen(io.BytesIO(text(lines)))
    assert raised.value.code == 128 + signal.SIGTERM
    assert "share" in ways
    ids = sorted(id for name in names for id in kept_ids(tmp_path, name))
    assert ids == list(range(len(ids)))
    assert 100 < len(ids) < 20_000
    out.seek(0)
    *_, last = out.read().splitlines()
    assert len(ids) - 100 <= json.loads(last)["at"] < len(ids)
