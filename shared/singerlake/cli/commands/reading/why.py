"""``singerlake why``: where a row of a table comes from, or why it is not there."""

from __future__ import annotations

import json
from functools import partial

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, with_lake
from singerlake.cli.output import counted, json_of, say, second, show, shown, size, table
from singerlake.errors import SingerlakeError
from singerlake.humanize import cut
from singerlake.lake import Lake
from singerlake.tables.why.why import Cell, RecordOrigin, Typed, WhyResult

_LONGEST = 40
"""Characters of a value in a table of all columns."""
_COLUMNS = ("COLUMN", "VALUE", "POINTER", "BYTES", "MADE")
_EARLIER = (">OFFSET", "EXTRACTED (UTC)", "VALUE")


@examples(
    "singerlake why lake users --key id=42 --column email",
    "singerlake why lake users --key id=43 --missing",
)
@command("Say where a row comes from, to the bytes of its record, or why it is not there.")
@partial(with_lake, names=Names(singles=("table",)))
@click.option(
    "--key", multiple=True, metavar="COLUMN=VALUE", help="Find the row by this column; give it again for more."
)
@click.option("--offset", type=click.IntRange(0), metavar="N", help="Find the row by its _singerlake_offset instead.")
@click.option("--column", metavar="COLUMN", help="Only this column, in full.")
@click.option(
    "--earlier",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Look for this many older values of --column in the log, from the record backwards.",
)
@click.option(
    "--sample",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="N",
    help="Name this many rows of each table that a statement made the row of.",
)
@click.option("--missing", is_flag=True, help="Where no row has the key, read the log to say why.")
@result_options
def why(
    lake: Lake,
    table: str,
    key: tuple[str, ...],
    offset: int | None,
    column: str | None,
    earlier: int,
    sample: int,
    missing: bool,
) -> int:
    """Say where a row comes from, to the bytes of its record, or why it is not there.

    It names the record, its data file, gzip member and line, its schema and the run that captured it, and checks that
    these bytes give the row. For that it reads a few ranges of the table and of one data file. --earlier and --missing
    read the log as far as they have to, at worst all of it. Of a history the newest version of a key is meant. Of a
    table of a statement it names the rows that made the row. Exits with 1 where something of this cannot be told.
    """
    pairs = [each.partition("=") for each in key]
    if any(not equals for _, equals, _ in pairs):
        raise click.UsageError("--key takes COLUMN=VALUE")
    if bool(key) is (offset is not None):
        raise click.UsageError("give --key, or --offset instead")
    if earlier and column is None:
        raise click.UsageError("--earlier needs --column")
    wanted = {name: Typed(value) for name, _, value in pairs}
    try:
        result = lake.table(table).why(
            wanted, column=column, offset=offset, earlier=earlier, missing=missing, sample=sample
        )
    except SingerlakeError as error:
        for name in ("earlier", "missing"):
            error.rename(name, f"--{name}")
        raise
    show(result, partial(_say, one=column is not None))
    return 1 if result.trouble else 0


def _say(result: WhyResult, *, one: bool) -> None:
    if result.absence is not None:
        say(f"no row: {shown(result.absence.message)}")
    if one:
        for cell in result.cells:
            _say_cell(cell)
    elif result.cells:
        caption = "" if result.record is None else "BYTES are those of the line, from 0 and without the last"
        table(_COLUMNS, [_row(cell) for cell in result.cells], caption=caption)
    if result.record is not None:
        _say_record(result.record)
    if result.taken_in is not None:
        _field("in the table", f"since the run at {result.taken_in}")
    if result.reads:
        _field("made from", ", ".join(result.reads))
    for each in result.made_of:
        by = "" if each.read_by == result.table else f", which made those of {each.read_by}"
        _field("made of", f"{counted(each.count, 'row')} of {each.table}{by}")
        for row in each.rows:
            say(shown("  " + ", ".join(f"{name} {_text(value)}" for name, value in row.items())))
        if each.count > len(each.rows):
            say(f"  and {each.count - len(each.rows):,} more")
    if result.earlier is not None:
        rows = [
            (
                str(each.offset),
                second(each.time_extracted) if each.time_extracted is not None else "",
                "deleted" if each.deletes else _text(each.value),
            )
            for each in result.earlier
        ]
        table(_EARLIER, rows, caption="" if rows else "no earlier value is left")
    if result.trouble:
        say(f"note: {shown(result.trouble)}", problem=True)


def _row(cell: Cell) -> tuple[str, ...]:
    at = "" if cell.bytes is None else "{} to {}".format(*cell.bytes)
    return cell.column, cut(_text(cell.value), _LONGEST), cell.pointer or "", at, ", ".join(cell.made)


def _say_cell(cell: Cell) -> None:
    _field(cell.column, _text(cell.value))
    if cell.bytes is not None:
        _field("captured", f"{cell.captured}, bytes {cell.bytes[0]} to {cell.bytes[1]} of the line, {cell.pointer}")
    elif cell.pointer is not None:
        _field("captured", f"the record has no {cell.pointer}")
    if cell.declared is not None:
        _field("declared", json.dumps(cell.declared, ensure_ascii=False))
    if cell.made:
        _field("made", ", ".join(cell.made))


def _say_record(record: RecordOrigin) -> None:
    _field("record", f"offset {record.offset} of {record.tap}/{record.stream}, lineage {record.lineage}")
    extracted = record.time_extracted
    _field("extracted", extracted if isinstance(extracted, str) else "" if extracted is None else _text(extracted))
    known = (record.writer, record.started and f"begun {record.started}", record.outcome)
    _field("run", ", ".join(filter(None, (record.run, *known))))
    _field("schema", f"{record.version or ''} {record.schema}".strip())
    _field("file", record.file)
    checked = "checked" if record.checked else "not checked, since the file was not read whole"
    _field("sha256", f"{record.sha256}, {checked}; {size(record.bytes)}")
    _field("line", f"{record.line} of the text in bytes {record.start} to {record.end} of the file")
    if record.original not in record.file:
        _field("written as", f"file {record.original}, joined or written anew since")
    for each in record.attached:
        _field("attached", f"{each.property}: {each.sha256 or 'could not be read'}")


def _field(name: str, text: str) -> None:
    if text:
        say(f"{click.style(f'{shown(name):<12}', bold=True)}  {shown(text)}")


def _text(value: object) -> str:
    """A value as JSON has it."""
    return json.dumps(json_of(value), ensure_ascii=False)
