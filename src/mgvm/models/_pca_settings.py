"""The options of circular PCA, checked, and what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.models._pca_laws import Engine, Quadrature
from mgvm.models._pca_maximisation import Masked, Structure
from mgvm.models._pca_tree import KinematicTree

METHODS = ("point", "vb")
PRIORS = ("von_mises", "uniform", "flat", "mixture", "kernel", "auto")
COMPONENTS = {"mixture": 30, "kernel": 300}
ENGINES = ("auto", "quadrature", "mean_field", "von_mises", "gibbs")
MOST_BY_QUADRATURE = 4  # angles; 3^D nodes
_SWEEPS = 50
_ENOUGH = 100  # rows to tell rigid links from others


def engine_of(name: str, size: int, rng: np.random.Generator) -> Engine:
    """The E-step by name; "auto" is quadrature for few angles and mean field for more."""
    word = check.choice(name, "inference", ENGINES)
    if word == "auto":
        word = "quadrature" if size <= MOST_BY_QUADRATURE else "mean_field"
    if word == "quadrature":
        if size > 8:
            raise ValueError(
                f"inference='quadrature' has 3^n_components nodes, {3**size:,} for n_components = {size}; use "
                "'mean_field' or 'gibbs' beyond 8"
            )
        return Quadrature()
    from mgvm.models._pca_engines import Gibbs, MeanField

    if word == "gibbs":
        return Gibbs(_SWEEPS, int(rng.integers(2**32)))
    return MeanField("gvm" if word == "mean_field" else word)


def is_auto(structure: Any) -> bool:
    """Whether it is for the data to say."""
    return isinstance(structure, str) and structure == "auto"


def prior_of(prior: Any, *, rigid: bool, complete: bool) -> str:
    """The prior by name; by default nothing is held of the angles of rigid links, but where entries are missing.

    A link of which one coordinate is seen may point to either side: what fills the other has to be a habit.
    """
    if prior is None:
        return "flat" if rigid and complete else "von_mises"
    return check.choice(prior, "prior", PRIORS)


def structure_of(structure: Any, Y: FloatArray, size: int, *, offset: bool) -> tuple[Structure, FloatArray | None]:
    """The structure, and W to begin with where it tells."""
    columns = Y.shape[1]
    if isinstance(structure, str) and check.choice(structure, "structure", ("tree", "auto")) == "auto":
        # Of several markers in the plane, as far as the columns can be that, and they look rigid.
        markers = len(Y) >= _ENOUGH and columns % 2 == 0 and 2 < columns <= 2 * size
        found = KinematicTree.found(Y, size, offset=offset) if markers else None
        structure = found if found is not None and found.is_rigid(Y, offset=offset) else None
    if isinstance(structure, str):
        if columns % 2 or columns // 2 > size:
            raise ValueError(
                "structure='tree' needs pairs of columns (x, y) and n_components >= the number of markers, got "
                f"{columns} columns and n_components = {size}"
            )
        structure = KinematicTree.found(Y, size, offset=offset)
    if isinstance(structure, KinematicTree):
        if structure.n_columns != columns or structure.n_angles != size:
            raise ValueError(
                f"the tree has {len(structure.parents)} markers and {structure.n_angles} angles, the data {columns} "
                f"columns ({structure.dimension} a marker), and n_components is {size}"
            )
        return structure.structure(offset=offset), structure.start(Y, offset=offset)
    mask = np.ones((columns, 2 * size + 1), dtype=bool)
    mask[:, -1] = offset
    if structure is not None:
        given = np.asarray(structure)
        if given.shape != (columns, size) or given.dtype != bool:
            raise ValueError(
                "a mask must be a Boolean array with a row for every column and a column for every angle, "
                f"({columns}, {size}), got {given.dtype} of shape {given.shape}"
            )
        mask[:, :-1] = np.concatenate([given, given], axis=1)
    return Masked(mask), None
