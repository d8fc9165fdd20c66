"""Objects from the nodes that `_taking_apart` makes of them: none but those of `_classes`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mgvm.saving._classes import BY_NAME, Known, arguments_of
from mgvm.saving._container import Container, ModelFileError
from mgvm.saving._special import SPECIAL


def rebuilt(container: Container, path: Path) -> Any:
    """The object that a container describes."""
    try:
        builder = _Builder(container, path)
        for node in container.description["nodes"]:
            builder.add(node)
        return builder.value(container.description["model"])
    except ModelFileError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{path} does not hold together, although its checksum fits ({reason})") from error


class _Builder:
    """Objects made so far, one a node."""

    def __init__(self, container: Container, path: Path):
        self._container, self._path = container, path
        self._made: list[Any] = []

    def value(self, value: Any) -> Any:
        """A plain value, or an object made before."""
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise TypeError("a list outside of a node")
            return value
        if "at" in value:
            place = value["at"]
            if type(place) is not int or not 0 <= place < len(self._made):
                raise IndexError(f"a node at {place!r}, of {len(self._made)} so far")
            return self._made[place]
        if "float" in value:
            return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[value["float"]]
        if "complex" in value:
            real, imaginary = (self.value(part) for part in value["complex"])
            return complex(float(real), float(imaginary))
        dtype = np.dtype(value["numpy"])
        if dtype.kind not in "biufc":
            raise TypeError(f"a number of type {dtype}")
        return dtype.type(self.value(value["value"]))

    def add(self, node: dict[str, Any]) -> None:
        """Make the object of the next node."""
        makers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "list": lambda node: [self.value(item) for item in node["items"]],
            "tuple": lambda node: tuple(self.value(item) for item in node["items"]),
            "dict": lambda node: {self.value(key): self.value(item) for key, item in node["items"]},
            "array": self._array,
            "texts": _texts,
            "object": self._object,
        }
        self._made.append(makers[node["kind"]](node))

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        number = node["member"]
        if type(number) is not int or not 0 <= number < self._container.count:
            raise IndexError(f"an array {number!r}, of {self._container.count}")
        return self._container.array(number)

    def _object(self, node: dict[str, Any]) -> Any:
        known = BY_NAME.get(node["class"])
        if known is None:
            raise ModelFileError(
                f"{self._path} names the class {node['class']!r}, which is none that mgvm.load rebuilds"
            )
        parts = {name: self.value(value) for name, value in node["parts"].items()}
        if known.name in SPECIAL:
            return SPECIAL[known.name].make(**parts)
        kind = known.load()
        self._compare(known, set(parts), set(arguments_of(kind)))
        made = kind(**parts)
        if known.learns:
            self._teach(made, {name: self.value(value) for name, value in node["learnt"].items()})
        return made

    def _compare(self, known: Known, given: set[str], wanted: set[str]) -> None:
        if given != wanted:
            version = self._container.description.get("mgvm", "?")
            names = ", ".join(sorted(given ^ wanted))
            raise ModelFileError(
                f"{self._path} was saved by mgvm {version}, in which {known.name} had other parts ({names}); load it "
                "with that version, or fit and save the model again"
            )

    def _teach(self, made: Any, learnt: dict[str, Any]) -> None:
        """Attributes that a fit leaves: with an underscore in front or behind, and none that the class has itself."""
        for name, value in learnt.items():
            own = name.startswith("__") or hasattr(type(made), name)
            if own or not (name.startswith("_") or name.endswith("_")):
                raise ModelFileError(
                    f"{self._path} gives {type(made).__name__} an attribute {name!r} that no fit makes"
                )
            setattr(made, name, value)


def _texts(node: dict[str, Any]) -> np.ndarray:
    texts = node["items"]
    if not all(type(text) is str for text in texts):
        raise TypeError("texts that are none")
    return np.array(texts, dtype=str if node["fixed"] else object).reshape([int(size) for size in node["shape"]])
