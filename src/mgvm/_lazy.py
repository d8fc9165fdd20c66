"""Names that load on first use (PEP 562), so that importing a package does not import all it offers.

A package lists its names once, in ``__init__.pyi``: type checkers read that file, and so does `attach`.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names stand in the stub beside `file`."""
    modules = _read_stub(Path(file).with_suffix(".pyi"))

    def getattr_(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(modules[name]), name)

    return getattr_, lambda: sorted(modules), list(modules)


def _read_stub(path: Path) -> dict[str, str]:
    """Map every name that a stub imports to the module it comes from."""
    lines = ast.parse(path.read_text(encoding="utf-8")).body
    return {
        alias.name: line.module
        for line in lines
        if isinstance(line, ast.ImportFrom) and line.module
        for alias in line.names
    }
