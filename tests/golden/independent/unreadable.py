"""What the reader written from ``shared/docs/format`` alone raises."""


class Unreadable(Exception):
    """The lake is not what the document says."""
