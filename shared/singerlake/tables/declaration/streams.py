"""From tables as they are declared to tables of the streams that a lake has. Pure.

A ``*`` stands for any text. In the name of a table it stands for what the ``*`` of the stream stood for, so
``pg_*`` of ``tap-postgres.public-*`` makes ``pg_flights`` of the stream ``public-flights``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from singerlake.errors import ConfigurationError, SettingError, UnknownNameError
from singerlake.tables.declaration.model import Keep, TableDeclaration

Streams = Mapping[str, Sequence[str]]
"""The streams of each tap."""
MadeFrom = Callable[[str], tuple[str, str] | None]
"""Gives the tap and the stream that a table which is there is made from; None where there is none."""
_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A table as a file declares it, before it is known which streams there are. ``source`` is ``tap.stream``, or the
    two where the file names them apart; ``*`` in them stands for any text; it is empty for a statement. ``template`` is
    the table but for its name and its stream. ``keep_by_key``: it says nothing of ``keep``."""

    name: str
    source: str | tuple[str, str]
    template: TableDeclaration
    keep_by_key: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether it may mean several streams: a name without a ``*`` is that of one."""
        return self.template.sql is None and "*" in self.name and "*" in self.source_text

    @property
    def source_text(self) -> str:
        """How reports call the streams that it is made from."""
        return self.source if isinstance(self.source, str) else ".".join(self.source)


@dataclass(frozen=True)
class Resolved:
    """A table of one stream. ``declared`` is the name that it has in the file. ``keep_by_key``: it is to be ``append``
    if its stream has no key."""

    declared: str
    declaration: TableDeclaration
    keep_by_key: bool = False

    def with_key(self, key: Sequence[str]) -> TableDeclaration:
        """The declaration, where the stream's key is ``key``."""
        if not self.keep_by_key or key or self.declaration.key:
            return self.declaration
        return replace(self.declaration, keep=Keep.APPEND)


@dataclass(frozen=True)
class Unresolved:
    """A table that cannot be made: it means no stream of the lake, or another one has its name. ``error`` says why,
    ``declared`` is its name in the file."""

    declared: str
    declaration: TableDeclaration
    error: ConfigurationError


def everything() -> Declared:
    """What ``--all`` declares: a table of every stream."""
    template = TableDeclaration(name="*", tap="", stream="")
    return Declared(name="*", source=("*", "*"), template=template, keep_by_key=True)


def resolve(
    declared: Sequence[Declared], streams: Streams, made_from: MadeFrom = lambda _: None
) -> tuple[list[Resolved], list[Unresolved]]:
    """The tables of these streams, in the order of the declarations, and behind them those of statements, each name
    once; and what means no stream.

    A table that is declared by its own name goes before one of the same name that a pattern makes. Where patterns make
    one name of several streams, each gets its tap in front: ``tap.name``. But a
    table that is there keeps its name, whatever other streams come and go: else it would never be brought up again.
    """
    failed: list[Unresolved] = []
    statements = [each for each in declared if each.template.sql is not None]
    declared = [each for each in declared if each.template.sql is None]
    found: list[tuple[Declared, list[_Match]]] = []
    for each in declared:
        try:
            found.append((each, _matches(each, streams)))
        except ConfigurationError as error:
            failed.append(Unresolved(each.name, each.template, error))
    own = {each.name for each in (*declared, *statements) if not each.is_pattern}
    made: dict[str, list[Resolved]] = defaultdict(list)
    for each, matches in found:
        names = _names(each, matches, made_from)
        for match, name in zip(matches, names, strict=True):
            if each.is_pattern and name in own:
                continue
            declaration = replace(each.template, name=name, tap=match.tap, stream=match.stream)
            made[name].append(Resolved(each.name, declaration, each.keep_by_key and each.is_pattern))
    resolved = []
    for name, several in made.items():
        if len(several) > 1:
            both = " and ".join(
                f"{one.declared!r} of {one.declaration.tap}.{one.declaration.stream}" for one in several
            )
            clash = SettingError(
                f"several tables would be called {name!r}: {both}",
                hint="give one of them another name",
                **several[-1].declaration.at(),
            )
            failed.append(Unresolved(several[-1].declared, several[-1].declaration, clash))
        else:
            resolved += several
    resolved += [Resolved(each.name, each.template) for each in statements]
    return resolved, failed


def chosen(
    tables: Sequence[Resolved], failed: Sequence[Unresolved], wanted: Sequence[str], there: Sequence[str] = ()
) -> tuple[list[Resolved], list[Unresolved]]:
    """Of these the tables that ``wanted`` means, by their own or their declared name; all where it is empty. Raises
    ``UnknownNameError``, which names tables that are ``there``, too."""
    every: list[Resolved | Unresolved] = [*tables, *failed]
    names = [name for each in every for name in (each.declaration.name, each.declared)]
    # A pattern is not the name of a table.
    known = dict.fromkeys((*there, *(name for name in names if "*" not in name)))
    for name in wanted:
        if name not in names:
            raise UnknownNameError(f"there is no table {name!r}", hint=hint_for(name, known))

    def is_meant(each: Resolved | Unresolved) -> bool:
        return not wanted or each.declaration.name in wanted or each.declared in wanted

    return [each for each in tables if is_meant(each)], [each for each in failed if is_meant(each)]


