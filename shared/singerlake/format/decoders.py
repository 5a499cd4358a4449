"""Types that are decoded, made ready for several threads at once.

msgspec learns what a type looks like when it first decodes it. Two threads that are first together may crash the
interpreter, so a module names its types here when it is imported, which only one thread does.
"""

from __future__ import annotations

import msgspec

PREPARED: set[type[msgspec.Struct]] = set()
"""All types that were named."""


def prepare_decoders(*kinds: type[msgspec.Struct]) -> None:
    """Have msgspec learn all about ``kinds``, and about the types of their fields, now."""
    for kind in kinds:
        msgspec.json.Decoder(kind)
        PREPARED.add(kind)
