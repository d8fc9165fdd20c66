"""Objects as a list of nodes, parts before wholes, and a list of arrays.

A node is a list, a tuple, a dictionary, an array, or an object of a class of `_classes`; its items are plain values or
``{"at": i}``, a node before it. What is held in two places is one node.

Objects that their constructors would not make again bit for bit, or not from attributes of the same names.

Objects from the nodes that `_taking_apart` makes of them: none but those of `_classes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mgvm.saving.container import Container, ModelFileError
from mgvm.saving.registry import BY_NAME, Known, arguments_of, known_of


class Special(NamedTuple):
    """How to take an object apart into named parts, and to make it again."""

    parts: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


def _make_grid_density(log_values: Any, cut: Any) -> Any:
    from mgvm.circle.grid_density import GridDensity

    # The constructor checks and then normalises once more, which moves the last bit: the values go in afterwards.
    dist = GridDensity(log_values)
    if np.shape(cut) != dist.batch_shape or np.asarray(log_values).dtype != np.float64:
        raise ValueError(f"cut of shape {np.shape(cut)} for distributions of batch shape {dist.batch_shape}")
    dist._set(log_values=log_values, _cut=cut)
    return dist


def _make_mgvm(a: Any, b: Any, P: Any, Q: Any, known: Any) -> Any:
    from mgvm.natural.parameters import Natural
    from mgvm.torus.mgvm import MGvM

    # Checked by the constructor, which may symmetrise away a rounding of matrices that were turned or cut.
    MGvM(a, b, P, Q)
    if any(part.dtype != np.complex128 for part in (a, b, P, Q)):
        raise TypeError("parameters of an MGvM that are not complex")
    dist = MGvM._of(Natural(a, b, P, Q))
    dist._known.update(known)
    return dist


def _make_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    from scipy import sparse

    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def _make_tree(data: Any, leafsize: Any) -> Any:
    from scipy.spatial import cKDTree

    return cKDTree(data, leafsize=leafsize)


SPECIAL = {
    "GridDensity": Special(lambda dist: {"log_values": dist.log_values, "cut": dist._cut}, _make_grid_density),
    "MGvM": Special(
        lambda dist: {"a": dist.a, "b": dist.b, "P": dist._P, "Q": dist._Q, "known": dict(dist._known)}, _make_mgvm
    ),
    "scipy.sparse._csr.csr_array": Special(
        lambda matrix: {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": tuple(int(size) for size in matrix.shape),
        },
        _make_csr,
    ),
    "scipy.spatial._ckdtree.cKDTree": Special(
        lambda tree: {"data": np.asarray(tree.data), "leafsize": int(tree.leafsize)}, _make_tree
    ),
}


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
    return f"{where} is a {kind}, which cannot be saved: mgvm.save knows its own distributions, estimators and scikit-learn kernels"
