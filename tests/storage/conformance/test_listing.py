"""Listings."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.storage.port import Storage
from tests.storage.adapters import Opener
from tests.storage.conformance.objects import keys


class TestListing:
    def test_keys_come_in_the_byte_order_of_their_utf8(self, storage: Storage) -> None:
        names = ["a", "a-b", "a.b", "a0", "aa", "b", "é", "日", "😀", "\ufb01", "Z", "_", "~", "%41"]
        for folder in ("l/", "l/x/", "l/x-/", "l/x./", "l/x0/"):
            for name in names:
                storage.put(folder + name, b"")
        expected = sorted(
            (f + n for f in ("l/", "l/x/", "l/x-/", "l/x./", "l/x0/") for n in names), key=lambda key: key.encode()
        )
        assert keys(storage, "l/") == expected

    def test_a_prefix_may_end_in_the_middle_of_a_name(self, storage: Storage) -> None:
        for key in ("ab/1", "abc/1", "abc/2", "b"):
            storage.put(key, b"")
        assert keys(storage, "ab") == ["ab/1", "abc/1", "abc/2"]
        assert keys(storage, "abc/1") == ["abc/1"]
        assert keys(storage, "nothing/here") == []

    def test_start_after_is_exclusive_and_need_not_exist(self, storage: Storage) -> None:
        for key in ("p/a", "p/b/1", "p/b/2", "p/c"):
            storage.put(key, b"")
        assert keys(storage, "p/", "p/a") == ["p/b/1", "p/b/2", "p/c"]
        assert keys(storage, "p/", "p/b/1") == ["p/b/2", "p/c"]
        assert keys(storage, "p/", "p/b") == ["p/b/1", "p/b/2", "p/c"]
        assert keys(storage, "p/", "p/bb") == ["p/c"]
        assert keys(storage, "p/", "z") == []

    def test_one_level_shows_objects_and_folders(self, storage: Storage) -> None:
        for key in ("t/a", "t/z", "t/f/1", "t/f/2", "t/g/h/i", "t-/x"):
            storage.put(key, b"12")
        folder = storage.list_folder("t/")
        assert [(entry.key, entry.size) for entry in folder.entries] == [("t/a", 2), ("t/z", 2)]
        assert folder.folders == ("f/", "g/")
        assert storage.list_folder("").folders == ("t-/", "t/")
        assert storage.list_folder("t/none/") == storage.list_folder("none/")

    def test_more_than_a_page_of_keys_is_listed_whole(self, opener: Opener, storage: Storage) -> None:
        expected = [f"many/{number:05d}" for number in range(opener.page + 50)]
        opener.fill(storage, expected)
        assert keys(storage, "many/") == expected
        assert len(storage.list_folder("many/").entries) == opener.page + 50
        assert keys(storage, "many/", expected[-3]) == expected[-2:]

    @settings(max_examples=15, deadline=None)
    @given(
        names=st.sets(
            st.lists(st.sampled_from(["a", "b", "a-", "a.b", "A"]), min_size=1, max_size=3).map("/".join), max_size=6
        ),
        prefix=st.sampled_from(["", "a", "a/", "a/b", "A/a"]),
        after=st.sampled_from(["", "a", "a/b", "a-/a", "b"]),
    )
    def test_listing_is_filtering_and_sorting(self, opener: Opener, names: set[str], prefix: str, after: str) -> None:
        storage = opener.fresh()
        kept = {name for name in names if not any(other.startswith(name + "/") for other in names)}
        for name in kept:
            storage.put(name, b"")
        wanted = sorted(name for name in kept if name.startswith(prefix) and name > after)
        assert keys(storage, prefix, after) == wanted


def test_no_listing_and_nothing_unfinished_shows_a_whole_object(storage: Storage) -> None:
    storage.put("a/whole", b"1")
    assert list(storage.unfinished("a/")) == []
