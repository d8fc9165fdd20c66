"""Objects as a list of nodes, parts before wholes, and a list of arrays.

A node is a list, a tuple, a dictionary, an array, or an object of a class of `_classes`; its items are plain values or
``{"at": i}``, a node before it. What is held in two places is one node.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgvm.saving._classes import arguments_of, known_of
from mgvm.saving._special import SPECIAL

_NUMBERS = [np.dtype(code) for code in "?bhilqBHILQefdFD"]


class Taken:
    """Nodes and arrays of the objects that were taken apart."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.arrays: list[np.ndarray] = []
        self._places: dict[int, int] = {}
        self._open: set[int] = set()
        self._kept: list[Any] = []  # an id means nothing once its object is gone

    def value(self, value: Any, where: str) -> Any:
        """A value as it stands in a node."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is complex:
            return {"complex": [self.value(part, where) for part in (value.real, value.imag)]}
        if isinstance(value, np.generic) and value.dtype in _NUMBERS:
            return {"numpy": value.dtype.str, "value": self.value(value.item(), where)}
        return {"at": self._place(value, where)}

    def _place(self, value: Any, where: str) -> int:
        key = id(value)
        if key not in self._places:
            if key in self._open:
                raise TypeError(f"{where} holds itself, and so cannot be saved")
            self._open.add(key)
            node = self._node(value, where)
            self._open.remove(key)
            self._kept.append(value)
            self._places[key] = len(self.nodes)
            self.nodes.append(node)
        return self._places[key]

    def _node(self, value: Any, where: str) -> dict[str, Any]:
        if type(value) is np.ndarray:
            return self._array(value, where)
        if type(value) in (list, tuple):
            items = [self.value(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return {"kind": type(value).__name__, "items": items}
        if type(value) is dict:
            pairs = [[self.value(key, where), self.value(item, f"{where}[{key!r}]")] for key, item in value.items()]
            return {"kind": "dict", "items": pairs}
        known = known_of(value)
        if known is None:
            raise TypeError(_refusal(value, where))
        if known.name in SPECIAL:
            parts = SPECIAL[known.name].parts(value)
        else:
            parts = {name: getattr(value, name) for name in arguments_of(type(value))}
        for name in known.rows_left_out:
            parts[name] = _without_rows(parts[name])
        node = {"kind": "object", "class": known.name, "parts": self._named(parts, where)}
        return node | ({"learnt": self._named(_learnt(value, parts), where)} if known.learns else {})

    def _named(self, parts: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.value(part, f"{where}.{name}") for name, part in parts.items()}

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype.kind in "biufc":
            self.arrays.append(value)
            return {"kind": "array", "member": len(self.arrays) - 1}
        texts = value.ravel().tolist()
        if value.dtype.kind in "UO" and all(type(text) is str for text in texts):
            return {"kind": "texts", "items": texts, "shape": list(value.shape), "fixed": value.dtype.kind == "U"}
        raise TypeError(f"{where} is an array of {value.dtype}; numbers and texts can be saved")


def _learnt(estimator: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name not in parameters}


def _without_rows(value: Any) -> Any:
    """Arrays, or tuples of them, without rows; what else there is unchanged."""
    if isinstance(value, np.ndarray):
        return value[:0]
    if type(value) is tuple:
        return tuple(_without_rows(item) for item in value if not isinstance(item, tuple))
    if isinstance(value, tuple):
        return type(value)(*(_without_rows(item) for item in value))
    return value


def _refusal(value: Any, where: str) -> str:
    kind = type(value).__name__
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return f"{where} is a {kind}, which cannot be saved; set an integer seed, model.set_params(random_state=0)"
    if callable(value) and not isinstance(value, type) and known_of(value) is None and hasattr(value, "__name__"):
        return f"{where} is the function {value.__name__}, and a saved model holds data alone; use one without it"
    return (
        f"{where} is a {kind}, which cannot be saved: mgvm.save knows its own laws, estimators and scikit-learn kernels"
    )
