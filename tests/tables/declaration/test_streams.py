"""Which tables of which streams a declaration means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import UnknownNameError
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.declaration.streams import Declared, chosen, everything, resolve

LAKE = {"tap-pg": ["public-flights", "public-planes", "other"], "tap-pg.eu": ["planes", "x.y"], "u": ["other"]}


def declared(name: str, source: str | tuple[str, str], **more: object) -> Declared:
    template = TableDeclaration(name=name, tap="", stream="", written_at={"": ("p.yml", 3), "from": ("p.yml", 4)})
    return Declared(name=name, source=source, template=template, **more)  # type: ignore[arg-type]


def made(*tables: Declared, lake: Mapping[str, Sequence[str]] = LAKE) -> dict[str, tuple[str, str]]:
    resolved, failed = resolve(tables, lake)
    assert failed == []
    assert len({each.declaration.name for each in resolved}) == len(resolved)
    return {each.declaration.name: (each.declaration.tap, each.declaration.stream) for each in resolved}


@pytest.mark.parametrize(
    ("source", "stream"),
    [
        ("tap-pg.public-flights", ("tap-pg", "public-flights")),
        ("tap-pg.eu.planes", ("tap-pg.eu", "planes")),
        ("tap-pg.eu.x.y", ("tap-pg.eu", "x.y")),
        (("tap-pg.eu", "x.y"), ("tap-pg.eu", "x.y")),
        ("u.other", ("u", "other")),
    ],
)
def test_the_longest_tap_that_it_can_begin_with_is_meant(
    source: str | tuple[str, str], stream: tuple[str, str]
) -> None:
    assert made(declared("t", source)) == {"t": stream}


def test_a_shorter_tap_can_be_named_apart() -> None:
    lake = {"a": ["b.c"], "a.b": ["d"]}
    _, (failed,) = resolve([declared("t", "a.b.c")], lake)
    assert isinstance(failed.error, UnknownNameError)
    assert made(declared("t", ("a", "b.c")), lake=lake) == {"t": ("a", "b.c")}


def test_a_star_makes_a_table_of_each_stream_named_by_what_it_stands_for() -> None:
    assert made(declared("*", "tap-pg.public-*")) == {
        "flights": ("tap-pg", "public-flights"),
        "planes": ("tap-pg", "public-planes"),
    }
    assert set(made(declared("pg_*", "tap-pg.public-*"))) == {"pg_flights", "pg_planes"}
    assert set(made(declared("*", "tap-pg.*"))) == {"public-flights", "public-planes", "other"}


def test_tables_of_one_name_get_their_tap_in_front() -> None:
    assert made(declared("*", "*.*")) == {
        "public-flights": ("tap-pg", "public-flights"),
        "public-planes": ("tap-pg", "public-planes"),
        "tap-pg.other": ("tap-pg", "other"),
        "planes": ("tap-pg.eu", "planes"),
        "x.y": ("tap-pg.eu", "x.y"),
        "u.other": ("u", "other"),
    }
    assert set(made(declared("*", "*.other"))) == {"tap-pg.other", "u.other"}


def test_a_table_of_its_own_name_goes_before_one_of_a_pattern() -> None:
    tables = made(declared("*", "tap-pg.public-*"), declared("planes", "tap-pg.eu.planes"))
    assert tables == {"flights": ("tap-pg", "public-flights"), "planes": ("tap-pg.eu", "planes")}


def test_two_patterns_that_make_one_name_are_named_and_make_neither() -> None:
    resolved, (failed,) = resolve([declared("*", "tap-pg.public-*"), declared("p*", "tap-pg.eu.p*")], LAKE)
    assert [each.declaration.name for each in resolved] == ["flights"]
    assert "several tables would be called 'planes'" in failed.error.message
    assert (failed.declared, failed.declaration.name) == ("p*", "planes")
    assert chosen(resolved, [failed], ["planes"]) == chosen(resolved, [failed], ["p*"]) == ([], [failed])
    assert "'*' of tap-pg.public-planes and 'p*' of tap-pg.eu.planes" in failed.error.message


@pytest.mark.parametrize(
    ("name", "source", "message", "hint"),
    [
        ("t", "tap-pg.public-fligths", "no stream of this lake is 'tap-pg.public-fligths'", "tap-pg.public-flights"),
        ("t", "nope.zzz", "no stream of this lake is 'nope.zzz'", "it has: tap-pg.public-flights, "),
        ("*", "zzz-*.q*", "no stream of this lake matches 'zzz-*.q*'", "it has: "),
        ("pg", "tap-pg.*", "may mean several streams", "call it 'pg_*'"),
    ],
)
def test_what_means_no_stream_says_what_there_is(name: str, source: str, message: str, hint: str) -> None:
    resolved, (failed,) = resolve([declared(name, source), declared("fine", "u.other")], LAKE)
    assert [each.declaration.name for each in resolved] == ["fine"]
    assert (message in failed.error.message, hint in failed.error.hint) == (True, True), str(failed.error)
    assert failed.error.context == {"file": "p.yml", "line": 4}


def test_an_empty_lake_has_no_table_and_no_mistake() -> None:
    assert resolve([everything(), declared("x_*", "*.*")], {}) == ([], [])
    assert resolve([everything()], {"t": []}) == ([], [])
    _, (failed,) = resolve([declared("*", "tap.*")], {})
    assert "it has none yet" in failed.error.hint


def test_a_table_of_a_pattern_is_append_where_its_stream_has_no_key() -> None:
    resolved, _ = resolve([declared("*", "u.*", keep_by_key=True), declared("t", "u.other", keep_by_key=True)], LAKE)
    of_pattern, own = resolved
    assert (of_pattern.with_key(()).keep, of_pattern.with_key(["id"]).keep) == (Keep.APPEND, Keep.LATEST)
    assert own.with_key(()).keep is Keep.LATEST


def test_tables_are_chosen_by_their_own_or_their_declared_name() -> None:
    tables, failed = resolve([declared("pg_*", "tap-pg.*"), declared("t", "u.other"), declared("bad", "no.no")], LAKE)

    def meant(*wanted: str) -> tuple[list[str], list[str]]:
        made, wrong = chosen(tables, failed, wanted)
        return [each.declaration.name for each in made], [each.declared for each in wrong]

    assert meant("pg_other") == (["pg_other"], [])
    assert meant("pg_*") == (["pg_public-flights", "pg_public-planes", "pg_other"], [])
    assert meant("bad", "t") == (["t"], ["bad"])
    assert meant() == (["pg_public-flights", "pg_public-planes", "pg_other", "t"], ["bad"])
    with pytest.raises(UnknownNameError, match="did you mean 'pg_other'"):
        chosen(tables, failed, ["pg_othr"])


def test_a_stream_may_have_a_star_in_its_name() -> None:
    lake = {"t": ["a*b", "axb", "*"]}
    assert made(declared("x", "t.a*b"), declared("y", ("t", "*")), lake=lake) == {"x": ("t", "a*b"), "y": ("t", "*")}
    assert set(made(declared("p_*", "t.a*b"), lake=lake)) == {"p_*", "p_x"}
    assert set(made(everything(), lake=lake)) == {"a*b", "axb", "*"}


NAMES = st.text("ab.*-", min_size=1, max_size=5)


@given(st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=4), max_size=4))
def test_all_makes_each_stream_one_table_of_its_own_name(lake: dict[str, list[str]]) -> None:
    resolved, failed = resolve([everything()], lake)
    streams = [(tap, stream) for tap, names in lake.items() for stream in names]
    names = [each.declaration.name for each in resolved]
    assert len(set(names)) == len(names)
    found = sorted((each.declaration.tap, each.declaration.stream) for each in resolved)
    assert found == sorted(streams) or failed


TWO = {"a": ["users", "events"], "b": ["users"]}


@pytest.mark.parametrize(
    ("lake", "there", "wanted"),
    [
        (TWO, {}, {"a.users": "a", "b.users": "b", "events": "a"}),
        (TWO, {"users": ("a", "users")}, {"users": "a", "b.users": "b", "events": "a"}),
        (TWO, {"users": ("b", "users")}, {"a.users": "a", "users": "b", "events": "a"}),
        (TWO, {"users": ("b", "other")}, {"a.users": "a", "b.users": "b", "events": "a"}),
        (TWO, {"a.events": ("b", "events")}, {"a.users": "a", "b.users": "b", "events": "a"}),
        ({"a": ["users"]}, {"a.users": ("a", "users")}, {"a.users": "a"}),
        ({"a": ["users"]}, {"a.users": ("a", "users"), "users": ("a", "users")}, {"users": "a"}),
    ],
)
def test_a_table_that_is_there_keeps_its_name_when_taps_come_and_go(
    lake: Mapping[str, Sequence[str]], there: Mapping[str, tuple[str, str]], wanted: Mapping[str, str]
) -> None:
    resolved, failed = resolve([everything()], lake, there.get)
    assert failed == []
    assert {each.declaration.name: each.declaration.tap for each in resolved} == wanted
