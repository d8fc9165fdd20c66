"""Classes that may be saved, and so rebuilt, whatever a file says: stable public names and where the classes are.

A file names classes by the names on the left, which never change and say nothing of modules; the places on the right
follow the code. Whoever moves or renames a saved class edits its place here and nothing else. Whoever changes what a
class takes gives files a new `mgvm.saving.container.FORMAT`, or accepts that `load` refuses the files of before.

An object is encoded as the arguments of its constructor, which are attributes of the same names (fields of frozen
values, hyper-parameters of kernels, parameters of distributions and estimators); an estimator has the attributes that
its fit left besides. The few objects that are made otherwise have an adapter in `mgvm.saving.codec`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any, NamedTuple

DISTRIBUTIONS = {
    "GridDensity": "mgvm.circle.grid_density:GridDensity",
    "GvM": "mgvm.circle.gvm:GvM",
    "MGvM": "mgvm.torus.mgvm:MGvM",
    "MultivariateWrappedNormal": "mgvm.torus.wrapped_normal:MultivariateWrappedNormal",
    "ProjectedNormal": "mgvm.circle.projected_normal:ProjectedNormal",
    "VonMises": "mgvm.circle.gvm:VonMises",
    "WrappedNormal": "mgvm.circle.wrapped_normal:WrappedNormal",
}

ESTIMATORS = {
    "CircularFeatures": "mgvm.features:CircularFeatures",
    "CircularGPRegressor": "mgvm.regression.gp:CircularGPRegressor",
    "CircularPCA": "mgvm.pca.estimator:CircularPCA",
    "CircularRegressor": "mgvm.regression.front_door:CircularRegressor",
    "CircularStackingRegressor": "mgvm.regression.stacking:CircularStackingRegressor",
    "ForestCircularRegressor": "mgvm.regression.baselines.forest:ForestCircularRegressor",
    "GvMRegressor": "mgvm.regression.baselines.no_input:GvMRegressor",
    "HarmonicGPRegressor": "mgvm.regression.harmonic:HarmonicGPRegressor",
    "KernelCircularRegressor": "mgvm.regression.baselines.kernel:KernelCircularRegressor",
    "NeighborsCircularRegressor": "mgvm.regression.baselines.kernel:NeighborsCircularRegressor",
    "PPCA": "mgvm.pca.ppca:PPCA",
    "ProjectedGPRegressor": "mgvm.regression.baselines.planar_gp:ProjectedGPRegressor",
    "RecalibratedRegressor": "mgvm.regression.recalibration:RecalibratedRegressor",
    "TorusMixture": "mgvm.mixture.estimator:TorusMixture",
    "WrappedGPRegressor": "mgvm.regression.baselines.planar_gp:WrappedGPRegressor",
}

# What fitted estimators and distributions hold.
PARTS = {
    "LogNormalizer": "mgvm.inference.result:LogNormalizer",
    "KinematicTree": "mgvm.pca.skeleton:KinematicTree",
    "regression.ChainPosterior": "mgvm.regression.engines.chain:ChainPosterior",
    "regression.ChainState": "mgvm.regression.engines.chain:ChainState",
    "regression.ContaminatedNoise": "mgvm.regression.noise:ContaminatedNoise",
    "regression.DensePosterior": "mgvm.regression.engines.dense:DensePosterior",
    "regression.GramKernel": "mgvm.regression.prior:GramKernel",
    "regression.GvMNoise": "mgvm.regression.noise:GvMNoise",
    "regression.HarmonicPosterior": "mgvm.regression.harmonic:HarmonicPosterior",
    "regression.LeafWeights": "mgvm.regression.baselines.forest:LeafWeights",
    "regression.MarkovPosterior": "mgvm.regression.engines.markov:MarkovPosterior",
    "regression.MergedTraining": "mgvm.regression.base:MergedTraining",
    "regression.NeighborsPosterior": "mgvm.regression.engines.neighbors:NeighborsPosterior",
    "regression.PaperPosterior": "mgvm.regression.engines.paper:PaperPosterior",
    "regression.PlanarGP": "mgvm.regression.baselines.planar_gp:PlanarGP",
    "regression.PlanarGPData": "mgvm.regression.baselines.planar_gp:PlanarGPData",
    "regression.PlanarGPSolution": "mgvm.regression.baselines.planar_gp:PlanarGPSolution",
    "regression.Prior": "mgvm.regression.prior:Prior",
    "regression.Recalibration": "mgvm.regression.recalibration:Recalibration",
    "regression.Replicates": "mgvm.regression.noise:Replicates",
    "regression.Smoothing": "mgvm.regression.baselines.kernel:Smoothing",
    "regression.StackMember": "mgvm.regression.front_door:StackMember",
    "regression.Trees": "mgvm.regression.baselines.forest:Trees",
    "mixture.DirectedFamily": "mgvm.mixture.families.directed:DirectedFamily",
    "mixture.DirectedParameters": "mgvm.mixture.families.directed:DirectedParameters",
    "mixture.MGvMComponents": "mgvm.mixture.families.mgvm:MGvMComponents",
    "mixture.MGvMFamily": "mgvm.mixture.families.mgvm:MGvMFamily",
    "mixture.WrappedNormalFamily": "mgvm.mixture.families.wrapped_normal:WrappedFamily",
    "mixture.WrappedNormalParameters": "mgvm.mixture.families.wrapped_normal:WrappedParameters",
    "pca.GibbsStep": "mgvm.pca.e_step:Gibbs",
    "pca.LinearMap": "mgvm.pca.skeleton:LinearMap",
    "pca.MaskedMap": "mgvm.pca.skeleton:MaskedMap",
    "pca.MeanFieldStep": "mgvm.pca.e_step:MeanField",
    "pca.Parameters": "mgvm.pca.e_step:Parameters",
    "pca.Prior": "mgvm.pca.priors:Prior",
    "pca.QuadratureStep": "mgvm.pca.e_step:Quadrature",
    "scipy.csr_array": "scipy.sparse._csr:csr_array",
    "scipy.cKDTree": "scipy.spatial._ckdtree:cKDTree",
    "sklearn.CompoundKernel": "sklearn.gaussian_process.kernels:CompoundKernel",
    "sklearn.ConstantKernel": "sklearn.gaussian_process.kernels:ConstantKernel",
    "sklearn.DotProduct": "sklearn.gaussian_process.kernels:DotProduct",
    "sklearn.ExpSineSquared": "sklearn.gaussian_process.kernels:ExpSineSquared",
    "sklearn.Exponentiation": "sklearn.gaussian_process.kernels:Exponentiation",
    "sklearn.Matern": "sklearn.gaussian_process.kernels:Matern",
    "sklearn.PairwiseKernel": "sklearn.gaussian_process.kernels:PairwiseKernel",
    "sklearn.Product": "sklearn.gaussian_process.kernels:Product",
    "sklearn.RBF": "sklearn.gaussian_process.kernels:RBF",
    "sklearn.RationalQuadratic": "sklearn.gaussian_process.kernels:RationalQuadratic",
    "sklearn.Sum": "sklearn.gaussian_process.kernels:Sum",
    "sklearn.WhiteKernel": "sklearn.gaussian_process.kernels:WhiteKernel",
}


class SavedClass(NamedTuple):
    """A class of the registry: its name in files and where it is."""

    name: str
    module: str
    attribute: str

    @property
    def is_estimator(self) -> bool:
        """Whether a fit leaves attributes that are saved besides the arguments."""
        return self.name in ESTIMATORS

    def load(self) -> type:
        """The class itself."""
        return getattr(importlib.import_module(self.module), self.attribute)


BY_NAME = {name: SavedClass(name, *place.split(":")) for name, place in (DISTRIBUTIONS | ESTIMATORS | PARTS).items()}
_BY_PLACE = {(saved.module, saved.attribute): saved for saved in BY_NAME.values()}


def find_class(value: Any) -> SavedClass | None:
    """The entry of an object's own class; subclasses are other classes."""
    kind = type(value)
    return _BY_PLACE.get((kind.__module__, kind.__qualname__))


def can_be_saved(value: Any) -> bool:
    """Whether an object is a distribution or an estimator, rather than a part of one."""
    saved = find_class(value)
    return saved is not None and saved.name not in PARTS


def arguments_of(kind: type) -> list[str]:
    """The names of a constructor's arguments."""
    if issubclass(kind, tuple):
        return list(kind._fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.init]
    maker = kind.__init__ if kind.__new__ in (object.__new__, tuple.__new__) else kind.__new__
    return [name for name in inspect.signature(maker).parameters if name not in ("self", "cls")]
