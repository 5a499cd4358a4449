"""The real data of the demo and the benchmark."""

from __future__ import annotations

from tools.nycflights import airlines, flights


def test_every_flight_of_the_year_is_there_with_its_airline() -> None:
    year = flights()
    assert year.shape == (336_776, 19)
    assert set(year.carrier) == set(airlines().carrier)
