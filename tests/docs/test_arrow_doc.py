"""The examples of the page on Arrow, run from top to bottom as somebody would who has such a lake."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet
import pytest

from singerlake.lake import Lake
from tests.lakes import build_stream

PAGE = Path(__file__).parents[2] / "docs/how-to/arrow.md"
V1 = {"properties": {"id": {"type": "integer"}}}
V2 = {"properties": {"id": {"type": "integer"}, "total": {"type": "number"}}}


def test_every_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = Lake.open("lake")
    build_stream(lake, "tap-shop", "orders", V1, [{"id": n} for n in range(3)])
    build_stream(lake, "tap-shop", "orders", V2, [{"id": n, "total": n / 2} for n in range(3, 7)])
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert len(examples) == 5
    assert capsys.readouterr().out.splitlines() == ["4 ['id', 'total']", "9.0", "9.0", "[(9.0,)]"]
    assert pyarrow.parquet.read_table("orders.parquet").column("id").to_pylist() == list(range(7))
