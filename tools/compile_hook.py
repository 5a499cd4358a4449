"""Hatchling's hook that compiles the modules that are in C into the package, where there is a C compiler.

Without one the package is installed all the same, pure Python: it reads the same rows, and large reads take longer.
Each library serves every CPython from 3.10 on (PEP 384).
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MODULES = {
    "singerlake.arrow._plain": "shared/singerlake/arrow/_plain.c",
    "singerlake.format._lines": "shared/singerlake/format/_lines.c",
}
_INCLUDED = ["shared/singerlake/format/_json.h"]
_STABLE_SINCE = "0x030A0000"


class CompileHook(BuildHookInterface[Any]):
    """Called by hatchling for a wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the wheel after the platform; where that fails, say so and leave the wheel pure."""
        libraries = _compiled(Path(self.root))
        if not libraries:
            self.app.display_warning("no C compiler that works: installed without the compiled readers")
            return
        build_data["artifacts"] += [f"/{library}" for library in libraries]
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _compiled(root: Path) -> list[str]:
    """Where below ``root`` the libraries were made, each next to its source, for an editable installation to find them;
    none where one of them cannot be made."""
    from setuptools import Distribution, Extension
    from setuptools.errors import BaseError, CCompilerError

    extensions = [
        Extension(
            module,
            [source],
            depends=_INCLUDED,
            define_macros=[("Py_LIMITED_API", _STABLE_SINCE)],
            py_limited_api=True,
            extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
        )
        for module, source in _MODULES.items()
    ]
    command = Distribution({"ext_modules": extensions, "package_dir": {"": "shared"}}).get_command_obj("build_ext")
    command.inplace = True
    with TemporaryDirectory() as scratch:
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        libraries = [
            Path(command.get_ext_fullpath(module)).absolute().relative_to(root).as_posix() for module in _MODULES
        ]
        # Those that were made before may be of another source.
        for library in libraries:
            (root / library).unlink(missing_ok=True)
        try:
            command.run()
        except (BaseError, CCompilerError, OSError):
            for library in libraries:
                (root / library).unlink(missing_ok=True)
            return []
    return libraries
