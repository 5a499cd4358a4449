"""The decisions are numbered without holes, dated, listed, and say whether they still hold."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/explanation/decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
STATUS = re.compile(r"^\*\d{4}-\d\d-\d\d\. Status: (accepted|superseded by decision \d+)", re.MULTILINE)


def test_the_numbers_have_no_holes_and_every_page_says_its_own() -> None:
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))
    for number, page in enumerate(PAGES, 1):
        assert page.read_text().startswith(f"# {number}. ")


def test_every_page_has_a_date_and_a_status() -> None:
    assert [page.name for page in PAGES if not STATUS.search(page.read_text())] == []


def test_a_decision_that_is_referred_to_exists() -> None:
    for page in PAGES:
        for number in re.findall(r"\bdecision (\d+)\b", page.read_text()):
            assert 1 <= int(number) <= len(PAGES), f"{page.name} refers to decision {number}"


def test_the_list_holds_every_page() -> None:
    listed = re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", (FOLDER / "README.md").read_text())
    assert listed == [page.name for page in PAGES]
