"""Errors: a kind for each, which programs may rely on, and a page that names them all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import singerlake
from singerlake import errors
from singerlake.errors import SingerlakeError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/trouble.md"
SOURCES = [
    path
    for part in ("shared/singerlake", "target-singerlake", "tap-singerlake")
    for path in (ROOT / part).rglob("*.py")
]


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


def test_the_page_on_trouble_has_a_remedy_for_each_kind_below_its_base() -> None:
    sections = re.findall(r"^### .*: `(\w+)`\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    bases = [base for base in SingerlakeError.__subclasses__() if base.__module__ == errors.__name__]
    assert sorted(name for name, _ in sections) == sorted(base.__name__ for base in bases)
    for base in bases:
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in dict(sections)[base.__name__].splitlines()]
        assert sorted(row[0] for row in rows[2:]) == sorted(f"`{each.kind}`" for each in [*below(base)] or [base])
        assert all(len(row) == 3 and all(row) for row in rows)


def test_the_page_on_trouble_quotes_what_the_program_says() -> None:
    symptoms = PAGE.read_text().partition("## By symptom")[2].partition("\n## ")[0]
    quoted = [text for text in re.findall(r"^\| `([^`]+)` \| ", symptoms, re.MULTILINE) if not text.endswith("delete")]
    assert len(quoted) >= 15
    said = [template for path in SOURCES for template in templates(path)]
    assert [text for text in quoted if not any(one.fullmatch(text) for one in said)] == []
    assert [text for text in quoted if any(one.fullmatch(text.swapcase()) for one in said)] == []


def templates(path: Path) -> Iterator[re.Pattern[str]]:
    """What a module says up to the first ``;``, as patterns: any text may stand where it has a variable."""
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value if isinstance(part, ast.Constant) else "%s" for part in parts]
        said = "".join(text for text in texts if isinstance(text, str)).partition(";")[0]
        if len(re.findall(r"\b[a-z]{2,}\b", said)) > 2:
            yield re.compile(".+".join(map(re.escape, re.split("%[srd]", said))))
