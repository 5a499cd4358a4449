"""Files of pages are called so that any file system keeps them apart and takes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.site.paths import page_name
from tests.site.lakes import HOSTILE

SAFE = re.compile(r"[a-z0-9][a-z0-9_~-]*\Z")
NAMES = st.text(st.characters(), min_size=1) | st.from_regex(r"[a-zA-Z0-9~_-]{1,70}", fullmatch=True)


@pytest.mark.parametrize("name", ["orders", "public-flights", "v12", "tap-salesforce", "a_b", "x"])
def test_a_plain_name_is_the_files_name(name: str) -> None:
    assert page_name(name) == name


@pytest.mark.parametrize("name", ["Orders", "a.b", "-a", "a-", "a b", "ä", "con", "lpt1", "x" * 61, "a~0123456789"])
def test_any_other_name_gets_a_mark(name: str) -> None:
    assert re.search(r"~[0-9a-v]{10}\Z", page_name(name))


def test_names_that_one_file_system_or_another_takes_for_the_same_stay_apart() -> None:
    names = [*HOSTILE, "é", "e\u0301", "É", "straße", "strasse", "STRASSE", "a ", "a.", "a"]
    assert len({page_name(name).casefold() for name in names}) == len(names)


@given(NAMES)
def test_every_name_gives_one_that_is_safe(name: str) -> None:
    made = page_name(name)
    assert SAFE.match(made)
    assert len(made) <= 71


@pytest.mark.parametrize("name", ["con", "prn", "aux", "nul", "com1", "lpt9"])
def test_no_page_is_a_device_of_windows(name: str) -> None:
    # There, what follows a dot changes nothing of that.
    assert page_name(name).partition(".")[0] != name


@given(NAMES)
def test_nobody_can_choose_a_name_to_take_anothers_page(name: str) -> None:
    made = page_name(name)
    assert made == name or page_name(made) != made
