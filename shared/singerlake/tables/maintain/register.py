"""Tables told to an Iceberg catalog that is there already, by pyiceberg: each name leads to the newest metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from singerlake.errors import (
    AccessDeniedError,
    ForeignManifestError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
    expected_errors,
)
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.tables.description import url_of
from singerlake.tables.iceberg.metadata import read
from singerlake.tables.iceberg.publish import has_log
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import ICEBERG_METADATA
from singerlake.work.parallel import THREADS, in_parallel

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_SETTINGS = "look at ~/.pyiceberg.yaml and the variables PYICEBERG_CATALOG__NAME__..."


@at_a_glance
@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A table that a catalog has as ``name``, at that ``version`` of its Iceberg metadata. ``before`` is the version
    that it had: the same where nothing was to be done, None where the catalog did not have the table."""

    table: str
    name: str
    version: int
    before: int | None


@at_a_glance
@dataclass(frozen=True, slots=True)
class RegisterResult:
    """The tables of a lake that a catalog has now, by name, and those that it was not told of."""

    lake: str
    tables: tuple[RegisteredTable, ...]
    failed: tuple[TableFailure, ...]


def register_tables(storage: Storage, names: Sequence[str], to: str, namespace: str, *, named: bool) -> RegisterResult:
    """Have the catalog ``to``, a name in pyiceberg's configuration or a URI, lead to the newest Iceberg metadata of
    tables; if not ``named``, of those that have any. Nothing on storage is written or deleted.

    Raises ``SettingError``, ``AccessDeniedError`` and ``StorageUnavailableError`` where the catalog cannot be asked.
    """
    levels = tuple(namespace.split("."))
    if not all(levels):
        raise SettingError(f"{namespace!r} is not a namespace", hint="write names with '.' between them")
    with _asked():
        catalog = _opened(to)
    done: list[RegisteredTable] = []
    failed: list[TableFailure] = []
    look = partial(_found, storage, may_lack=not named)
    for name, found in zip(names, in_parallel(look, names, threads=THREADS), strict=True):
        if isinstance(found, TableFailure):
            failed.append(found)
        elif found is not None:
            with _asked():
                try:
                    done.append(_register(storage, catalog, name, (*levels, name), found))
                except ForeignManifestError as error:
                    failed.append(TableFailure(name, error))
    return RegisterResult(storage.url, tuple(done), tuple(failed))


def _found(storage: Storage, table: str, *, may_lack: bool) -> int | TableFailure | None:
    """The newest version of a table's metadata; None for a table that ``may_lack`` any and does."""
    try:
        with expected_errors(table=table):
            found = load(storage, table)
            if found is not None and has_log(found.state):
                return _newest(storage, table)
            if may_lack:
                return None
            raise SettingError("the table has no Iceberg metadata", hint="declare 'also: iceberg', and run it")
    except SingerlakeError as error:
        return TableFailure(table, error)


def _newest(storage: Storage, table: str) -> int:
    """The newest version of a table's metadata. Raises ``ForeignManifestError`` where they are not the table's."""
    newest = read(storage, table)
    if newest.body is None:
        what = "metadata of another place or of others" if newest.version else "no metadata yet"
        raise ForeignManifestError(f"the table has {what}", hint="run 'singerlake catalog sync'")
    return newest.version


def _opened(to: str) -> Catalog:
    try:
        from pyiceberg.catalog import list_catalogs, load_catalog
        from pyiceberg.exceptions import NotInstalledError
    except ImportError as error:
        raise SettingError("a catalog needs pyiceberg", hint="run: pip install 'singerlake[register]'") from error
    if "://" in to and urlsplit(to).password is not None:
        raise SettingError("a command line shows the password in a URI", hint=f"give a name; {_SETTINGS}")
    if "://" not in to and to.lower() not in list_catalogs():
        raise SettingError(f"pyiceberg knows no catalog {to!r}", hint=_SETTINGS)
    try:
        return load_catalog("default", uri=to) if "://" in to else load_catalog(to)
    except NotInstalledError as error:
        raise SettingError(f"pyiceberg lacks a part: {error}") from error
    except ValueError as error:
        raise SettingError("pyiceberg cannot tell what kind of catalog that is", hint=_SETTINGS) from error


