"""The demo's own parts: it clears only what it made, says why a command failed, and loads all the flights."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rich.console import Console

from demo import __main__ as demo
from demo import flights
from demo.display import Commands, Display, StepFailedError, failure
from tools.postgres import Server


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "output"
    monkeypatch.setattr(demo, "OUTPUT", folder)
    monkeypatch.setattr(demo, "MARK", folder / demo.MARK.name)
    return folder


def test_a_folder_that_it_made_is_cleared(output: Path) -> None:
    demo.fresh_output()
    (output / "lake").mkdir()
    demo.fresh_output()
    assert not (output / "lake").exists()
    assert (output / "logs").is_dir()


def test_a_folder_that_it_did_not_make_is_left_alone(output: Path) -> None:
    output.mkdir()
    (output / "mine").write_text("precious")
    with pytest.raises(StepFailedError, match="did not make"):
        demo.fresh_output()
    assert (output / "mine").read_text() == "precious"


def test_an_empty_folder_is_used(output: Path) -> None:
    output.mkdir()
    demo.fresh_output()
    assert (output / "logs").is_dir()


def test_a_failed_command_shows_the_end_of_both_its_outputs_and_where_its_log_is(tmp_path: Path) -> None:
    commands = Commands({"PATH": "/usr/bin:/bin"}, tmp_path)
    with pytest.raises(StepFailedError) as caught:
        commands.run("sh", "-c", "seq 100 199; seq 200 299 >&2; echo '[bad] luck' >&2; exit 3")
    log = next(tmp_path.iterdir())
    shown = io.StringIO()
    Console(file=shown, width=300).print(failure(caught.value), soft_wrap=True)
    lines = shown.getvalue().splitlines()
    assert {"199", "299", "[bad] luck"} <= set(lines)
    assert not {"100", "200"} & set(lines)
    assert lines[-1].endswith(f"ended with 3; its log is {log}")


def test_a_step_shows_its_title_and_what_came_of_it() -> None:
    written = io.StringIO()
    with Display(1, Console(file=written, width=100)) as display, display.step("Do it") as say:
        say("done\nwell")
    assert "✓ Do it (" in written.getvalue()
    assert "    done\n    well\n" in written.getvalue()


@pytest.fixture
def table(postgres: Server) -> Iterator[Server]:
    yield postgres
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("DROP TABLE flights")


def test_the_flights_of_a_year_are_loaded_in_two_parts(table: Server) -> None:
    loaded = flights.load(table.dsn)
    with psycopg.connect(table.dsn) as connection:
        assert connection.execute("SELECT count(*), max(month) FROM flights").fetchone() == (loaded, 11)
        (bookmark,) = connection.execute("SELECT max(updated_at) FROM flights").fetchone()  # type: ignore[misc]
    changed = flights.change(table.dsn)
    with psycopg.connect(table.dsn) as connection:
        everything = "SELECT count(*), count(airline), count(*) FILTER (WHERE updated_at > %s) FROM flights"
        assert connection.execute(everything, [bookmark]).fetchone() == (336_776, changed, changed)
