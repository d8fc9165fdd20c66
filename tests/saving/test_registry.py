"""Names of saved classes: they never change, say nothing of modules, and cover whatever an estimator holds."""

import json
import pkgutil
import zipfile

import pytest
from saving.models import MIXTURES, REDUCTIONS, REGRESSORS, dists, fitted

import mgvm
from mgvm.saving import container, registry, save

# Files in the world hold these names. New ones may be added; none may be changed or taken away without a new FORMAT.
NAMES = [
    "CircularFeatures",
    "CircularGPRegressor",
    "CircularPCA",
    "CircularRegressor",
    "CircularStackingRegressor",
    "ForestCircularRegressor",
    "GridDensity",
    "GvM",
    "GvMRegressor",
    "HarmonicGPRegressor",
    "KernelCircularRegressor",
    "KinematicTree",
    "LogNormalizer",
    "MGvM",
    "MultivariateWrappedNormal",
    "NeighborsCircularRegressor",
    "PPCA",
    "ProjectedGPRegressor",
    "ProjectedNormal",
    "RecalibratedRegressor",
    "TorusMixture",
    "VonMises",
    "WrappedGPRegressor",
    "WrappedNormal",
    "mixture.DirectedFamily",
    "mixture.DirectedParameters",
    "mixture.MGvMComponents",
    "mixture.MGvMFamily",
    "mixture.WrappedNormalFamily",
    "mixture.WrappedNormalParameters",
    "pca.GibbsStep",
    "pca.LinearMap",
    "pca.MaskedMap",
    "pca.MeanFieldStep",
    "pca.Parameters",
    "pca.Prior",
    "pca.QuadratureStep",
    "regression.ChainPosterior",
    "regression.ChainState",
    "regression.ContaminatedNoise",
    "regression.DensePosterior",
    "regression.GramKernel",
    "regression.GvMNoise",
    "regression.HarmonicPosterior",
    "regression.LeafWeights",
    "regression.MarkovPosterior",
    "regression.MergedTraining",
    "regression.NeighborsPosterior",
    "regression.PaperPosterior",
    "regression.PlanarGP",
    "regression.PlanarGPData",
    "regression.PlanarGPSolution",
    "regression.Prior",
    "regression.Recalibration",
    "regression.Replicates",
    "regression.Smoothing",
    "regression.StackMember",
    "regression.Trees",
    "scipy.cKDTree",
    "scipy.csr_array",
    "sklearn.CompoundKernel",
    "sklearn.ConstantKernel",
    "sklearn.DotProduct",
    "sklearn.ExpSineSquared",
    "sklearn.Exponentiation",
    "sklearn.Matern",
    "sklearn.PairwiseKernel",
    "sklearn.Product",
    "sklearn.RBF",
    "sklearn.RationalQuadratic",
    "sklearn.Sum",
    "sklearn.WhiteKernel",
]

MODELS = (
    {f"regression, {name}": make for name, (make, _) in REGRESSORS.items()}
    | {f"mixture, {name}": make for name, make in MIXTURES.items()}
    | {f"reduction, {name}": make for name, (make, _) in REDUCTIONS.items()}
    | {f"distribution, {name}": (lambda dist=dist: dist) for name, dist in dists().items()}
)


def test_names_are_the_golden_ones():
    assert (container.FORMAT, sorted(registry.BY_NAME)) == (2, sorted(NAMES))


def test_every_place_is_a_class_of_its_own():
    places = {(saved.module, saved.attribute) for saved in registry.BY_NAME.values()}
    assert len(places) == len(registry.BY_NAME)
    for saved in registry.BY_NAME.values():
        assert isinstance(saved.load(), type)


def test_names_have_no_modules_in_them():
    modules = {name for _, name, _ in pkgutil.walk_packages(mgvm.__path__, "mgvm.") if name != "mgvm.cli.__main__"}
    for saved in registry.BY_NAME.values():
        assert saved.name.count(".") <= 1
        assert f"mgvm.{saved.name}" not in modules
        assert saved.name.split(".")[-1] not in {module.rsplit(".", 1)[-1] for module in modules}


@pytest.mark.parametrize("name", MODELS)
def test_what_an_estimator_saves_is_in_the_registry(name, tmp_path):
    path = save(fitted(MODELS[name]), tmp_path / "model.mgvm")
    with zipfile.ZipFile(path) as archive:
        description = archive.read(container.DESCRIPTION).decode()
    saved = {node["class"] for node in json.loads(description)["nodes"] if node["kind"] == "object"}
    assert saved <= set(NAMES)
    assert "mgvm." not in description.replace(f'"mgvm":"{mgvm.__version__}"', "")
