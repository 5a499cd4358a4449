"""How a statement makes its rows, as far as that is sure: which rows of the tables that it reads made one. Pure.

Lists say what is known. A part of a statement that is on none of them either prevents an answer, or is passed over.
Then more rows may be found than made it, and only a single one is sure. What is kept of a statement means the same to
DuckDB as to Spark: columns are compared with columns of their type, and with plain values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import Boolean, Column, Date, Double, Integer, JsonText, Struct, Text
from singerlake.humanize import cut
from singerlake.tables.query import quoted

if TYPE_CHECKING:
    from sqlglot import exp

_LONGEST = 100
"""Characters of a part that a message names."""


class UnknownOriginError(Exception):
    """Which rows made a row is not known. The text says why."""


def _prevents(part: str) -> UnknownOriginError:
    return UnknownOriginError(f"the statement has {part}")


@dataclass(frozen=True)
class Origin:
    """``tables`` are what the statement reads, each as ``t0``, ``t1``, … in ``source``, ``where`` and ``pins``, which
    are SQL of DuckDB. ``pins``: which column of a table stands in a column of the row, by the place of the latter.
    ``made`` says how each column of the row is made. ``is_group``: the row is made of all rows that are found;
    otherwise of one combination of them, and ``unseen`` are parts of the statement that may leave out others."""

    tables: tuple[str, ...]
    source: str
    where: tuple[str, ...]
    pins: Mapping[int, str]
    made: tuple[str, ...]
    is_group: bool
    unseen: tuple[str, ...]


def origin_of(statement: str, columns: Mapping[str, Struct], names: Sequence[str]) -> Origin:
    """How a statement over tables with these ``columns``, which are all that it read, makes rows with columns called
    ``names``. Raises ``UnknownOriginError``."""
    import sqlglot

    try:
        return _origin(sqlglot.parse_one(statement, dialect="spark"), columns, names)
    except sqlglot.errors.SqlglotError:
        raise _prevents("syntax that sqlglot does not know") from None
    except RecursionError:
        raise _prevents("syntax that is nested too deeply") from None


def _origin(select: exp.Expr, columns: Mapping[str, Struct], names: Sequence[str]) -> Origin:
    from sqlglot import exp

    if not isinstance(select, exp.Select):
        raise _prevents(select.key.upper())
    for name, value in select.args.items():
        if value and name.rstrip("_") not in _CLAUSES:
            raise _prevents(_text(value[0] if isinstance(value, list) else value))
    return _Reading(select, columns).origin(names)


_CLAUSES = {
    *("expressions", "from", "joins", "where", "group", "having", "order", "distinct", "limit", "offset", "hint"),
    *("sort", "cluster", "distribute"),
}
_SCALARS = """
    Alias Identifier Column Literal Boolean Null Paren Add Sub Mul Div IntDiv Mod Neg EQ NEQ GT GTE LT LTE NullSafeEQ
    NullSafeNEQ And Or Not Is In Between Like Case If Coalesce Nullif Cast TryCast DataType DataTypeParam Upper Lower
    Initcap Concat DPipe Substring Left Right Trim Length Replace RegexpReplace RegexpExtract Abs Sign Round Floor Ceil
    Pow Sqrt Greatest Least Year Quarter Month Day Hour TsOrDsToDate TsOrDsAdd DateAdd DateSub DateDiff DateTrunc
    TimestampTrunc MD5 Var
"""
"""What gives one value for each row."""
_AGGREGATES = """
    Count CountIf Sum Avg Min Max Stddev StddevPop StddevSamp Variance VariancePop First Last AnyValue
