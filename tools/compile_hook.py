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

_MODULES: dict[str, tuple[str, list[str]]] = {
    "singerlake.arrow._plain": ("shared/singerlake/arrow/_plain.c", []),
    "singerlake.format._fingerprint": ("shared/singerlake/format/_fingerprint.c", []),
    "singerlake.format._lines": ("shared/singerlake/format/_lines.c", []),
    "singerlake.format._whole": ("shared/singerlake/format/_whole.c", ["z"]),
    "singerlake.storage._bodies": ("shared/singerlake/storage/_bodies.c", []),
}
"""Each with its source and the libraries that it is linked with."""
_INCLUDED = [
    "shared/singerlake/format/_json.h",
    "shared/singerlake/format/_count.h",
    "shared/singerlake/arrow/_undeclared.h",
]
_STABLE_SINCE = "0x030A0000"


class CompileHook(BuildHookInterface[Any]):
    """Called by hatchling for a wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the wheel after the platform; say what cannot be made, and leave it out."""
        libraries = []
        for module in _MODULES:
            library = _compiled(Path(self.root), module)
            if library:
                libraries.append(library)
            else:
                self.app.display_warning(f"no C compiler or headers for {module}: installed without it")
        if not libraries:
            return
        build_data["artifacts"] += [f"/{library}" for library in libraries]
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _compiled(root: Path, module: str) -> str | None:
    """Where below ``root`` a library was made, next to its source, for an editable installation to find it; None where
    it cannot be made."""
    from setuptools import Distribution, Extension
    from setuptools.errors import BaseError, CCompilerError

    source, libraries = _MODULES[module]
    extension = Extension(
        module,
        [source],
        depends=_INCLUDED,
        libraries=libraries,
        define_macros=[("Py_LIMITED_API", _STABLE_SINCE)],
        py_limited_api=True,
        extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
    )
    command = Distribution({"ext_modules": [extension], "package_dir": {"": "shared"}}).get_command_obj("build_ext")
    command.inplace = True
    with TemporaryDirectory() as scratch:
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        library = Path(command.get_ext_fullpath(module)).absolute().relative_to(root).as_posix()
        # One that was made before may be of another source.
        (root / library).unlink(missing_ok=True)
        try:
            command.run()
        except (BaseError, CCompilerError, OSError):
            (root / library).unlink(missing_ok=True)
            return None
    return library
