"""Frozen values: objects whose attributes are set once, when they are made, and whose arrays are read-only."""

from __future__ import annotations

from typing import Any

import numpy as np


def freeze(value: Any) -> Any:
    """Return an array, dense or sparse, made read-only; anything else as it is."""
    for part in (value, *(getattr(value, name, None) for name in ("data", "indices", "indptr"))):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return value


class FrozenValue:
    """A value that is made anew rather than changed. Copies and unpickled ones are frozen, too."""

    def _set(self, **attributes: Any) -> None:
        """Keep read-only copies of arrays, dense or sparse; the only way in."""
        for name, value in attributes.items():
            self.__dict__[name] = freeze(value.copy() if hasattr(value, "indptr") else np.array(value))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__} is a frozen value; make a new distribution instead of setting {name!r}"
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            freeze(value)
        self.__dict__.update(state)
