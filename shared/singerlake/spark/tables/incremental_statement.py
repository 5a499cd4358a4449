"""Whether a statement gives of each row of one table, at any time, what it gives of that row alone.

It is read from the plan that Spark has analyzed, which Connect does not give. Lists say what is known to be so: a node,
an expression or a type that is on none of them makes the answer no, and all rows are made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