@dataclass(frozen=True, slots=True)
class _Match:
    """``stood`` is what the ``*`` of the stream's pattern stood for."""

    tap: str
    stream: str
    stood: str


def _matches(declared: Declared, streams: Streams) -> list[_Match]:
    """Raises ``UnknownNameError`` where there is none."""
    source, at = declared.source, declared.template.at("from")
    parts = _of_parts(*source, streams, streams) if isinstance(source, tuple) else _of_text(source, streams)
    found = list(parts)
    is_one = "*" in declared.source_text and not declared.is_pattern
    if is_one and found:
        # A stream may have a * in its name.
        so_named = [match for match in found if f"{match.tap}.{match.stream}" == declared.source_text]
        if so_named:
            return so_named[:1]
    if found:
        if is_one:
            raise SettingError(
                f"table {declared.name!r} is made from {declared.source_text!r}, which may mean several streams",
                hint=f"call it {declared.name + '_*'!r}: * stands for the stream's name",
                **at,
            )
        return found
    if not declared.source_text.strip("*."):
        # Nothing in it can be misspelt: the lake has no stream yet.
        return []
    known = [f"{tap}.{stream}" for tap, names in streams.items() for stream in names]
    what = "no stream of this lake matches" if "*" in declared.source_text else "no stream of this lake is"
    raise UnknownNameError(
        f"table {declared.name!r}: {what} {declared.source_text!r}", hint=hint_for(declared.source_text, known), **at
    )


def _of_text(source: str, streams: Streams) -> Iterator[_Match]:
    """``tap.stream``, where both may hold dots: the longest tap that it can begin with is meant."""
    begun = [tap for tap in streams if source.startswith(f"{tap}.")]
    if begun:
        tap = max(begun, key=len)
        yield from _of_parts(tap, source[len(tap) + 1 :], [tap], streams)
        return
    seen: set[tuple[str, str]] = set()
    for dot in (place for place in reversed(range(len(source))) if source[place] == "."):
        for match in _of_parts(source[:dot], source[dot + 1 :], streams, streams):
            if (match.tap, match.stream) not in seen:
                seen.add((match.tap, match.stream))
                yield match


def _of_parts(tap: str, stream: str, taps: Iterable[str], streams: Streams) -> Iterator[_Match]:
    is_tap, is_stream = _matcher(tap), _matcher(stream)
    for name in taps:
        if name != tap and is_tap(name) is None:
            continue
        for each in streams.get(name, ()):
            stood = is_stream(each)
            if stood is not None:
                yield _Match(name, each, stood)


def _matcher(pattern: str) -> Callable[[str], str | None]:
    """Gives what the last ``*`` of the pattern stands for in a name, or the name where it has none; None where the name
    does not match."""
    written = re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)

    def match(name: str) -> str | None:
        found = written.fullmatch(name)
        if found is None:
            return None
        return found[found.re.groups] if found.re.groups else name

    return match


def _names(declared: Declared, matches: Sequence[_Match], made_from: MadeFrom) -> list[str]:
    """Their tables' names, each of them once."""
    if not declared.is_pattern:
        return [declared.name for _ in matches]
    names = [declared.name.replace("*", match.stood or match.stream) for match in matches]
    taps: dict[str, list[str]] = defaultdict(list)
    for match, name in zip(matches, names, strict=True):
        taps[name].append(match.tap)
    made = []
    for match, name in zip(matches, names, strict=True):
        same = taps[name]
        # Of one tap two streams can make the same name: its pattern has more than one *.
        with_tap = (f"{match.tap}.{name}", f"{match.tap}.{match.stream}")
        if len(same) == 1:
            preferred = (name, *with_tap)
        else:
            first, second = with_tap if len(set(same)) == len(same) else reversed(with_tap)
            preferred = (first, name, second)
        made.append(_kept(preferred, (match.tap, match.stream), made_from))
    return made


def _kept(names: Sequence[str], source: tuple[str, str], made_from: MadeFrom) -> str:
    """The first name, but where a table of ``source`` is there under another one alone."""
    # Few tables have another name, and to look at the first one is to read its state.
    others = [name for name in names[1:] if made_from(name) == source]
    return others[0] if others and made_from(names[0]) != source else names[0]


def hint_for(name: str, known: Iterable[str]) -> str:
    """What an error says of a name that is none of ``known``."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"it has: {', '.join(names[:_LISTED])}{more}" if names else "it has none yet"
