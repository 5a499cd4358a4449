"""Processes for tests of many at once, forked from one that has imported what they need: a process that is spawned
imports for a second, which is no part of what these tests look at."""

from __future__ import annotations

import multiprocessing

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.processes.preload"])
