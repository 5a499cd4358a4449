"""``--undeclared``, which goes with conditions on records."""

from __future__ import annotations

import click

undeclared_option = click.option(
    "--undeclared",
    is_flag=True,
    help="Take a condition on a property that no version declares, or on values of another type than declared.",
)
