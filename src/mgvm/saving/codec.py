"""Encoding objects as nodes and arrays, and decoding them.

A node is a list, a tuple, a dictionary, an array, or an object of a class of `mgvm.saving.registry`; its items are
plain values or ``{"node": i}``, a node before it. What is held in two places is one node. Decoding calls the
constructor of each registered class with its arguments, which are checked as if a person had given them; no other class
is ever made, and no code is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mgvm.saving.container import Container, ModelFileError
from mgvm.saving.registry import BY_NAME, SavedClass, arguments_of, find_class

# ---- objects whose constructors would not make them again bit for bit, or not from attributes of the same names ------


class Adapter(NamedTuple):
    """How to get an object's arguments, and to make it from them."""

    arguments: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


def _make_grid_density(log_values: Any, nodes: Any = None, cumulative_mass: Any = None, **_: Any) -> Any:
    from mgvm.circle.grid_density import GridDensity

    dist = GridDensity(log_values, None if np.shape(nodes)[-1:] in ((), (0,)) else nodes)
    if cumulative_mass is None:  # a file of before nodes were kept
        return dist
    if np.shape(cumulative_mass) != dist._cumulative_mass.shape or np.asarray(log_values).dtype != np.float64:
        raise ValueError(f"masses of shape {np.shape(cumulative_mass)} for log densities of {np.shape(log_values)}")
    # The constructor checks and then normalises once more, which moves the last bit: the values go in afterwards.
    dist._set(log_values=log_values, _cumulative_mass=cumulative_mass)
    return dist


def _grid_density_arguments(dist: Any) -> dict[str, Any]:
    return {"log_values": dist.log_values, "nodes": dist._nodes, "cumulative_mass": dist._cumulative_mass}


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


ADAPTERS = {
    "GridDensity": Adapter(_grid_density_arguments, _make_grid_density),
    "MGvM": Adapter(
        lambda dist: {"a": dist.a, "b": dist.b, "P": dist._P, "Q": dist._Q, "known": dict(dist._known)}, _make_mgvm
    ),
    "scipy.csr_array": Adapter(
        lambda matrix: {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": tuple(int(size) for size in matrix.shape),
        },
        _make_csr,
    ),
    "scipy.cKDTree": Adapter(lambda tree: {"data": np.asarray(tree.data), "leafsize": int(tree.leafsize)}, _make_tree),
}

# ---- encoding -------------------------------------------------------------------------------------------------------


class Encoder:
    """Nodes and arrays of the objects that were encoded so far."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()
        self._kept: list[Any] = []  # an id means nothing once its object is gone

    def encode(self, value: Any, where: str) -> Any:
        """A value as it stands in a node; `where` names it in messages."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is complex:
            return {"complex": [self.encode(part, where) for part in (value.real, value.imag)]}
        if isinstance(value, np.generic) and value.dtype.char in "?bhilqBHILQefdFD":
            return {"numpy": value.dtype.str, "value": self.encode(value.item(), where)}
        return {"node": self._number(value, where)}

    def _number(self, value: Any, where: str) -> int:
        """The number of an object's node, which is made where there is none yet."""
        key = id(value)
        if key not in self._numbers:
            if key in self._open:
                raise TypeError(f"{where} holds itself, and so cannot be saved")
            self._open.add(key)
            node = self._node(value, where)
            self._open.remove(key)
            self._kept.append(value)
            self._numbers[key] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[key]

    def _node(self, value: Any, where: str) -> dict[str, Any]:
        if type(value) is np.ndarray:
            return self._array(value, where)
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return {"kind": type(value).__name__, "items": items}
        if type(value) is dict:
            pairs = [[self.encode(key, where), self.encode(item, f"{where}[{key!r}]")] for key, item in value.items()]
            return {"kind": "dict", "items": pairs}
        saved = find_class(value)
        if saved is None:
            raise TypeError(_refusal(value, where))
        return self._object(value, saved, where)

    def _object(self, value: Any, saved: SavedClass, where: str) -> dict[str, Any]:
        if saved.name in ADAPTERS:
            arguments = ADAPTERS[saved.name].arguments(value)
        else:
            arguments = {name: getattr(value, name) for name in arguments_of(type(value))}
        node = {"kind": "object", "class": saved.name, "arguments": self._named(arguments, where)}
        if saved.is_estimator:
            fitted = {name: part for name, part in vars(value).items() if name not in arguments}
            node["fitted"] = self._named(fitted, where)
        return node

    def _named(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.encode(value, f"{where}.{name}") for name, value in values.items()}

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype.kind in "biufc":
            self.arrays.append(value)
            return {"kind": "array", "member": len(self.arrays) - 1}
        texts = value.ravel().tolist()
        if value.dtype.kind in "UO" and all(type(text) is str for text in texts):
            return {"kind": "texts", "items": texts, "shape": list(value.shape), "fixed": value.dtype.kind == "U"}
        raise TypeError(f"{where} is an array of {value.dtype}; numbers and texts can be saved")


