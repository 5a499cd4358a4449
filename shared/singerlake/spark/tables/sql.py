"""Statements in SQL over tables of a lake: Spark says which tables they read, and its tasks write their rows.

A statement runs in a session of its own, which knows no views but those of the tables that it names. Which these are
Spark tells by what it does not find, so that classic sessions and Connect are asked alike.

Whether a statement gives of each row of one table, at any time, what it gives of that row alone, is read from the plan
that Spark has analyzed, which Connect does not give. Lists say what is known to be so: a node, an expression or a type
that is on none of them makes the answer no, and all rows are made anew.
"""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema import columns as types
from singerlake.arrow.schema.own import OFFSET
from singerlake.errors import SettingError, SingerlakeError
from singerlake.spark.spark_types import arrow_schema, to_spark
from singerlake.spark.tables.reader import PARTITION_BYTES, PARTITION_FILES, read_files
from singerlake.spark.tables.views import PATTERN
from singerlake.spark.worker_storage import worker_storage
from singerlake.storage.roots import FolderRoot, parse_root
from singerlake.tables.declaration.model import Format
from singerlake.tables.declaration.statement import quoted
from singerlake.tables.read import LakeTable
from singerlake.tables.run.sql_engine import Find, RowsTask
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile
from singerlake.work.batches import batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as spark

    from singerlake.storage.settings import StorageSettings


SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true", "spark.sql.runSQLOnFiles": "false"}
"""What a statement means must not depend on the machine that runs it. Without the last one, a statement could read
files that no table has."""
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass(frozen=True)
class SparkSql:
    """Runs statements on ``session``. ``url`` and ``settings`` reach the lake from its workers."""

    session: SparkSession
    url: str
    settings: StorageSettings | None

    def query(self, statement: str, names: Sequence[str], find: Find) -> SparkQuery:
        """The statement, understood; see ``SqlEngine``."""
        session = self._session()
        try:
            return self._analyzed(session, statement, names, find)
        except BaseException:
            _close(session)
            raise

    def _analyzed(self, session: SparkSession, statement: str, names: Sequence[str], find: Find) -> SparkQuery:
        from pyspark.errors import AnalysisException, PySparkException

        text = statement.lower()
        for name in names:
            # A table of the session's catalog would be read in the place of the lake's.
            if name.lower() in text and session.catalog.tableExists(quoted(name)):
                self._show(session, quoted(name), find)
        seen: set[str] = set()
        while True:
            try:
                with _quiet():
                    # Within parentheses nothing but a query is understood.
                    frame = session.sql(f"SELECT * FROM ({statement}\n)")  # noqa: S608
                    columns = table_columns(frame.schema)
                return SparkQuery(self.url, self.settings, frame, columns, table_read_row_by_row(frame))
            except AnalysisException as error:
                relation = (error.getMessageParameters() or {}).get("relationName", "")
                if error.getCondition() != _NOT_FOUND or not relation or relation in seen:
                    raise _refused(error) from error
                seen.add(relation)
            except PySparkException as error:
                raise _refused(error) from error
            self._show(session, relation, find)

    def _session(self) -> SparkSession:
        try:
            session = self.session.newSession()
        except (AttributeError, NotImplementedError) as error:
            raise SettingError(
                "tables made by 'sql' need pyspark 4.3 or newer through Spark Connect",
                hint="upgrade pyspark, or leave --remote out",
            ) from error
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        return session

    def _show(self, session: SparkSession, relation: str, find: Find) -> None:
        shown = find(relation)
        frame = snapshot_frame(session, self.url, self.settings, shown.table)
        if shown.start:
            frame = frame.where(f"{OFFSET} >= {shown.start}")
        frame.createOrReplaceTempView(quoted(shown.table.name))


def _close(session: SparkSession) -> None:
    """End a session of one statement. Through Connect it has a client of its own, which would ask the server once more
    when the process ends, and wait; a classic one ends with the Java that it shares with others."""
    if not hasattr(type(session), "sparkContext") and not session.is_stopped:  # type: ignore[attr-defined]
        session.stop()