def _register(storage: Storage, catalog: Catalog, table: str, name: tuple[str, ...], version: int) -> RegisteredTable:
    """Raises ``ForeignManifestError`` where the catalog has another table of that name, and what pyiceberg raises."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

    shown = ".".join(name)
    before: int | None = None
    try:
        before = _led_to(storage, catalog, table, name)
    except NoSuchTableError:
        # Most catalogs have namespaces already, and not all let everyone make one.
        with suppress(TableAlreadyExistsError):
            try:
                catalog.register_table(name, _url(storage, table, version))
            except NoSuchNamespaceError:
                catalog.create_namespace_if_not_exists(name[:-1])
                catalog.register_table(name, _url(storage, table, version))
            return RegisteredTable(table, shown, version, None)
        before = _led_to(storage, catalog, table, name)
    if before > version:
        # A run went on meanwhile, and the next one of this command was quicker; or the table was dropped and made anew.
        version = _newest(storage, table)
    if before != version:
        _move(catalog, name, _url(storage, table, version))
    return RegisteredTable(table, shown, version, before)


def _move(catalog: Catalog, name: tuple[str, ...], url: str) -> None:
    """Have a table lead to other metadata: at once where the catalog can, else by a drop, which purges nothing."""
    from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

    with suppress(NotImplementedError, TableAlreadyExistsError):
        catalog.register_table(name, url, overwrite=True)
        return
    try:
        # A catalog that registers nothing at all says so here, before anything is dropped.
        catalog.register_table(name, url)
    except TableAlreadyExistsError:
        with suppress(NoSuchTableError):
            catalog.drop_table(name)
        catalog.register_table(name, url)


def _led_to(storage: Storage, catalog: Catalog, table: str, name: tuple[str, ...]) -> int:
    """The version of the metadata that the catalog has. Raises ``ForeignManifestError``, and ``NoSuchTableError``."""
    scheme, _, folder = url_of(storage, table).partition("://")
    path = rf"{re.escape(folder)}/{ICEBERG_METADATA}/v(\d{{1,18}})\.metadata\.json"
    try:
        match = re.fullmatch(f"{scheme}://{path}", catalog.load_table(name).metadata_location)
    except FileNotFoundError as error:
        # Metadata that a collector deleted say no more whose they were; the message of who looked for them does.
        match = re.search(rf"(?:^|[\s'\"])(?:{scheme}://)?{path}", str(error))
    if match is None:
        raise ForeignManifestError(
            f"the catalog has another table {'.'.join(name)!r}, or another engine wrote to it there",
            hint="drop it there without purging, or give another namespace",
        )
    return int(match[1])


def _url(storage: Storage, table: str, version: int) -> str:
    return f"{url_of(storage, table)}/{ICEBERG_METADATA}/v{version}.metadata.json"


@contextmanager
def _asked() -> Iterator[None]:
    """Tell what a catalog raises by its class alone: what it says may hold a secret."""
    try:
        yield
    except SingerlakeError:
        raise
    except NotImplementedError as error:
        raise SettingError(
            "the catalog does not let tables be registered",
            hint="a catalog that Singerlake serves is always up to date",
        ) from error
    except Exception as error:
        kind = type(error).__qualname__
        if kind in ("ForbiddenError", "UnauthorizedError", "OAuthError", "NoCredentialsError"):
            raise AccessDeniedError(f"the catalog refused: {kind}", hint=_SETTINGS) from error
        raise StorageUnavailableError(
            f"the catalog failed: {kind}", hint="run it again; 'singerlake --debug' shows more"
        ) from error
