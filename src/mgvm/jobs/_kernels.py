"""Kernels by name."""

from __future__ import annotations

from typing import Any

from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, RationalQuadratic

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.models._gp_kernels import OFFSET, VARIANCE, default_kernels
from mgvm.tables.errors import TableError

KERNELS = ("auto", "rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic")
_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def kernel_of(name: str, X: FloatArray, period: float | None) -> Any:
    """A kernel whose length scale starts where the inputs X (n, p) suggest; None for "auto", which tries two."""
    word = check.choice(name, "kernel", KERNELS)
    if (period is not None) != (word == "periodic"):
        raise TableError(
            "kernel 'periodic' needs a period, in the unit of the input (on the command line --period 24)"
            if period is None
            else f"a period is for kernel 'periodic', not {word!r} (on the command line --kernel periodic)"
        )
    if word == "auto":
        return None
    start = default_kernels(X)[0].k1.k2
    length = {"length_scale": start.length_scale, "length_scale_bounds": start.length_scale_bounds}
    part: Any
    if word == "rbf":
        part = RBF(**length)
    elif word == "rational-quadratic":
        part = RationalQuadratic(**length)
    elif word == "periodic":
        if X.shape[1] != 1:
            raise TableError(f"kernel 'periodic' is for one input that is a number, and there are {X.shape[1]}")
        part = ExpSineSquared(1.0, check.single_positive(period, "period"), (1e-2, 1e2), "fixed")  # type: ignore[arg-type]
    else:
        part = Matern(**length, nu=_SMOOTHNESS[word])
    return ConstantKernel(VARIANCE, (1e-3, 1e3)) * part + ConstantKernel(OFFSET, (1e-4, 1e3))
