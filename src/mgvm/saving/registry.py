"""What may be saved, and so rebuilt: this list, whatever a file says.

An object is taken apart into the arguments of its constructor, which are attributes of the same names (fields of
frozen values, hyper-parameters of kernels, parameters of distributions and estimators); an estimator has what it learnt
besides. The few objects that are made otherwise stand in `_special`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any, NamedTuple

_SCIKIT_KERNELS = (
    "CompoundKernel",
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Exponentiation",
    "Matern",
    "PairwiseKernel",
    "Product",
    "RBF",
    "RationalQuadratic",
    "Sum",
    "WhiteKernel",
)

DISTS = {
    "GridDensity": "mgvm.circle.grid_density",
    "GvM": "mgvm.circle.gvm",
    "MGvM": "mgvm.torus.mgvm",
    "MultivariateWrappedNormal": "mgvm.torus.wrapped_normal",
    "ProjectedNormal": "mgvm.circle.projected_normal",
    "VonMises": "mgvm.circle.gvm",
    "WrappedNormal": "mgvm.circle.wrapped_normal",
}

ESTIMATORS = {
    "CircularGPRegressor": "mgvm.regression.gp",
    "CircularPCA": "mgvm.pca.estimator",
    "CircularStackingRegressor": "mgvm.regression.stacking",
    "GvMRegressor": "mgvm.regression.baselines.no_input",
    "KernelCircularRegressor": "mgvm.regression.baselines.kernel",
    "NeighborsCircularRegressor": "mgvm.regression.baselines.kernel",
    "PPCA": "mgvm.pca.ppca",
    "ProjectedGPRegressor": "mgvm.regression.baselines.planar_gp",
    "TorusMixture": "mgvm.mixture.estimator",
    "WrappedGPRegressor": "mgvm.regression.baselines.planar_gp",
}

# Of what estimators learn, by module.
_PARTS = {
    "mgvm.inference.result": ("LogNormalizer",),
    "mgvm.regression.base": ("MergedTraining",),
    "mgvm.mixture.families.directed": ("DirectedFamily", "DirectedParameters"),
    "mgvm.mixture.families.mgvm": ("MGvMComponents", "MGvMFamily"),
    "mgvm.mixture.families.wrapped_normal": ("WrappedFamily", "WrappedParameters"),
    "mgvm.regression.baselines.planar_gp": ("Field", "Seen", "Solved"),
    "mgvm.regression.engines.chain": ("ChainModel", "ChainState", "ChainTuned"),
    "mgvm.regression.engines.dense": ("State", "Score", "Tuned"),
    "mgvm.regression.prediction": ("DenseFitted", "Posterior"),
    "mgvm.regression.prior": ("GramKernel", "Prior"),
    "mgvm.regression.search": ("ChainFitted", "NeighbourFitted"),
    "mgvm.regression.engines.neighbours": ("NeighbourState", "NeighbourTuned", "Block", "Neighbourhood"),
    "mgvm.regression.noise": ("ContaminatedNoise", "Replicates", "GvMNoise"),
    "mgvm.regression.engines.tilted": ("Tilted",),
    "mgvm.regression.baselines.kernel": ("Smoothing",),
    "mgvm.pca.estimator": ("Gibbs", "MeanField"),
    "mgvm.pca.e_step": ("Quadrature", "Parameters"),
    "mgvm.pca.em": ("Linear", "Masked"),
    "mgvm.pca.priors": ("Prior",),
    "mgvm.pca.skeleton": ("KinematicTree",),
    "scipy.sparse._csr": ("csr_array",),
    "scipy.spatial._ckdtree": ("cKDTree",),
    "sklearn.gaussian_process.kernels": _SCIKIT_KERNELS,
}

# What a fit needed and no prediction does: kept without its rows, which may be most of the file.
_ROWS_LEFT_OUT = {
    "regression.engines.dense.State": ("covariance", "tilted"),
    "regression.engines.dense.Score": ("covariance_gradient",),
    "regression.engines.neighbours.NeighbourState": ("places", "tilted", "change", "own"),
    "regression.engines.neighbours.Neighbourhood": ("blocks",),
}


class Known(NamedTuple):
    """A class that may be rebuilt: its name in files, where it is, whether it learns, what is kept without rows."""

    name: str
    module: str
    attribute: str
    learns: bool
    rows_left_out: tuple[str, ...]

    def load(self) -> type:
        """The class itself."""
        return getattr(importlib.import_module(self.module), self.attribute)


def _all() -> dict[str, Known]:
    found = [Known(name, module, name, name in ESTIMATORS, ()) for name, module in (DISTS | ESTIMATORS).items()]
    for module, names in _PARTS.items():
        for attribute in names:
            name = f"{module.removeprefix('mgvm.')}.{attribute}"
            found.append(Known(name, module, attribute, False, _ROWS_LEFT_OUT.get(name, ())))
    return {known.name: known for known in found}


BY_NAME = _all()
_BY_CLASS = {(known.module, known.attribute): known for known in BY_NAME.values()}


def known_of(value: Any) -> Known | None:
    """The entry of an object's own class; subclasses are other classes."""
    kind = type(value)
    return _BY_CLASS.get((kind.__module__, kind.__qualname__))


def may_be_saved(value: Any) -> bool:
    """Whether an object is a distribution or an estimator, rather than a part of one."""
    known = known_of(value)
    return known is not None and known.name in DISTS | ESTIMATORS


def arguments_of(kind: type) -> list[str]:
    """The names of a constructor's arguments."""
    if issubclass(kind, tuple):
        return list(kind._fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.init]
    maker = kind.__init__ if kind.__new__ in (object.__new__, tuple.__new__) else kind.__new__
    return [name for name in inspect.signature(maker).parameters if name not in ("self", "cls")]
