"""From options to a stream of a lake and its state, on the driver."""

from __future__ import annotations

from singerlake.format.model import Manifest
from singerlake.lake import Lake, LakeStream
from singerlake.settings import s3_settings
from singerlake.spark.options import ReadOptions


def open_stream(options: ReadOptions) -> LakeStream:
    """The stream the options name. Raises ``NotALake``, ``UnknownName`` listing what there is."""
    lake = Lake.open(options.path, s3_settings(options.storage))
    return lake.require().existing_stream(options.tap, options.stream)


def snapshot(stream: LakeStream) -> Manifest:
    """The stream's state as it is now."""
    return stream.snapshot()
