"""Other ways, fitted with the same care: what a new method is to be compared with.

For circular PCA, probabilistic PCA. For circular regression, Gaussian processes on (cos, sin) and on the unwrapped
angle, densities of neighbours and of kernels, and the law of the angle without its inputs; all of these learn their
parameters, and give a law of the angle by `predict_dist`.
"""

from __future__ import annotations

from mgvm.models._field_regressors import ProjectedGPRegressor, WrappedGPRegressor
from mgvm.models._local_regressors import KernelCircularRegressor, NeighborsCircularRegressor
from mgvm.models._no_input_regressor import GvMRegressor
from mgvm.models._ppca import PPCA

__all__ = [
    "PPCA",
    "GvMRegressor",
    "KernelCircularRegressor",
    "NeighborsCircularRegressor",
    "ProjectedGPRegressor",
    "WrappedGPRegressor",
]
