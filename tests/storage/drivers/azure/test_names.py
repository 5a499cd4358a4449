"""Every key has a name that Azure keeps, and every such name one key."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import SettingError
from singerlake.storage.drivers.azure.driver import begins, checked_root, key_of, name_of

ODD = "~./\\\x00\x01\x1f\x7f\x80\x9f2E7Eabé日😀\ue000\ufffe\U0010ffff"
# Bytes that are not UTF-8 come as Python keeps them in names of files.
KEY = st.text(st.characters(codec="utf-8") | st.sampled_from(ODD), max_size=12) | st.binary(max_size=8).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)


@given(KEY)
def test_a_name_is_kept_and_gives_its_key_back(key: str) -> None:
    name = name_of(key)
    assert key_of(name) == key
    assert not re.search("[\\\\\\x00-\\x1f\\x7f-\\x9f\udc80-\udcff\ue000-\uf8ff\ufffe\uffff]|\\.(?:/|\\Z)", name)
    name.encode()


@given(KEY, KEY)
def test_two_keys_have_two_names(one: str, other: str) -> None:
    assert (name_of(one) == name_of(other)) is (one == other)


@given(KEY, KEY)
def test_names_begin_with_what_their_prefix_asks_for(prefix: str, rest: str) -> None:
    key = prefix + rest
    # Halves of a character may meet.
    if key.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == key:
        assert name_of(key).startswith(begins(prefix))


@given(st.text(st.sampled_from("~012EFae./x\\"), max_size=8))
def test_a_name_that_no_key_has_is_nobody_s(name: str) -> None:
    key = key_of(name)
    assert key is None or name_of(key) == name


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("lake/tap=a/stream=b/manifest.json", "lake/tap=a/stream=b/manifest.json"),
        ("_singerlake/x%41 y", "_singerlake/x%41 y"),
        ("v1./a..", "v1~2E/a.~2E"),
        ("a\\b\tc", "a~5Cb~09c"),
        ("~", "~7E"),
        ("\x85\ue000", "~C2~85~EE~80~80"),
        ("caf\udce9", "caf~E9"),
    ],
)
def test_only_what_azure_does_not_keep_is_written_otherwise(key: str, name: str) -> None:
    assert name_of(key) == name


@pytest.mark.parametrize("prefix", ["a./b", "a.", "a\\b", "a//b", "..", "a/.", "a/../b", ".", "a\tb", "a/", "/a"])
def test_a_root_that_azure_would_change_is_refused(prefix: str) -> None:
    with pytest.raises(SettingError, match="does not keep as it is"):
        checked_root(prefix)


@pytest.mark.parametrize("prefix", ["a", "a lake/%41", "~x/é.b", ".hidden/b"])
def test_any_other_root_is_taken_as_it_stands(prefix: str) -> None:
    assert checked_root(prefix) == f"{prefix}/"
    assert checked_root("") == ""
