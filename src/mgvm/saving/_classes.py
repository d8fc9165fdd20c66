"""What may be saved, and so rebuilt: this list, whatever a file says.

An object is taken apart into the arguments of its constructor, which are attributes of the same names (fields of
frozen values, hyper-parameters of kernels, parameters of laws and estimators); an estimator has what it learnt besides.
The few objects that are made otherwise stand in `_special`.
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

LAWS = {
    "GridDensity": "mgvm.circle.grid_density",
    "GvM": "mgvm.circle.gvm",
    "MGvM": "mgvm.torus.mgvm",
    "MultivariateWrappedNormal": "mgvm.torus.wrapped_normal",
    "ProjectedNormal": "mgvm.circle.projected_normal",
    "VonMises": "mgvm.circle.von_mises",
    "WrappedNormal": "mgvm.circle.wrapped_normal",
}

ESTIMATORS = {
    "CircularGPRegressor": "mgvm.models.regression",
    "CircularPCA": "mgvm.models.pca",
    "CircularStackingRegressor": "mgvm.models.stacking",
    "GvMRegressor": "mgvm.models._no_input_regressor",
    "KernelCircularRegressor": "mgvm.models._local_regressors",
    "NeighborsCircularRegressor": "mgvm.models._local_regressors",
    "PPCA": "mgvm.models._ppca",
    "ProjectedGPRegressor": "mgvm.models._field_regressors",
    "TorusMixture": "mgvm.models.mixture",
    "WrappedGPRegressor": "mgvm.models._field_regressors",
}

# Of what estimators learn, by module.
_PARTS = {
    "mgvm.inference.result": ("LogNormalizer",),
    "mgvm.models._circular_regressor": ("Merged",),
    "mgvm.models._family_directed": ("DirectedFamily", "DirectedParameters"),
    "mgvm.models._family_mgvm": ("MGvMComponents", "MGvMFamily"),
    "mgvm.models._family_wrapped": ("WrappedFamily", "WrappedParameters"),
    "mgvm.models._field": ("Field", "Seen", "Solved"),
    "mgvm.models._gp_chain": ("ChainModel", "ChainState", "ChainTuned"),
    "mgvm.models._gp_dense": ("State",),
    "mgvm.models._gp_fitted": ("DenseFitted",),
    "mgvm.models._gp_gradient": ("Score",),
    "mgvm.models._gp_kernels": ("GramKernel",),
    "mgvm.models._gp_large": ("ChainFitted", "NeighbourFitted"),
    "mgvm.models._gp_neighbour_state": ("NeighbourState",),
    "mgvm.models._gp_neighbour_tuning": ("NeighbourTuned",),
    "mgvm.models._gp_neighbours": ("Block", "Neighbourhood"),
    "mgvm.models._gp_noise": ("ContaminatedNoise", "Groups", "GvMNoise"),
    "mgvm.models._gp_predict": ("Posterior",),
    "mgvm.models._gp_prior": ("Prior",),
    "mgvm.models._gp_tilted": ("Tilted",),
    "mgvm.models._gp_tuning": ("Tuned",),
    "mgvm.models._local_density": ("Smoothing",),
    "mgvm.models._pca_engines": ("Gibbs", "MeanField"),
    "mgvm.models._pca_laws": ("Quadrature",),
    "mgvm.models._pca_maximisation": ("Linear", "Masked"),
    "mgvm.models._pca_parameters": ("Parameters",),
    "mgvm.models._pca_prior": ("Prior",),
    "mgvm.models._pca_tree": ("KinematicTree",),
    "scipy.sparse._csr": ("csr_array",),
    "scipy.spatial._ckdtree": ("cKDTree",),
    "sklearn.gaussian_process.kernels": _SCIKIT_KERNELS,
}

# What a fit needed and no prediction does: kept without its rows, which may be most of the file.
_ROWS_LEFT_OUT = {
    "_gp_dense.State": ("covariance", "tilted"),
    "_gp_gradient.Score": ("covariance_gradient",),
    "_gp_neighbour_state.NeighbourState": ("places", "tilted", "change", "own"),
    "_gp_neighbours.Neighbourhood": ("blocks",),
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
    found = [Known(name, module, name, name in ESTIMATORS, ()) for name, module in (LAWS | ESTIMATORS).items()]
    for module, names in _PARTS.items():
        for attribute in names:
            name = f"{module.rsplit('.', 1)[-1]}.{attribute}"
            found.append(Known(name, module, attribute, False, _ROWS_LEFT_OUT.get(name, ())))
    return {known.name: known for known in found}


BY_NAME = _all()
_BY_CLASS = {(known.module, known.attribute): known for known in BY_NAME.values()}


def known_of(value: Any) -> Known | None:
    """The entry of an object's own class; subclasses are other classes."""
    kind = type(value)
    return _BY_CLASS.get((kind.__module__, kind.__qualname__))


def may_be_saved(value: Any) -> bool:
    """Whether an object is a law or an estimator, rather than a part of one."""
    known = known_of(value)
    return known is not None and known.name in LAWS | ESTIMATORS


def arguments_of(kind: type) -> list[str]:
    """The names of a constructor's arguments."""
    if issubclass(kind, tuple):
        return list(kind._fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.init]
    maker = kind.__init__ if kind.__new__ in (object.__new__, tuple.__new__) else kind.__new__
    return [name for name in inspect.signature(maker).parameters if name not in ("self", "cls")]
