"""``singerlake catalog``: where engines find tables, brought up after a copy, and served."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import StaticTable

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
DECLARED = "lake_root: lake\ntables:\n  users: {from: t.users, also: [delta, iceberg]}\n  plain: {from: t.users}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projections.yml").write_text(DECLARED)
    build_stream(Lake.open(str(tmp_path / "lake")), "t", "users", SCHEMA, [{"id": 1}], key_properties=("id",))
    return tmp_path


def test_what_describes_tables_is_listed_and_after_a_copy_brought_up(run: Run, folder: Path) -> None:
    assert run("project", "run").exit_code == 0
    listed = run("catalog", "ls")
    root = folder / "lake/published/users"
    assert (listed.exit_code, [line.split() for line in listed.stdout.splitlines()[1:]]) == (
        0,
        [
            ["users", "delta", "0", "the", "table", f"file://{root}"],
            ["users", "iceberg", "1", "the", "table", f"file://{root}/metadata/v1.metadata.json"],
            ["lake:", "1", "table"],
        ],
    )
    shutil.move("lake", "moved")
    behind = run("catalog", "ls", "moved", "-q")
    says = "users: iceberg does not show the table as it is; run 'singerlake catalog sync'\n"
    assert (behind.exit_code, behind.stdout) == (1, says)
    before = {path: path.read_bytes() for path in Path("moved").rglob("*") if path.is_file()}
    done = run("catalog", "sync", "moved")
    assert done.stdout == "users: delta shows the table, version 0\nusers: iceberg brought up, version 2\n"
    after = {path: path.read_bytes() for path in Path("moved").rglob("*") if path.is_file()}
    new = {path.name for path in after.keys() - before.keys()}
    assert {"v2.metadata.json"} < new
    assert {path.name for path, body in before.items() if after[path] != body} == {"version-hint.text"}
    told = json.loads(run("catalog", "ls", "moved", "users", "--json").stdout)
    assert [each["current"] for each in told["entries"]] == [True, True]
    found = StaticTable.from_metadata(told["entries"][1]["url"])
    assert found.scan().to_arrow().num_rows == 1


def test_a_run_registers_its_tables_and_a_catalog_that_is_down_stops_nothing(run: Run, folder: Path) -> None:
    down = run("project", "run", "--register", "http://127.0.0.1:9/catalog", "--json")
    assert down.exit_code == 0
    assert [each["status"] for each in json.loads(down.stdout)["tables"]] == ["made"] * 2
    assert "note: tables are not registered: the catalog failed: ConnectionError" in down.stderr
    to = f"sqlite:///{folder / 'catalog.db'}"
    told = run("project", "run", "--register", to)
    assert (told.exit_code, told.stderr) == (0, "")
    found = load_catalog("default", uri=to).load_table("published.users")
    assert found.metadata_location.endswith("/users/metadata/v1.metadata.json")
    take_name(found.catalog, folder)
    told = run("project", "run", "--register", to)
    assert told.exit_code == 0
    assert "note: users: not registered: the catalog has another table 'published.users'" in told.stderr


def take_name(catalog: Catalog, folder: Path) -> None:
    """Have the name lead to a table of others."""
    catalog.drop_table("published.users")
    catalog.create_table("published.users", pa.schema([("x", pa.int64())]), location=f"file://{folder}/theirs")


def test_where_no_table_is_described_that_is_said(run: Run) -> None:
    assert run("project", "run", "plain").exit_code == 0
    for command in ("ls", "sync"):
        told = run("catalog", command, "lake", "plain")
        assert (told.exit_code, told.stdout) == (0, "no table says 'also: delta' or 'also: iceberg'\n")
    assert "no table 'plan' in this lake; did you mean 'plain'?" in run("catalog", "ls", "lake", "plan").stderr


def test_a_table_that_cannot_be_read_stops_no_other(run: Run, folder: Path) -> None:
    assert run("project", "run").exit_code == 0
    (folder / "lake/published/plain/_table.json").write_text("{")
    for command in ("ls", "sync"):
        told = run("catalog", command)
        assert told.exit_code == 1
        assert "plain: failed" in told.stdout
        assert "users" in told.stdout


def test_a_lake_is_served_until_a_signal_comes(run: Run, folder: Path) -> None:
    assert run("project", "run").exit_code == 0
    (folder / "token").write_text("s3cret\n")
    program = [sys.executable, "-c", "from singerlake.cli.main import main; main()"]
    command = [*program, "catalog", "serve", "--port", "0", "--token-file", "token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = re.fullmatch(r"lake: Iceberg REST catalog at (http://127\.0\.0\.1:\d+)\n", server.stdout.readline())
        assert url is not None
        path = f"{url[1]}/v1/namespaces/published/tables"
        assert requests.get(path, timeout=30).status_code == 401
        told = requests.get(path, timeout=30, headers={"Authorization": "Bearer s3cret"})
        assert [each["name"] for each in told.json()["identifiers"]] == ["users"]
        server.send_signal(signal.SIGTERM)
        rest = server.communicate(timeout=30)
    assert (server.returncode, rest) == (143, ("", ""))


def test_the_site_of_a_lake_is_served_beside_its_catalog(run: Run, folder: Path) -> None:
    assert run("project", "run").exit_code == 0
    program = [sys.executable, "-c", "from singerlake.cli.main import main; main()"]
    command = [*program, "serve", "--port", "0", "--samples", "1", "--mask", "*mail*"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        url = re.fullmatch(r"lake: site and Iceberg REST catalog at (http://127\.0\.0\.1:\d+)\n", said)
        assert url is not None
        assert requests.get(f"{url[1]}/tables/users.html", timeout=30).status_code == 200
        figures = requests.get(f"{url[1]}/metrics", timeout=30)
        assert figures.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert figures.text == run("check", "--prometheus").stdout
        assert 'singerlake_table_behind_messages{table="users"} 0' in figures.text
        told = requests.get(f"{url[1]}/v1/namespaces/published/tables", timeout=30)
        assert [each["name"] for each in told.json()["identifiers"]] == ["users"]
        server.send_signal(signal.SIGTERM)
        rest = server.communicate(timeout=30)
    assert (server.returncode, rest) == (143, ("", ""))


def test_a_port_that_is_taken_and_a_token_that_is_none_are_told(run: Run, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = run("catalog", "serve", "lake", "--port", str(taken.getsockname()[1]))
    assert refused.exit_code == 2
    assert "cannot be listened at: address already in use; give another --port" in refused.stderr
    for text in (b"", b"two words", b"\xff", "é".encode()):
        (folder / "token").write_bytes(text)
        refused = run("catalog", "serve", "lake", "--token-file", "token")
        assert refused.exit_code == 2
        assert "the token file" in refused.stderr
    assert run("catalog", "serve", "lake", "--token-file", "nowhere").exit_code == 2
