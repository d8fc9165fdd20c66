"""Other ways of circular regression, fitted with the same care: what a new method is to be compared with.

Gaussian processes on (cos, sin) and on the unwrapped angle, densities of neighbours and of kernels, and the law of the
angle without its inputs. All of them learn their parameters, and give a law of the angle by `predict_dist`.
"""

from __future__ import annotations

from mgvm.models._field_regressors import ProjectedGPRegressor, WrappedGPRegressor
from mgvm.models._local_regressors import KernelCircularRegressor, NeighborsCircularRegressor
from mgvm.models._no_input_regressor import GvMRegressor

__all__ = [
    "GvMRegressor",
    "KernelCircularRegressor",
    "NeighborsCircularRegressor",
    "ProjectedGPRegressor",
    "WrappedGPRegressor",
]