def _refusal(value: Any, where: str) -> str:
    kind = type(value).__name__
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return f"{where} is a {kind}, which cannot be saved; set an integer seed, model.set_params(random_state=0)"
    if callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
        return f"{where} is the function {value.__name__}, and a saved model holds data alone; use one without it"
    return (
        f"{where} is a {kind}, which cannot be saved: mgvm.save knows its own distributions, estimators and "
        "scikit-learn kernels"
    )


# ---- decoding -------------------------------------------------------------------------------------------------------


def decode(container: Container, path: Path) -> Any:
    """The object that a container describes."""
    try:
        decoder = _Decoder(container, path)
        for node in container.description["nodes"]:
            decoder.add(node)
        return decoder.decode(container.description["model"])
    except ModelFileError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{path} does not hold together, although its checksum fits ({reason})") from error


class _Decoder:
    """Objects made so far, one a node."""

    def __init__(self, container: Container, path: Path):
        self._container, self._path = container, path
        self._made: list[Any] = []

    def decode(self, value: Any) -> Any:
        """A plain value, or an object made before."""
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise TypeError("a list outside of a node")
            return value
        if "node" in value:
            number = value["node"]
            if type(number) is not int or not 0 <= number < len(self._made):
                raise IndexError(f"node {number!r}, of {len(self._made)} so far")
            return self._made[number]
        if "float" in value:
            return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[value["float"]]
        if "complex" in value:
            real, imaginary = (self.decode(part) for part in value["complex"])
            return complex(float(real), float(imaginary))
        dtype = np.dtype(value["numpy"])
        if dtype.kind not in "biufc":
            raise TypeError(f"a number of type {dtype}")
        return dtype.type(self.decode(value["value"]))

    def add(self, node: dict[str, Any]) -> None:
        """Make the object of the next node."""
        makers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "list": lambda node: [self.decode(item) for item in node["items"]],
            "tuple": lambda node: tuple(self.decode(item) for item in node["items"]),
            "dict": lambda node: {self.decode(key): self.decode(item) for key, item in node["items"]},
            "array": self._array,
            "texts": _decode_texts,
            "object": self._object,
        }
        self._made.append(makers[node["kind"]](node))

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        number = node["member"]
        if type(number) is not int or not 0 <= number < self._container.count:
            raise IndexError(f"an array {number!r}, of {self._container.count}")
        return self._container.array(number)

    def _object(self, node: dict[str, Any]) -> Any:
        saved = BY_NAME.get(node["class"])
        if saved is None:
            raise ModelFileError(
                f"{self._path} names the class {node['class']!r}, which is none that mgvm.load rebuilds"
            )
        arguments = {name: self.decode(value) for name, value in node["arguments"].items()}
        if saved.name in ADAPTERS:
            return ADAPTERS[saved.name].make(**arguments)
        kind = saved.load()
        self._check_arguments(saved, set(arguments), set(arguments_of(kind)))
        made = kind(**arguments)
        if saved.is_estimator:
            self._set_fitted(made, {name: self.decode(value) for name, value in node["fitted"].items()})
        return made

    def _check_arguments(self, saved: SavedClass, given: set[str], wanted: set[str]) -> None:
        if given != wanted:
            version = self._container.description.get("mgvm", "?")
            names = ", ".join(sorted(given ^ wanted))
            raise ModelFileError(
                f"{self._path} was saved by mgvm {version}, in which {saved.name} had other arguments ({names}); load "
                "it with that version, or fit and save the model again"
            )

    def _set_fitted(self, made: Any, fitted: dict[str, Any]) -> None:
        """Set attributes that a fit leaves: with an underscore in front or behind, and none that the class has."""
        for name, value in fitted.items():
            own = name.startswith("__") or hasattr(type(made), name)
            if own or not (name.startswith("_") or name.endswith("_")):
                raise ModelFileError(
                    f"{self._path} gives {type(made).__name__} an attribute {name!r} that no fit makes"
                )
            setattr(made, name, value)


def _decode_texts(node: dict[str, Any]) -> np.ndarray:
    texts = node["items"]
    if not all(type(text) is str for text in texts):
        raise TypeError("texts that are none")
    return np.array(texts, dtype=str if node["fixed"] else object).reshape([int(size) for size in node["shape"]])
