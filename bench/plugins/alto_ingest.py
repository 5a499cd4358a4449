"""Runs in alto's own environment: its reservoir's ingest over standard input, on a local folder.

python alto_ingest.py FOLDER < messages
"""

import os
import sys

import fsspec
from alto.engine import reservoir_ingestor


class LocalReservoir:
    """The few methods of alto's file system that its ingest calls."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.fs = fsspec.filesystem("file")

    def _remote_path(self, name: str, key: str = "") -> str:
        folder = os.path.join(self.folder, key)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, name)

    def log_path(self, name: str) -> str:
        return os.path.join(self.folder, name)


if __name__ == "__main__":
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    sys.stdout = sys.stderr
    reservoir_ingestor(
        sys.stdin.buffer,
        {},
        "reservoir/{stream}/{schema_id}",
        os.path.join(root, "state.json"),
        "bench",
        LocalReservoir(root),
    )
