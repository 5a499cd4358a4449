"""Conditions on records, as ``--where`` and ``--erased`` take them."""

from __future__ import annotations

from functools import partial

import click

from singerlake.conditions import Condition, content_of, parse_condition

undeclared_option = click.option(
    "--undeclared",
    is_flag=True,
    help="Take a condition on a property that no version declares, or on values of another type than declared.",
)


def parse_where(text: str, option: str) -> Condition:
    """What the value of ``option`` means; files that it names are read. Raises ``SettingError``."""
    return parse_condition(text, partial(content_of, where=f"{option}: "))
