"""A sequence that grows at its end in constant time, while every earlier version of it stays as it was.

Versions that grew from one another share one list and one index by id, and each sees its own length of them; growing
from a version that was grown from before copies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, overload


class Identified(Protocol):
    """What has an id of its own."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)
T_co = TypeVar("T_co", bound=Identified, covariant=True)

_growing = threading.Lock()


class _Shared(Generic[T]):
    """What versions share: the items, and the items by id once somebody asked for one. Which versions have an item is
    kept of those alone that were added to the first: a million numbers take as much as a third of the index."""

    __slots__ = ("added", "index", "items")

    def __init__(self, items: list[T]) -> None:
        self.items = items
        self.added: dict[str, int] = {}
        self.index: dict[str, T] | None = None

    def by_id(self) -> dict[str, T]:
        if self.index is None:
            with _growing:
                if self.index is None:
                    self.index = {item.id: item for item in self.items}
        return self.index


class AppendOnlyList(Sequence[T], Generic[T]):
    """An immutable sequence of things with ids. Comparable with any sequence; not hashable."""

    __slots__ = ("_length", "_shared")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._shared: _Shared[T] = _Shared(list(items))
        self._length = len(self._shared.items)

    def extended(self, more: Iterable[T]) -> AppendOnlyList[T]:
        """This with ``more`` at its end: in time proportional to ``more``, unless this was extended before."""
        added = list(more)
        if not added:
            return self
        with _growing:
            shared = self._shared
            if len(shared.items) != self._length:
                shared = _Shared(shared.items[: self._length])
            shared.added.update((item.id, self._length + place) for place, item in enumerate(added))
            if shared.index is not None:
                shared.index.update((item.id, item) for item in added)
            shared.items.extend(added)
        grown: AppendOnlyList[T] = AppendOnlyList.__new__(AppendOnlyList)
        grown._shared = shared
        grown._length = self._length + len(added)
        return grown

    @property
    def by_id(self) -> Mapping[str, T]:
        return ById(self)

    def find(self, id: str) -> T | None:
        item = self._shared.by_id().get(id)
        return item if self._shared.added.get(id, -1) < self._length else None

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return tuple(self._shared.items[start:stop:step] if step > 0 else list(self)[index])
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError("index out of range")
        return self._shared.items[place]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._shared.items, self._length)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AppendOnlyList) and other._shared is self._shared:
            return self._length == other._length
        if isinstance(other, (AppendOnlyList, tuple, list)):
            return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AppendOnlyList({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return AppendOnlyList, (tuple(self),)


class Findable(Protocol[T_co]):
    """Things in an order, found by their ids."""

    def find(self, id: str) -> T_co | None:
        """The one with this id; None where there is none."""

    def __iter__(self) -> Iterator[T_co]: ...

    def __len__(self) -> int: ...


class ById(Mapping[str, T]):
    """A view of things by id."""

    __slots__ = ("_list",)

    def __init__(self, items: Findable[T]) -> None:
        self._list = items

    def __getitem__(self, id: str) -> T:
        item = self._list.find(id)
        if item is None:
            raise KeyError(id)
        return item

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._list.find(id) is not None

    def __iter__(self) -> Iterator[str]:
        return (item.id for item in self._list)

    def __len__(self) -> int:
        return len(self._list)
