"""The columns of a table that no record declares: of the lake, of a message's envelope, and of what has no place."""

from __future__ import annotations

from singerlake.arrow.schema.columns import Array, Field, Integer, JsonText, Struct, Text, Timestamp

OFFSET, VERSION, FILE, TIME = "_singerlake_offset", "_singerlake_version", "_singerlake_file", "_time_extracted"
TABLE_VERSION, TYPE, RECORD = "_singer_version", "_singer_type", "_singerlake_record"
FILES = "_singerlake_files"
METADATA = Struct(
    (
        Field(OFFSET, Integer()),
        Field(VERSION, Text()),
        Field(FILE, Text()),
        Field(TIME, Timestamp()),
        Field(TABLE_VERSION, Integer()),
    )
)
"""What the option ``metadata`` adds."""
MESSAGE_TYPE = Field(TYPE, Text())
"""What the option ``messages`` adds: ``RECORD`` or ``ACTIVATE_VERSION``."""
RECORD_TEXT = Field(RECORD, Text())
"""What the option ``record`` adds: the record's JSON as it was captured."""
ATTACHED_FILES = Field(
    FILES,
    Array(
        Struct(
            (
                Field("property", Text()),
                Field("source", Text()),
                Field("sha256", Text()),
                Field("bytes", Integer()),
                Field("media_type", Text()),
                Field("path", Text()),
            )
        )
    ),
)
"""What the option ``files`` adds: the files that are attached to the record, in their order; never null."""
RESCUED = Field("_rescued_data", JsonText())
"""What did not fit, and what no schema declares: a JSON object of the record's shape with nothing else in it."""
ENVELOPE = {TIME: "time_extracted", TABLE_VERSION: "version"}
"""The columns whose values stand beside the record, by the names that they have there."""
ALL = Struct((*METADATA.fields, MESSAGE_TYPE, RECORD_TEXT, RESCUED))
"""Those that a projection may have for itself, too."""
OF_READS = Struct((*ALL.fields, ATTACHED_FILES))
"""All that reading a stream can add."""


def option_for(name: str) -> str:
    """Which option makes a column of that name one of these."""
    if METADATA.get(name) is not None:
        return "metadata"
    return {TYPE: "messages", RECORD: "record", FILES: "files"}.get(name, "mode")
