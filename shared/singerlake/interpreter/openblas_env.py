"""The threads of numpy's linear algebra, with which nothing here computes."""

from __future__ import annotations

import os


def one_openblas_thread() -> None:
    """In a process of one's own, before anything imports numpy, as singer-sdk does: its OpenBLAS would begin a thread
    for each core, and each looks for work for a tenth of a second, without a pause, before it sleeps. A number that the
    environment gives stays."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
