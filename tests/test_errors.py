"""Errors: a kind for each, which programs may rely on, and a page that names them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import singerlake
from singerlake import errors
from singerlake.errors import SingerlakeError

PAGE = Path(__file__).parents[1] / "docs/reference/commands.md"


def below(base: type[SingerlakeError]) -> Iterator[type[SingerlakeError]]:
    for each in base.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from below(each)


def test_each_class_has_a_kind_of_its_own_and_ends_as_exceptions_do() -> None:
    classes = [SingerlakeError, *below(SingerlakeError)]
    kinds = [vars(each)["kind"] for each in classes]
    assert len({*kinds}) == len(kinds) > 25
    assert {each.__name__ for each in classes if not each.__name__.endswith("Error")} == set()


def test_kind_and_class_are_one_word() -> None:
    for each in below(SingerlakeError):
        assert each.kind.replace("_", "") == each.__name__.removesuffix("Error").lower()


def test_the_package_exports_them_all() -> None:
    assert {each.__name__ for each in below(SingerlakeError)} <= {*singerlake.__all__}


def test_the_page_of_the_command_lists_each_kind_below_its_base() -> None:
    rows = [line.split("|")[2:4] for line in PAGE.read_text().splitlines() if line.count("Error` |") == 1]
    for base in SingerlakeError.__subclasses__():
        if base.__module__ != errors.__name__:
            continue
        [listed] = [kinds for name, kinds in rows if name.strip() == f"`{base.__name__}`"]
        expected = [each.kind for each in below(base)] or [base.kind]
        assert sorted(listed.replace("`", "").replace(" ", "").split(",")) == sorted(expected)