@dataclass(frozen=True)
class SparkQuery:
    """A statement that Spark has analyzed."""

    url: str
    settings: StorageSettings | None
    frame: DataFrame
    columns: types.Struct
    row_by_row: str | None

    def write(self, task: RowsTask) -> list[Any]:
        """The answers in the order of Spark's partitions; see ``Query``."""
        from pyspark.errors import PySparkException

        work = partial(_written, self.url, self.settings, task)
        names = [field.name for field in self.columns.fields]
        # Spark takes a name with a dot in it for the way to a field.
        numbered = self.frame.toDF(*(f"c{place}" for place in range(len(names))))

        # Spark itself sends Python's objects between driver and workers as pickles.
        def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pickle

            import pyarrow as pa
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            told = pickle.dumps(work(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches))
            yield pa.record_batch([pa.array([context.partitionId()]), pa.array([told])], names=["part", "answer"])

        session = self.frame.sparkSession
        try:
            with _quiet():
                rows = numbered.mapInArrow(answer, "part long, answer binary").collect()
        except PySparkException as error:
            condition = error.getCondition()
            if condition is None:
                raise
            # The rest of its message may hold a record.
            raise SettingError(
                f"the statement failed: {condition}", hint="correct it, as with try_cast or try_divide"
            ) from None
        finally:
            _close(session)
        answers = [pickle.loads(bytes(row.answer)) for row in sorted(rows, key=lambda row: row.part)]  # noqa: S301
        for each in answers:
            if isinstance(each, SingerlakeError):
                raise each
        return answers

    def close(self) -> None:
        _close(self.frame.sparkSession)


def _written(
    url: str, settings: StorageSettings | None, task: RowsTask, batches: Iterator[pa.RecordBatch]
) -> Any | SingerlakeError:
    """In a worker. Errors are returned, not raised: Spark would try again, and show all of its own stack."""
    try:
        return task(worker_storage(url, settings), batches)
    except SingerlakeError as error:
        return error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without pyspark's own report of each error, with all of its stack: a table that is not found is none here."""
    logger = logging.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _refused(error: Any) -> SettingError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0].partition(" SQLSTATE")[0] if lines else "no reason"
    return SettingError(f"Spark refuses the statement: {first}", hint="write one query over tables of the lake")


_PARQUET = (Format.PARQUET, Format.DELTA)


