"""Frozen values: objects whose attributes are set once, when they are made, and whose arrays are read-only."""

from __future__ import annotations

from typing import Any

import numpy as np


def freeze(*values: Any) -> None:
    """Make arrays read-only, dense ones and those that a sparse one is made of."""
    for value in values:
        sparse = [getattr(value, name) for name in ("data", "indices", "indptr") if hasattr(value, "indptr")]
        for part in sparse or [value]:
            if isinstance(part, np.ndarray):
                part.flags.writeable = False


class FrozenValue:
    """A value that is made anew rather than changed. Copies and unpickled ones are frozen, too."""

    def _set(self, **attributes: Any) -> None:
        """Keep read-only copies of arrays, dense or sparse; the only way in."""
        for name, value in attributes.items():
            self.__dict__[name] = value.copy() if hasattr(value, "indptr") else np.array(value)
            freeze(self.__dict__[name])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__} is a frozen value; make a new distribution instead of setting {name!r}"
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        freeze(*state.values())
        self.__dict__.update(state)
