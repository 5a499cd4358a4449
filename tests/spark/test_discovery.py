"""What Spark imports to find the format: always importable, cheap, and of a class that pickles by name."""

from __future__ import annotations

import pickle
import subprocess
import sys

from pyspark.sql.datasource import DataSource

import pyspark_singerlake
from singerlake.spark.source import SingerlakeDataSource


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_module_spark_looks_for_holds_the_source() -> None:
    assert pyspark_singerlake.DefaultSource is SingerlakeDataSource
    assert issubclass(SingerlakeDataSource, DataSource)
    assert SingerlakeDataSource.name() == "singerlake"
    assert pickle.loads(pickle.dumps(SingerlakeDataSource)) is SingerlakeDataSource


def test_without_pyspark_importing_it_does_no_harm() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; import pyspark_singerlake as m; print(hasattr(m, 'DefaultSource'))"
    )
    assert run(code) == "False"


def test_without_pyarrow_importing_it_does_no_harm() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import pyspark_singerlake as m; print(m.DefaultSource.name())"
    assert run(code) == "singerlake"


def test_importing_it_brings_in_nothing_that_is_not_needed_yet() -> None:
    code = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules); import pyspark_singerlake\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith(('singerlake', '__future__'))))"
    )
    assert run(code) == "['pyspark_singerlake']"
