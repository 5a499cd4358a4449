"""Phrases that have to be read twice stay out of documents, help texts, settings, errors and log lines.

The page of style in CONTRIBUTING.md says what to write in their place.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from singerlake.cli.main import main
from singerlake.settings import SNAPSHOT_SETTINGS, STORAGE_SETTINGS, STORE_SETTINGS
from singerlake.stores.queued.settings import QUEUE_SETTINGS
from tests.cli.test_docs import leaves

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "RELEASE.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(
    path
    for folder in ("shared/singerlake", "shared/pyspark_singerlake", "target-singerlake", "tap-singerlake")
    for path in (ROOT / folder).rglob("*.py")
)
PHRASES = re.compile(
    r"\b(of which|so many|whoever|none that is|otherwise than|unless told otherwise|up to, and not with|"
    r"slip of the pen|rather was|lets? this user not|for who cannot|heard of|and is none|honours no|somebody else|"
    r"put back from|from outside|going on (?:in|without)|save for|keeps none of the others|is none of its|"
    r"does not any more|no use|with an eye to)\b",
    re.IGNORECASE,
)
IS_NO = re.compile(
    r"(?<!there )\b(?:is|are|was|were) no (?!(?:longer|more|such|sign|need|way|one)\b)[`'\"]*\w+", re.IGNORECASE
)
"""What "is not" something."""


def hard(text: str) -> list[str]:
    """The phrases in a text, also those that are broken over two lines."""
    line = re.sub(r"\s*\n\s*(?:# ?)?", " ", text)
    return [*PHRASES.findall(line), *IS_NO.findall(line)]


def messages(path: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings: what errors, logs and commands say."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_read_fluently(path: Path) -> None:
    assert hard(path.read_text()) == []


def test_what_is_to_be_released_reads_fluently() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## [Unreleased]")[2].partition("\n## [")[0]
    assert hard(unreleased) == []


def test_contributing_reads_fluently_but_for_what_it_shows_as_hard() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"^\| .* \| .* \|$", text.partition("| Before | After |")[2], re.MULTILINE)
    assert len(shown) >= 12
    assert hard(" ".join(line.split("|")[2] for line in shown)) == []
    assert hard(re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)) == []


@pytest.mark.parametrize(("path", "command"), list(leaves(main)), ids=[path for path, _ in leaves(main)])
def test_help_reads_fluently(path: str, command: click.Command) -> None:
    assert hard(command.get_help(click.Context(command))) == []


def test_settings_read_fluently() -> None:
    assert hard(json.dumps([STORAGE_SETTINGS, STORE_SETTINGS, SNAPSHOT_SETTINGS, QUEUE_SETTINGS])) == []
    assert hard("".join(path.read_text() for path in (ROOT / "plugins").glob("*.yml"))) == []


def test_messages_read_fluently() -> None:
    assert {str(path.relative_to(ROOT)): text for path in SOURCES for text in messages(path) if hard(text)} == {}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_comments_say_what_is_not(path: Path) -> None:
    assert IS_NO.findall(re.sub(r"\s*\n\s*(?:# ?)?", " ", path.read_text())) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'x' is no age", 1),
        ("of lines that\n    # are no messages", 1),
        ("there is no lake here", 0),
        ("it is no longer there, and there are no others", 0),
    ],
)
def test_what_is_no_something_is_found(text: str, found: int) -> None:
    assert len(hard(text)) == found


def test_the_format_is_told_in_15_000_words_and_just_the_data_in_1_200() -> None:
    pages = {path.name: path.read_text() for path in (ROOT / "shared/docs/format").glob("*.md")}
    assert sum(len(text.split()) for text in pages.values()) <= 15_000
    first, rest = pages["reading.md"].split("\n## The rest of reading\n")
    assert len(first.split()) <= 1_200
    assert rest