def snapshot_frame(session: SparkSession, url: str, settings: StorageSettings | None, table: LakeTable) -> DataFrame:
    """The rows of ``table``; workers reach its lake by ``url`` and ``settings``. Spark's own reader reads parquet on a
    disk; else tasks read through the lake's storage, which Spark need not know. A task raises as ``read_rows``."""
    schema = to_spark(table.columns)
    files = table.files()
    if not files:
        return session.createDataFrame([], schema)
    on_disk = isinstance(parse_root(url), FolderRoot)
    if on_disk and PATTERN.isdisjoint(table.storage.url) and table.state.declaration.get("format") in _PARQUET:
        return session.read.schema(schema).parquet(*files)
    parts = batches(table.state.files, lambda file: file.bytes, size=PARTITION_BYTES, most=PARTITION_FILES)
    sent = [pickle.dumps(tuple(part)) for part in parts]
    read = partial(_rows, url, settings, table_prefix(table.name), arrow_schema(schema))

    # Spark itself sends Python's objects between driver and workers as pickles.
    def rows(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        for batch in places:
            for place in batch.column(0).to_pylist():
                yield from read(pickle.loads(sent[place]))  # noqa: S301

    return session.range(0, len(sent), 1, len(sent)).mapInArrow(rows, schema)


def _rows(
    url: str, settings: StorageSettings | None, prefix: str, schema: pa.Schema, files: Sequence[TableFile]
) -> Iterator[pa.RecordBatch]:
    yield from read_files(worker_storage(url, settings), prefix, schema, files)


_INSTEAD = {"binary": "base64({})", "map": "to_json({})", "variant": "to_json({})"}


def table_columns(schema: spark.StructType) -> types.Struct:
    """The columns of a table with the rows of a DataFrame. Raises ``SettingError`` where it has none, and for a type
    that tables do not have, with what to write instead."""
    if not schema.fields:
        raise SettingError("the statement gives no columns", hint="select at least one")
    return _struct(schema, "")


def _struct(schema: spark.StructType, path: str) -> types.Struct:
    if path and len({field.name.lower() for field in schema.fields}) < len(schema.fields):
        raise SettingError(f"column {path!r} has two fields of one name", hint="name its fields otherwise")
    fields = (
        types.Field(each.name, _column(each.dataType, f"{path}.{each.name}" if path else each.name)) for each in schema
    )
    return types.Struct(tuple(fields))


def _column(given: spark.DataType, path: str) -> types.Column:
    from pyspark.sql import types as spark

    if isinstance(given, spark.StructType):
        return _struct(given, path)
    if isinstance(given, spark.ArrayType):
        return types.Array(_column(given.elementType, path))
    if isinstance(given, spark.DecimalType):
        return types.Decimal(given.precision, given.scale, number=True, text=True)
    if isinstance(given, spark.StringType | spark.CharType | spark.VarcharType):
        return types.Text()
    simple: dict[type, types.Column] = {
        spark.BooleanType: types.Boolean(),
        spark.ByteType: types.Integer(),
        spark.ShortType: types.Integer(),
        spark.IntegerType: types.Integer(),
        spark.LongType: types.Integer(),
        spark.FloatType: types.Double(),
        spark.DoubleType: types.Double(),
        spark.DateType: types.Date(),
        spark.TimestampType: types.Timestamp(),
        spark.TimestampNTZType: types.Timestamp(zoned=False),
    }
    found = simple.get(type(given))
    if found is None:
        name = given.typeName()
        instead = _INSTEAD.get(name, "CAST({} AS STRING)").format(path.rpartition(".")[2] or "...")
        raise SettingError(
            f"column {path!r} of the statement is of type {given.simpleString()}, which tables do not have",
            hint=f"write {instead}",
        )
    return found


_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_NODES = {_PLANS + name for name in ("Project", "Filter", "SubqueryAlias")}
_VALUES = {"AttributeReference", "Literal", "NamedLambdaVariable", "CommonExpressionRef"}
"""The only ones without another below them: what is of the moment or of the session has none either."""
_WORDS = """
    Alias Cast TryEval With CommonExpressionDef Abs Add Subtract Multiply Divide IntegralDivide Remainder Pmod
    UnaryMinus UnaryPositive Greatest Least Signum TryAdd TrySubtract TryMultiply TryDivide TryMod Round BRound Ceil
    Floor RoundCeil RoundFloor Sqrt Pow Exp Log BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight
    ShiftRightUnsigned And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In
    InSet Between IsNull IsNotNull IsNaN If CaseWhen Coalesce Nvl Nvl2 NaNvl NullIfZero ZeroIfNull CreateNamedStruct
    CreateArray GetStructField GetArrayItem GetArrayStructFields ElementAt Get Size ArrayContains ArrayTransform
    ArrayFilter ArrayExists ArrayForAll ArrayJoin ArrayMax ArrayMin ArrayDistinct SortArray Slice Flatten
    LambdaFunction Upper Lower InitCap Length OctetLength StringTrim StringTrimLeft StringTrimRight StringTrimBoth
    Substring SubstringIndex Left Right StringLPad StringRPad StringReplace StringTranslate StringInstr StringLocate
    StringRepeat StringSplit SplitPart Reverse Concat ConcatWs Like ILike RLike RegExpExtract RegExpExtractAll
    RegExpReplace StartsWith EndsWith Contains Ascii Chr Hex Md5 Sha1 Sha2 Crc32 XxHash64 Murmur3Hash Base64
    UnBase64 GetJsonObject StructsToJson Year Quarter Month DayOfMonth DayOfWeek DayOfYear WeekDay WeekOfYear
    LastDay Hour Minute Second Extract DatePart DateAdd DateSub DateDiff AddMonths MonthsBetween TruncDate
    TruncTimestamp DateFormatClass FromUnixTime UnixDate UnixSeconds UnixMillis UnixMicros SecondsToTimestamp
    MillisToTimestamp MicrosToTimestamp MakeDate FromUTCTimestamp ToUTCTimestamp GetTimestamp ParseToDate
    ParseToTimestamp SubtractTimestamps SubtractDates TimestampAdd TimestampDiff TimeAdd TimestampAddInterval
    TimestampAddYMInterval DateAddInterval DateAddYMInterval
"""
_KNOWN = _VALUES | set(_WORDS.split())
_SIMPLE = {"void", "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"}
_TIMES = ("date", "timestamp", "timestamp_ntz")
_GIVE_TIMES = {"GetTimestamp", "TruncTimestamp", "TimeAdd", "TimestampAddInterval", "TimestampAddYMInterval"}
_DATED = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T][0-9:.]*)?( ?Z|[+-][0-9:]+)?")
"""A date or time that is the same on every day: neither a word such as 'today', nor a time without its date."""
_WRITTEN = re.compile(rf"(date|timestamp|timestamp_ltz|timestamp_ntz)\s*'{_DATED.pattern}'", re.IGNORECASE)


