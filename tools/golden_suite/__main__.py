"""Writes the suite by which a reader of the format can be tested in any language: small lakes, and what is in them.

    python -m tools.golden_suite FOLDER

Each case is a folder with a ``lake`` and an ``expected.json``, which ``README.md`` beside them explains. Times and
identities are fixed, so that the same code writes the same suite, but for two lakes whose log was in a database: those
take a DynamoDB and a PostgreSQL server of the tests. A case that is released is never written again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from singerlake.settings import StoreSettings
from tools.golden_suite import (  # noqa: F401  register their cases
    atomic,
    attached,
    erased,
    expired,
    more,
    odd,
    segmented,
    together,
)
from tools.golden_suite.cases import CASES
from tools.golden_suite.maker import Maker

KIND = {"log": "log", "merge": "merge", "dynamodb": "dynamodb", "postgres": "postgres", "migrated-to-merge": "log"}
"""How the names of cases begin whose stream is in another store than lockfile."""
MOVES = ("migrated", "migrated-to-merge-and-without-its-manifest", "migrated-to-a-database-and-without-its-manifest")


@contextmanager
def databases() -> Iterator[tuple[StoreSettings, Any]]:
    """Both databases, empty."""
    from singerlake.clock import SystemClock
    from singerlake.stores.dynamodb.client import DynamoTable
    from singerlake.stores.dynamodb.tables import create_table
    from singerlake.stores.postgres.schema import create_schema
    from tests.servers.dynamodb import dynamodb_server
    from tools.postgres import postgres_server

    with dynamodb_server() as dynamo, postgres_server() as postgres_:
        s3 = dynamo.settings()
        create_table(DynamoTable("suite", s3, endpoint_url=dynamo.endpoint_url, clock=SystemClock()))
        create_schema(postgres_.dsn, "suite")
        yield (
            StoreSettings(
                dynamodb_table="suite",
                dynamodb_endpoint_url=dynamo.endpoint_url,
                postgres_url=postgres_.dsn,
                postgres_schema="suite",
            ),
            s3,
        )


def kind_of(name: str) -> str:
    """The manifest store that a case begins in."""
    if name in MOVES:
        return "lockfile" if name == "migrated" else "log"
    return next((kind for start, kind in KIND.items() if name.startswith(start)), "lockfile")


def build(folder: Path) -> None:
    """The suite in ``folder``: cases that are there already stay as they are."""
    with databases() as (settings, s3):
        for name, made in CASES.items():
            place = folder / name
            if place.exists():
                continue
            maker = Maker(kind_of(name), name, settings, s3)
            expected = made(maker)
            maker.write(place / "lake")
            (place / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder)
