from singerlake.tables.formats.encode.rows import Column

def encoded(form: str, columns: tuple[Column, ...], rows: int, end: bytes, /) -> bytes | None:
    """The rows, each with ``end`` behind it; None where a number needs its text and has none."""
