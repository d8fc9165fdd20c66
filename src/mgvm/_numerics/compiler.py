"""How functions are compiled, in one place.

Compiled code is kept on disk. `entry` is for what Python calls, `inner` for what only compiled code calls: without the
wrappers that Python would need it compiles in about two thirds of the time (and crashes the interpreter if called from
it: tests reach such a function through one of their own). Division follows NumPy (no exception), so
that loops vectorise. Fast-math flags are given flag by flag; a callee without any inherits its caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def entry(**flags: Any) -> Callable[[_Function], _Function]:
    """Compile a function that Python calls."""
    return njit(cache=True, error_model="numpy", **flags)


def inner(**flags: Any) -> Callable[[_Function], _Function]:
    """Compile a function that only compiled code calls."""
    return njit(cache=True, error_model="numpy", **_WITHOUT_WRAPPERS, **flags)