@dataclass(frozen=True)
class _Expression:
    """An expression of Spark's, ``java``. ``type`` is there where it matters, ``text`` in a literal."""

    kind: str
    type: str
    text: str
    java: Any
    below: tuple[_Expression, ...]

    def all(self) -> Iterator[_Expression]:
        yield self
        for each in self.below:
            yield from each.all()


def table_read_row_by_row(frame: DataFrame) -> str | None:
    """The one table that the statement of ``frame`` reads once and row by row; None where that is not sure."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    if not hasattr(type(frame.sparkSession), "sparkContext"):
        # Connect gives no plan.
        return None
    try:
        return _table_of(frame._jdf.queryExecution().analyzed())
    except (Py4JError, RecursionError):
        # Whether a statement runs does not depend on what can be read of its plan.
        return None


def _table_of(plan: Any) -> str | None:
    if not plan.deterministic() or plan.isStreaming():
        return None
    nodes = []
    while _class_of(plan) != f"{_PLANS}View":
        if _class_of(plan) not in _NODES:
            return None
        nodes.append(plan)
        plan = plan.child()
    identifier = plan.desc().identifier()
    if not plan.isTempView() or identifier.database().isDefined():
        return None
    known = all(_is_known(each) for node in nodes for top in _listed(node.expressions()) for each in _tree(top).all())
    return str(identifier.table()) if known else None


def _class_of(java: Any) -> str:
    return str(java.getClass().getName())


def _listed(java: Any) -> Iterator[Any]:
    return (java.apply(place) for place in range(java.size()))


def _tree(java: Any) -> _Expression:
    """An expression and those below it. Spark's own JSON has some of these twice at each level, and so never ends."""
    kind = _class_of(java).removeprefix(_EXPRESSIONS)
    type = java.dataType().typeName() if kind in {"Cast", *_VALUES} else ""
    text = java.toString() if kind == "Literal" else ""
    known = kind in _KNOWN and kind not in _VALUES
    return _Expression(kind, type, text, java, tuple(map(_tree, _listed(java.children()))) if known else ())


def _is_known(node: _Expression) -> bool:
    if node.kind not in _KNOWN or (not node.below and node.kind not in {*_VALUES, "CreateArray"}):
        return False
    if node.kind == "Literal":
        return _is_written(node.java) if node.type in _TIMES else _is_simple(node.type) or "interval" in node.type
    if node.kind == "Cast":
        return _is_cast(node, node.type)
    if node.kind in ("ParseToDate", "ParseToTimestamp") and len(node.below) == 1:
        return _is_cast(node, "date" if node.kind == "ParseToDate" else "timestamp")
    return True


def _is_cast(node: _Expression, wanted: str) -> bool:
    """A text may say a time without a date, which is then of the day when it is read; and a constant one a word such
    as 'now'."""
    (given,) = node.below
    if wanted not in _TIMES:
        return _is_simple(wanted)
    if given.kind == "Literal":
        return given.type in ("void", *_TIMES) or (given.type == "string" and bool(_DATED.fullmatch(given.text)))
    if wanted == "date":
        return any(each.kind in ("AttributeReference", "NamedLambdaVariable") for each in given.all())
    return given.kind in _GIVE_TIMES or given.type in _TIMES


def _is_simple(type: str) -> bool:
    return type in _SIMPLE or type.startswith("decimal(")


def _is_written(literal: Any) -> bool:
    """Whether a date or a time stands in the statement as such: Spark puts what 'now' is into the plan at once."""
    origin = literal.origin()
    if not (origin.sqlText().isDefined() and origin.startIndex().isDefined() and origin.stopIndex().isDefined()):
        return False
    # Spark's parser counts characters, as Python does.
    text = origin.sqlText().get()[origin.startIndex().get() : origin.stopIndex().get() + 1]
    return bool(_WRITTEN.fullmatch(text))