"""
"""What gives one value for a group of rows; DISTINCT and a star may stand in some."""


@dataclass(frozen=True)
class _Plain:
    """A column of a table."""

    sql: str
    type: Column = field(compare=False)


@dataclass(frozen=True)
class _Relation:
    """A table that is read, with its columns by their names in lower case: Spark does not tell them apart by it."""

    table: str
    place: int
    columns: Mapping[str, tuple[str, Column]]

    def column(self, name: str) -> _Plain | None:
        found = self.columns.get(name.lower())
        return None if found is None else _Plain(f"t{self.place}.{quoted(found[0])}", found[1])


class _Reading:
    """A statement of one SELECT, read from its tables on. ``_shared`` are columns that USING made one."""

    def __init__(self, select: exp.Select, columns: Mapping[str, Struct]) -> None:
        from sqlglot import exp

        self._exp, self._select, self._known = exp, select, columns
        self._relations: dict[str, _Relation] = {}
        self._shared: dict[str, _Plain] = {}
        self._aggregates = tuple(kind for name in _AGGREGATES.split() if (kind := getattr(exp, name, None)))
        self._scalars = {kind for name in _SCALARS.split() if (kind := getattr(exp, name, None))}
        source = select.args.get("from_")
        if source is None:
            raise _prevents("a SELECT without FROM")
        joins = select.args.get("joins") or ()
        self._source = self._add(source.this)
        for join in joins:
            self._join(join, is_only=len(joins) == 1)

    def origin(self, names: Sequence[str]) -> Origin:
        """Raises as ``origin_of``."""
        given, args = list(self._given()), self._select.args
        if len(given) != len(names):
            raise _prevents("other columns than the table")
        plain = [self._plain(each) for each in given]
        is_group = self._is_group(given, plain)
        unseen = [] if is_group else [_text(each) for each, known in zip(given, plain, strict=True) if known is None]
        where = []
        for part in self._parts(args["where"].this) if args.get("where") else ():
            sql = self._condition(part)
            if sql is not None:
                where.append(sql)
            elif is_group:
                raise _prevents(f"WHERE {_text(part)}")
            else:
                unseen.append(f"WHERE {_text(part)}")
        unseen += [_text(args[each]) for each in ("limit", "offset") if args.get(each) and not is_group]
        return Origin(
            tables=tuple(each.table for each in self._relations.values()),
            source=self._source,
            where=tuple(where),
            pins={place: each.sql for place, each in enumerate(plain) if each is not None},
            made=tuple(_text(each.this if isinstance(each, self._exp.Alias) else each) for each in given),
            is_group=is_group,
            unseen=tuple(unseen),
        )

    def _add(self, table: exp.Expr) -> str:
        """A table that the statement reads, as DuckDB has it."""
        exp, alias = self._exp, table.args.get("alias")
        plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
        more = [value for name, value in table.args.items() if name not in ("this", "alias") and value]
        more += [value for name, value in (alias.args if alias else {}).items() if name != "this" and value]
        if not plain or more:
            raise _prevents(f"FROM {_text(table)}")
        meant = [each for each in self._known if each.lower() == table.name.lower()]
        called, place = table.alias_or_name.lower(), len(self._relations)
        if len(meant) != 1 or called in self._relations:
            raise _prevents(f"FROM {_text(table)}")
        columns = {each.name.lower(): (each.name, each.type) for each in self._known[meant[0]].fields}
        self._relations[called] = _Relation(meant[0], place, columns)
        return f"t{place}"

    def _join(self, join: exp.Join, *, is_only: bool) -> None:
        args = join.args
        side, kind = (args.get("side") or "").upper(), (args.get("kind") or "INNER").upper()
        odd = [value for name, value in args.items() if name not in ("this", "side", "kind", "on", "using") and value]
        # Commas bind less than joins, which only these can show.
        is_known = side in ("", "LEFT") or (side in ("RIGHT", "FULL") and is_only and not args.get("using"))
        if odd or not is_known or kind not in ("INNER", "CROSS", "OUTER"):
            raise _prevents(_text(join))
        before = list(self._relations.values())
        table = self._add(join.this)
        conditions = [self._using(name.name, before) for name in args.get("using") or ()]
        conditions += [self._condition(part) for part in (self._parts(args["on"]) if args.get("on") else ())]
        if None in conditions:
            raise _prevents(_text(join))
        on = " AND ".join(map(str, conditions)) or "TRUE"
        self._source = f"{self._source} {side} JOIN {table} ON {on}"

    def _using(self, name: str, before: Sequence[_Relation]) -> str | None:
        own = [found for each in before if (found := each.column(name)) is not None]
        other = list(self._relations.values())[-1].column(name)
        left = self._shared.get(name.lower()) or (own[0] if len(own) == 1 else None)
        if left is None or other is None or not _may_compare(left.type, other.type):
            return None
        self._shared[name.lower()] = left
        return f"{left.sql} = {other.sql}"

    def _given(self) -> Iterator[exp.Expr]:
        """What the columns of the row are made of, with stars as columns."""
        exp = self._exp
        for each in self._select.expressions:
            of = each.args.get("table") if isinstance(each, exp.Column) else None
            star = each.this if isinstance(each, exp.Column) else each
            if not isinstance(star, exp.Star):
                yield each
                continue
            named = [of.name.lower()] if of is not None else list(self._relations)
            if self._shared or any(star.args.values()) or any(name not in self._relations for name in named):
                raise _prevents(_text(each))
            for called in named:
                for name, _ in self._relations[called].columns.values():
                    yield exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(called, quoted=True))

    def _plain(self, given: exp.Expr) -> _Plain | None:
        """The column of a table that stands there as it is."""
        exp = self._exp
        if isinstance(given, exp.Alias | exp.Paren):
            return self._plain(given.this)
        if not isinstance(given, exp.Column) or not isinstance(given.this, exp.Identifier):
            return None
        if any(value for name, value in given.args.items() if name not in ("this", "table")):
            return None
        name = given.name
        if given.table:
            relation = self._relations.get(given.table.lower())
            return relation.column(name) if relation is not None else None
        if name.lower() in self._shared:
            return self._shared[name.lower()]
        found = [each for relation in self._relations.values() if (each := relation.column(name)) is not None]
        return found[0] if len(found) == 1 else None

    def _is_group(self, given: Sequence[exp.Expr], plain: Sequence[_Plain | None]) -> bool:
        """Whether the row is made of all rows that have its values in some columns of theirs."""
        args = self._select.args
        for each in given:
            wrong = next((node for node in each.walk() if not self._is_known(node)), None)
            if wrong is not None:
                raise _prevents(_text(wrong))
        group, distinct = args.get("group"), args.get("distinct")
        has_aggregate = any(each.find(*self._aggregates) is not None for each in given)
        if distinct is not None:
            if group is not None or has_aggregate or distinct.args.get("on") or args.get("having") or None in plain:
                raise _prevents("DISTINCT")
            return True
        if group is None:
            if args.get("having") is not None:
                raise _prevents(_text(args["having"]))
            return has_aggregate
        if any(value for name, value in group.args.items() if name != "expressions"):
            raise _prevents(_text(group))
        for each in group.expressions:
            key = self._group_key(each, given, plain)
            if key is None or key not in plain:
                raise _prevents(f"GROUP BY {_text(each)}")
        return True

    def _is_known(self, node: exp.Expr) -> bool:
        exp = self._exp
        if isinstance(node, exp.Star | exp.Distinct):
            return isinstance(node.parent, exp.Count | exp.Sum | exp.Avg)
        return type(node) in self._scalars or type(node) in self._aggregates

    def _group_key(self, key: exp.Expr, given: Sequence[exp.Expr], plain: Sequence[_Plain | None]) -> _Plain | None:
        exp = self._exp
        if isinstance(key, exp.Literal):
            place = int(key.this) if not key.is_string and re.fullmatch(r"[0-9]{1,4}", key.this) else 0
            return plain[place - 1] if 0 < place <= len(plain) else None
        found = self._plain(key)
        if found is not None or not isinstance(key, exp.Column) or key.table:
            return found
        named = [
            known
            for each, known in zip(given, plain, strict=True)
            if isinstance(each, exp.Alias) and each.alias.lower() == key.name.lower()
        ]
        return named[0] if len(named) == 1 else None

    def _parts(self, condition: exp.Expr) -> Iterator[exp.Expr]:
        """What all has to hold."""
        exp = self._exp
        if isinstance(condition, exp.And):
            yield from self._parts(condition.left)
            yield from self._parts(condition.right)
        elif isinstance(condition, exp.Paren):
            yield from self._parts(condition.this)
        else:
            yield condition

    def _condition(self, given: exp.Expr) -> str | None:
        """A condition as SQL of DuckDB; None where it may mean something else there."""
        exp = self._exp
        if isinstance(given, exp.Paren):
            return self._condition(given.this)
        if isinstance(given, exp.Not):
            inner = self._condition(given.this)
            return None if inner is None else f"(NOT {inner})"
        if isinstance(given, exp.And | exp.Or):
            sides = self._condition(given.left), self._condition(given.right)
            word = "AND" if isinstance(given, exp.And) else "OR"
            return None if None in sides else f"({sides[0]} {word} {sides[1]})"
        if isinstance(given, exp.Boolean):
            return "TRUE" if given.this else "FALSE"
        if isinstance(given, exp.Column):
            found = self._plain(given)
            return found.sql if found is not None and isinstance(found.type, Boolean) else None
        if isinstance(given, exp.Is):
            found = self._plain(given.this)
            return None if found is None or not isinstance(given.expression, exp.Null) else f"({found.sql} IS NULL)"
        if isinstance(given, exp.Between):
            return self._comparisons(given.this, (">=", given.args["low"]), ("<=", given.args["high"]))
        if isinstance(given, exp.In):
            if not given.expressions or any(v for n, v in given.args.items() if n not in ("this", "expressions")):
                return None
            each = [self._comparison(given.this, "=", value) for value in given.expressions]
            return None if None in each else f"({' OR '.join(map(str, each))})"
        sign = next((sign for name, sign in _SIGNS.items() if type(given) is getattr(exp, name)), None)
        return None if sign is None else self._comparison(given.this, sign, given.expression)

    def _comparisons(self, left: exp.Expr, *others: tuple[str, exp.Expr]) -> str | None:
        each = [self._comparison(left, sign, right) for sign, right in others]
        return None if None in each else f"({' AND '.join(map(str, each))})"

    def _comparison(self, left: exp.Expr, sign: str, right: exp.Expr) -> str | None:
        one, other = self._plain(left), self._plain(right)
        if one is not None and other is not None:
            return f"({one.sql} {sign} {other.sql})" if _may_compare(one.type, other.type) else None
        column, value = (one, right) if one is not None else (other, left)
        written = None if column is None else self._value(value, column.type)
        if column is None or written is None:
            return None
        sides = (column.sql, written) if one is not None else (written, column.sql)
        return f"({sides[0]} {sign} {sides[1]})"

    def _value(self, given: exp.Expr, type: Column) -> str | None:
        """A value as it is compared with a column of that type; None where Spark or DuckDB may change either."""
        exp = self._exp
        if isinstance(given, exp.Paren):
            return self._value(given.this, type)
        if isinstance(given, exp.Boolean):
            return str(bool(given.this)).upper() if isinstance(type, Boolean) else None
        if isinstance(given, exp.Cast) and not isinstance(given, exp.TryCast):
            is_date = given.to.is_type("date") and isinstance(type, Date)
            return self._value(given.this, type) if is_date else None
        sign = ""
        if isinstance(given, exp.Neg):
            given, sign = given.this, "-"
        if not isinstance(given, exp.Literal):
            return None
        text = given.this
        if not given.is_string:
            if isinstance(type, Integer) and re.fullmatch(r"[0-9]{1,18}", text):
                return f"{sign}{int(text)}"
            if isinstance(type, Double) and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text):
                return f"CAST('{sign}{text}' AS DOUBLE)"
            return None
        if sign or re.search(r"['\\\x00]", text):
            return None
        if isinstance(type, Date):
            return f"DATE '{text}'" if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
        return f"'{text}'" if isinstance(type, Text | JsonText) else None


_SIGNS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}


def _may_compare(one: Column, other: Column) -> bool:
    """Whether columns of these types are compared as they are."""
    kinds: tuple[Any, ...] = (Integer, Text | JsonText, Boolean, Date, Double)
    return any(isinstance(one, kind) and isinstance(other, kind) for kind in kinds)


def _text(part: exp.Expr) -> str:
    return cut(part.sql(dialect="spark", comments=False), _LONGEST)
