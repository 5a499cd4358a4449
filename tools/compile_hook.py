"""Hatchling's hook that compiles the modules that are in C into the package, where there is a C compiler.

A wheel is compiled in a folder of its own, so that the sources may be read-only and several wheels may be built at
once. An editable installation needs its libraries beside the sources. Without a compiler the package is installed all
the same, pure Python: it reads the same rows, and large reads take longer. Each library serves every CPython from the
one in ``_STABLE_SINCE`` on (PEP 384).
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

REQUIRED = "SINGERLAKE_REQUIRE_COMPILED"
"""The environment variable that makes it an error where a module cannot be compiled, as for a release."""
_MODULES = {
    "singerlake.arrow.decode._plain": "shared/singerlake/arrow/decode/_plain.c",
    "singerlake.format._newlines": "shared/singerlake/format/_newlines.c",
    "singerlake.format.lines._lines": "shared/singerlake/format/lines/_lines.c",
    "singerlake.format.lines._records": "shared/singerlake/format/lines/_records.c",
    "singerlake.format.lines._scanner": "shared/singerlake/format/lines/_scanner.c",
    "singerlake.tables.formats.encode._rows": "shared/singerlake/tables/formats/encode/_rows.c",
}
"""Each with its source."""
_INCLUDED = [
    "shared/singerlake/format/lines/_json.h",
    "shared/singerlake/format/lines/_moments.h",
    "shared/singerlake/format/lines/_streams.h",
    "shared/singerlake/arrow/decode/_columns.h",
    "shared/singerlake/arrow/decode/_undeclared.h",
    "shared/singerlake/tables/formats/encode/_columns.h",
    "shared/singerlake/tables/formats/encode/_write.h",
]
_STABLE_SINCE = "0x030B0000"


class NotCompiledError(Exception):
    """A module that the wheel must have cannot be compiled."""


class CompileHook(BuildHookInterface[Any]):
    """Called by hatchling for a wheel, an editable one too."""

    _scratch: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the wheel after the platform; say what cannot be made, and leave it out. Raises
        ``NotCompiledError`` where ``$SINGERLAKE_REQUIRE_COMPILED`` is set."""
        self._scratch = mkdtemp(prefix="singerlake-build-")
        try:
            made = [module for module in _MODULES if self._make(module, build_data, editable=version == "editable")]
        except BaseException:
            self._clean()
            raise
        if made:
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which is in the wheel by now."""
        self._clean()

    def _make(self, module: str, build_data: dict[str, Any], *, editable: bool) -> bool:
        """Compile one module for the wheel; False where that cannot be done."""
        assert self._scratch is not None
        root = Path(self.root)
        source = _MODULES[module]
        library, name = _compiled(root, Path(self._scratch), module, source)
        place = (root / source).with_name(name)
        if library is None:
            what = f"no C compiler or headers for {module}"
            if os.environ.get(REQUIRED):
                raise NotCompiledError(f"{what}; install them, or unset {REQUIRED} for a wheel without it")
            self.app.display_warning(f"{what}: installed without it")
        if editable:
            self._put_beside(library, place)
        elif library is not None:
            build_data["force_include"][str(library)] = place.relative_to(root / "shared").as_posix()
        return library is not None

    def _put_beside(self, library: Path | None, place: Path) -> None:
        """In one step, since another process may load what is there. What was made before may be of another source."""
        fresh = place.with_suffix(f".{os.getpid()}.new")
        try:
            if library is None:
                place.unlink(missing_ok=True)
                return
            shutil.copy(library, fresh)
            fresh.replace(place)
        except OSError as error:
            self.app.display_warning(f"{place} cannot be written ({error.strerror}): installed without it")

    def _clean(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def _compiled(root: Path, scratch: Path, module: str, source: str) -> tuple[Path | None, str]:
    """The library, below ``scratch``, or None where it cannot be made; and the name of its file."""
    from setuptools import Distribution, Extension
    from setuptools.errors import BaseError, CCompilerError

    extension = Extension(
        module,
        [str(root / source)],
        depends=[str(root / each) for each in _INCLUDED],
        define_macros=[("Py_LIMITED_API", _STABLE_SINCE)],
        py_limited_api=True,
        extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
    )
    command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
    command.build_lib = str(scratch / "lib")
    command.build_temp = str(scratch / "temp")
    command.ensure_finalized()
    library = Path(command.get_ext_fullpath(module))
    try:
        command.run()
    except (BaseError, CCompilerError, OSError):
        return None, library.name
    return library, library.name
