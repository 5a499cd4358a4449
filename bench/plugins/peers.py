"""The peers to compare with, each in a virtual environment of its own, since their dependencies exclude ours."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

PEERS = {
    "singer-jsonl": ("target-singer-jsonl==0.1.0", "tap-singer-jsonl==0.1.0", "setuptools<80"),
    "target-postgres": ("meltanolabs-target-postgres==0.8.1",),
    "duckdb": ("duckdb==2.0.1", "deltalake==1.6.6", "pyarrow>=19"),
    "alto": ("singer-alto==0.2.21", "setuptools<80"),
}


def environment(name: str, cache: Path) -> Path:
    """The ``bin`` folder of a peer's environment below ``cache``, made and filled at the first call."""
    folder = cache / f"peer-{name}"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PEERS[name]], check=True)
        done.touch()
    return folder / "bin"
