"""Claim: on any input the answer is right, or it is refused or warned of with its cause; nothing is silent.

Inputs that went wrong once, and their neighbours, are drawn at random and tried: `python benchmarks/stress.py` takes
about ten minutes of CPU time, `--quick` one, `--write` puts the table into docs/reliability.md. `--only NAME` runs one
sweep, `--seed N` other inputs, `--jobs N` several sweeps at a time. What fails is printed as it is found; the exit code
is the number of failures. Disks that are full or read-only are mounted, which takes the rights of root on Linux.

* wrong: a number, a file or a table is not what it should be.
* silent: an approximation is off or a fit did not end, and neither a warning nor `converged` says so.
* unclear: an error of NumPy, Python or a compiler, a warning of NumPy's arithmetic, a message of a thousand letters, or
  no answer within a minute of CPU time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import i0e, i1e

import mgvm
from mgvm import (
    CircularFeatures,
    CircularGPRegressor,
    CircularPCA,
    CircularRegressor,
    CircularStackingRegressor,
    GridDensity,
    GvM,
    HarmonicGPRegressor,
    MGvM,
    MultivariateWrappedNormal,
    ProjectedNormal,
    TorusMixture,
    VonMises,
    WrappedNormal,
    angles,
    cli,
    scores,
)
from mgvm.inference import (
    ConvergenceWarning,
    annealed_log_normalizer,
    exact_chain,
    exact_grid,
    expectation_propagation,
    gibbs,
    mean_field,
)
from mgvm.learning import edge_tests, fit_torus, regularization_path
from mgvm.pca import PPCA
from mgvm.regression import RecalibratedRegressor
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)
from mgvm.saving import ModelFileError
from mgvm.tables import TableError, read_table

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
MARKS = ("<!-- stress: begin -->", "<!-- stress: end -->")


class Verdict(NamedTuple):
    """What became of one input: right, refused (or warned of), wrong, silent or unclear."""

    kind: str
    note: str = ""


RIGHT, REFUSED = Verdict("right"), Verdict("refused")
FAILURES = ("wrong", "silent", "unclear")

# ---- one call --------------------------------------------------------------------------------------------------------

# Errors that tell what happened to the program and not what is wrong with the input.
_INTERNAL = (
    np.linalg.LinAlgError,
    ArithmeticError,
    SystemError,
    AttributeError,
    AssertionError,
    LookupError,
    RecursionError,
    UnboundLocalError,
)
_SPEAKERS = ("/mgvm/", "/sklearn/")  # who checks input: ours, and scikit-learn's habits of estimators


class Outcome(NamedTuple):
    """A value or an error, the warnings on the way, and what is unclear about them."""

    value: Any
    warned: list[str]
    unclear: str

    @property
    def failed(self) -> bool:
        """Whether it is an error."""
        return isinstance(self.value, Exception)


class Hangs(Exception):
    """No answer within a minute of CPU time."""


def _hang(*_: Any) -> None:
    raise Hangs("no answer within a minute of CPU time")


def attempt(function: Callable[[], Any], seconds: float = 60.0) -> Outcome:
    """Call, with a limit of CPU time, and look at what is said."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        signal.signal(signal.SIGVTALRM, _hang)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            value, unclear = function(), ""
        except Exception as error:
            value, unclear = error, _find_unclear(error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    for entry in seen:
        if issubclass(entry.category, RuntimeWarning) and "encountered in" in str(entry.message):
            unclear = unclear or f"NumPy warns: {entry.message} ({entry.filename}:{entry.lineno})"
    return Outcome(value, [str(entry.message) for entry in seen], unclear)


def _find_unclear(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    text = f"{type(error).__name__}: {str(error)[:120]}"
    ours = isinstance(error, (TableError, ModelFileError)) or any(speaker in last for speaker in _SPEAKERS)
    if isinstance(error, (Hangs, *_INTERNAL)) or not ours:
        return f"{text} ({last})"
    return f"a message of {len(str(error)):,} letters" if len(str(error)) > 2000 and "/mgvm/" in last else ""


def judge(fit: Callable[[], Any], use: Callable[[Any], str]) -> Verdict:
    """A fit, then what is asked of it; `use` returns what is wrong, or nothing."""
    fitted = attempt(fit)
    if fitted.unclear:
        return Verdict("unclear", fitted.unclear)
    if fitted.failed:
        return REFUSED
    used = attempt(lambda: use(fitted.value))
    if used.unclear or used.failed:
        return Verdict("unclear", used.unclear or f"refuses to answer once it is fitted: {used.value}")
    return Verdict("wrong", used.value) if used.value else RIGHT


# ---- what a density must be -----------------------------------------------------------------------------------------


def find_faults(dist: Any) -> str:
    """What is wrong with a distribution: its moments, the mass of its arcs, its pdf between its own quantiles."""
    if not (np.isfinite(dist.moment(1)).all() and np.isfinite(dist.entropy()).all()):
        return "moments or entropy are not finite"
    lower, upper = np.moveaxis(dist.interval(0.5), -1, 0)
    there = ~np.isnan(lower)
    inside = dist[..., None].cdf(np.where(there, upper, 0.0)) - dist[..., None].cdf(np.where(there, lower, 0.0))
    mass = np.where(there, inside, 0.0).sum(axis=-1)
    if np.abs(mass - 0.5).max() > 5e-3:
        return f"interval(0.5) holds {mass.ravel()[np.abs(mass - 0.5).argmax()]:.3f}"
    quantiles = np.linspace(0.0, 1.0, 402)[1:-1].reshape((-1,) + (1,) * len(dist.batch_shape))
    edges = dist.icdf(quantiles)
    off = np.abs(_integrate_pdf(dist, edges) - 399 / 401).max()
    if off > 1.2e-2:
        # A gap between two peaks is one step of quantiles, whose mass at both ends the rule may miss.
        part = np.concatenate([np.geomspace(1e-5, 0.5, 12), 1.0 - np.geomspace(0.5, 1e-5, 12)[1:]])
        inside = edges[:-1, None] + part.reshape((-1,) + (1,) * (edges.ndim - 1)) * np.diff(edges, axis=0)[:, None]
        steps = np.concatenate([edges[:-1, None], inside], axis=1).reshape(-1, *edges.shape[1:])
        off = np.abs(_integrate_pdf(dist, np.concatenate([steps, edges[-1:]])) - 399 / 401).max()
    return f"pdf integrates to 1 ± {off:.3g}" if off > 1.2e-2 else ""


def _integrate_pdf(dist: Any, edges: np.ndarray) -> Any:
    """The mass between the first and the last edge, by Gauss's rule on each step between them."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = 0.5 * (edges[1:] - edges[:-1])
    total = sum(
        weight * half * dist.pdf(edges[:-1] + half * (1.0 + node)) for node, weight in zip(nodes, weights, strict=True)
    )
    return total.sum(axis=0)


# ---- sweeps of formulas ---------------------------------------------------------------------------------------------


def sweep_parameters(rng: np.random.Generator) -> Iterator[Verdict]:
    """GvM with harmonics of all sizes, 5e-324 to 1e15, single and in batches, against sums over the circle."""
    while True:
        largest, order = 10.0 ** rng.uniform(-3, 7), int(rng.integers(1, 5))
        size = np.where(rng.random(order) < 0.5, largest, largest * 10.0 ** rng.uniform(-320, 0, order))
        size[rng.integers(order)] = largest
        eta = size / np.arange(1, order + 1) ** 2 * np.exp(1j * rng.uniform(-np.pi, np.pi, order))
        copies = int(rng.choice([1, 40]))
        yield judge(
            lambda eta=eta, copies=copies: GvM(np.tile(eta, (copies, 1))), lambda d, eta=eta: _against_sum(d, eta)
        )
        kappa = 10.0 ** rng.uniform(-323, 14.9)
        yield judge(lambda kappa=kappa: VonMises(0.3, kappa), lambda d, kappa=kappa: _against_bessel(d, kappa))


def _against_sum(dist: Any, eta: np.ndarray) -> str:
    total = (np.arange(1, eta.size + 1) ** 2 * np.abs(eta)).sum()
    x = np.linspace(-np.pi, np.pi, int(200 + 40 * np.sqrt(total)), endpoint=False)
    values = sum((np.conj(e) * np.exp(1j * t * x)).real for t, e in enumerate(eta, start=1))
    top = values.max()
    weights = np.exp(values - top)
    log_z = top + np.log(weights.mean() * 2.0 * np.pi)
    # Values of the log density are rounded to eps times their size, in the sum and in what is compared with it.
    bound = 1e-12 + 16.0 * np.finfo(float).eps * total
    for name, mine, reference in (
        ("log Z", dist.log_normalizer(), log_z),
        ("moment 1", dist.moment(1), (weights * np.exp(1j * x)).sum() / weights.sum()),
        ("moment 3", dist.moment(3), (weights * np.exp(3j * x)).sum() / weights.sum()),
        ("log density", dist.logpdf(x[::97][:, None]), (values - log_z)[::97][:, None]),
    ):
        off = np.abs(mine - reference).max()
        if not off <= bound:
            return f"{name} of {eta} is off by {off:.2g}, the bound is {bound:.2g}"
    draws = dist.sample(50, rng=0)
    return "" if np.isfinite(draws).all() and (np.ptp(draws, axis=0) > 0.0).all() else f"draws of {eta} do not vary"


def _against_bessel(dist: Any, kappa: float) -> str:
    off = abs(dist.log_normalizer() - kappa - np.log(2.0 * np.pi * i0e(kappa)))
    ratio = abs(dist.resultant_length() - i1e(kappa) / i0e(kappa))
    return "" if off <= 1e-13 + 4e-16 * kappa and ratio < 1e-14 else f"κ = {kappa}: off by {off:.2g} and {ratio:.2g}"


def sweep_grids(rng: np.random.Generator) -> Iterator[Verdict]:
    """Densities on a grid with nodes of −inf: one density for all questions."""
    while True:
        nodes = int(rng.choice([8, 32, 64, 257]))
        values = np.real(np.exp(1j * rng.uniform(0, 7)) * np.exp(1j * np.linspace(0, 6.28, nodes))) * 10 ** rng.uniform(
            -1, 2
        )
        holes = rng.random(nodes) < rng.choice([0.05, 0.3, 0.9])
        values[holes & (np.arange(nodes) != rng.integers(nodes))] = -np.inf
        yield judge(lambda values=values: GridDensity(values), _ask_grid)


def _ask_grid(dist: Any) -> str:
    x = np.linspace(-np.pi, np.pi, 200_001)
    pdf = dist.pdf(x)
    integral = np.concatenate([[0.0], np.cumsum(0.5 * (pdf[1:] + pdf[:-1]) * (x[1] - x[0]))])
    off = np.abs(integral - dist.cdf(x)).max()
    if abs(integral[-1] - 1.0) > 1e-3 or off > 1e-3:
        return f"pdf integrates to {integral[-1]:.4f}, off from the cdf by {off:.2g}"
    moment = abs(
        (0.5 * (pdf * np.exp(1j * x))[1:] + 0.5 * (pdf * np.exp(1j * x))[:-1]).sum() * (x[1] - x[0]) - dist.moment(1)
    )
    draws = dist.sample(4000, rng=0)
    gap = np.abs(np.sort(dist.cdf(draws)) - (np.arange(4000) + 0.5) / 4000).max()
    return "" if moment < 1e-3 and gap < 2.2 / np.sqrt(4000) else f"moment off by {moment:.2g}, draws by {gap:.2g}"


# ---- sweeps of engines ----------------------------------------------------------------------------------------------


def sweep_rings(rng: np.random.Generator) -> Iterator[Verdict]:
    """Gibbs on frustrated rings of 5, 7 and 9 angles, and on groups hardly tied to each other."""
    while True:
        for size in (5, 7, 9):
            for coupling in (-8.0, -15.0):
                P = coupling * (np.eye(size, k=1) + np.eye(size, k=size - 1))
                result = attempt(lambda P=P, size=size: gibbs(MGvM(np.zeros(size), P=P + P.T), 1000, rng=rng))
                sense = np.sin(result.value.samples[..., 0] - result.value.samples[..., 1]).mean()
                yield _converged(
                    result, abs(sense) < 0.1, f"ring of {size}, P = {coupling}: E sin is {sense:.3f}, not 0"
                )
        P = np.full((6, 6), 0.05)
        P[:3, :3] = P[3:, 3:] = 20.0
        np.fill_diagonal(P, 0.0)
        result = attempt(lambda P=P: gibbs(MGvM(np.zeros(6), np.full(6, 15.0), P), 1000, rng=rng))
        relation = (np.cos(result.value.samples[..., 0]) * np.cos(result.value.samples[..., 3])).mean()
        yield _converged(result, abs(relation - np.tanh(0.45)) < 0.2, f"two groups: relation {relation:.3f}, not 0.42")


def _converged(result: Outcome, right: bool, note: str) -> Verdict:
    if result.unclear or result.failed:
        return Verdict("unclear", result.unclear or str(result.value))
    if not result.value.converged:
        return REFUSED if result.warned else Verdict("silent", "not converged, and no warning")
    return RIGHT if right else Verdict("silent", note)


def hard_distribution(rng: np.random.Generator) -> tuple[str, MGvM]:
    """A spin glass of three angles, a ring of three, or a chain whose couplings contradict its fields."""
    kind = str(rng.choice(["glass", "ring", "chain"]))
    size = int(rng.integers(3, 6)) if kind == "chain" else 3
    strength = 10.0 ** rng.uniform(0, 1.2)
    a = rng.exponential(3.0, size) * np.exp(1j * rng.uniform(-np.pi, np.pi, size))
    pairs = [(i, i + 1) for i in range(size - 1)] if kind == "chain" else [(0, 1), (1, 2), (0, 2)]
    P = np.zeros((size, size), dtype=complex)
    for i, j in pairs:
        phase = {"glass": rng.uniform(-np.pi, np.pi), "ring": np.pi, "chain": np.angle(a[i] * np.conj(a[j])) + np.pi}[
            kind
        ]
        P[i, j] = strength * np.exp(1j * phase)
        P[j, i] = np.conj(P[i, j])
    return kind, MGvM(a if kind != "ring" else 0.1 * a, P=P)


def sweep_hard(rng: np.random.Generator) -> Iterator[Verdict]:
    """Expectation propagation and Gibbs on hard distributions, first moments against exact ones."""
    while True:
        kind, dist = hard_distribution(rng)
        exact = (exact_chain if kind == "chain" else exact_grid)(dist).marginals.moment(1)
        for engine in (expectation_propagation, gibbs):
            result = attempt(lambda engine=engine, dist=dist: engine(dist))
            if result.unclear or result.failed:
                yield Verdict("unclear", result.unclear or str(result.value))
                continue
            found = result.value.marginals.moment(1)
            off = np.abs(found - exact).max()
            quiet = result.value.converged and not result.warned
            yield _converged(result, off < 0.3, f"{engine.__name__}, {kind}: off by {off:.2f}") if quiet else REFUSED


# ---- sweeps of odd input --------------------------------------------------------------------------------------------


def odd_angles(rng: np.random.Generator, n: int = 24) -> dict[str, Any]:
    """Angles as people, files and programs hand them in."""
    base = rng.vonmises(rng.uniform(-np.pi, np.pi), 10.0 ** rng.uniform(-1, 2), n)
    frozen = base.copy()
    frozen.setflags(write=False)
    return {
        "plain": base,
        "whole numbers": rng.integers(-3, 4, n),
        "single precision": base.astype(np.float32),
        "half precision": base.astype(np.float16),
        "long double": base.astype(np.longdouble),
        "big endian": base.astype(">f8"),
        "truth values": base > 0,
        "objects": base.astype(object),
        "a list": base.tolist(),
        "a series": pd.Series(base, index=rng.permutation(n)),
        "masked": np.ma.masked_array(base, mask=rng.random(n) < 0.3),
        "None inside": np.where(rng.random(n) < 0.2, None, base.astype(object)),
        "NaN inside": np.where(rng.random(n) < 0.2, np.nan, base),
        "infinity inside": np.where(np.arange(n) == 3, np.inf, base),
        "NaN alone": np.full(n, np.nan),
        "one value": np.full(n, 0.7),
        "two values": np.where(np.arange(n) % 2, 0.3, 0.3 + np.pi),
        "antipodal": np.where(rng.random(n) < 0.5, 1.0, 1.0 - np.pi) + 10.0 ** rng.uniform(-8, -1) * rng.normal(size=n),
        "narrow": rng.uniform(-3, 3) + 10.0 ** rng.uniform(-17, -2) * rng.normal(size=n),
        "huge": 10.0 ** rng.uniform(3, 300) * rng.normal(size=n),
        "subnormal": 5e-324 * rng.integers(0, 9, n),
        "at the seam": np.where(rng.random(n) < 0.5, np.pi, -np.pi) + 1e-9 * rng.normal(size=n),
        "rounded": np.radians(np.round(np.degrees(base), -1)),
        "degrees": np.degrees(base),
        "nothing": np.empty(0),
        "a number": 0.3,
        "one row": base[:1],
        "two rows": base[:2],
        "three axes": base[:, None, None],
        "complex": np.exp(1j * base),
        "words": np.array(["north"] * n),
        "dates": np.array(["2020-01-01"] * n, dtype="M8[D]"),
        "None": None,
        "beyond the doubles": np.array([10**400] * n, dtype=object),
        "every second": np.repeat(base, 2)[::2],
        "read-only": frozen,
    }


def odd_inputs(rng: np.random.Generator, n: int = 24) -> dict[str, Any]:
    """Inputs of a regression, or rows of a circular PCA."""
    base = np.sort(rng.uniform(0, 1, n))[:, None]
    return {
        "plain": base,
        "any scale": 10.0 ** rng.uniform(-307, 308) * base,
        "offset": 10.0 ** rng.uniform(3, 300) + base,
        "one distinct": np.ones((n, 1)),
        "two distinct": (np.arange(n) % 2.0)[:, None],
        "near copies": 1.0 + 1e-15 * base,
        "an outlier": np.where(np.arange(n)[:, None] == 3, 10.0 ** rng.uniform(2, 300), base),
        "two scales": np.hstack([base, 10.0 ** rng.uniform(2, 300) * rng.permutation(base)]),
        "a constant column": np.hstack([base, np.ones((n, 1))]),
        "many columns": rng.normal(size=(n, 40)),
        "whole numbers": rng.integers(0, 5, (n, 1)),
        "truth values": rng.random((n, 1)) < 0.5,
        "objects": base.astype(object),
        "masked": np.ma.masked_array(base, mask=rng.random((n, 1)) < 0.2),
        "NaN inside": np.where(rng.random((n, 1)) < 0.2, np.nan, base),
        "a frame": pd.DataFrame({"x": base[:, 0]}),
        "subnormal": 5e-324 * np.arange(n)[:, None],
        "one axis": base[:, 0],
        "no columns": base[:, :0],
        "beyond the doubles": np.full((n, 1), 10**400, dtype=object),
    }


def odd_weights(rng: np.random.Generator, n: int = 24) -> dict[str, Any]:
    """Weights of rows."""
    return {
        "none": None,
        "zeros": np.zeros(n),
        "one left": np.eye(n)[3],
        "negative": -np.ones(n),
        "NaN inside": np.where(np.arange(n) == 2, np.nan, 1.0),
        "tiny": np.full(n, 5e-324),
        "shares": np.full(n, 1.0 / n),
        "counts": np.round(10.0 ** rng.uniform(0, rng.uniform(0, 7), n)),
        "a thousand copies": np.full(n, 1000.0),
        "copies of one": np.where(np.arange(n) == 3, 10.0 ** rng.uniform(0, 8), 1.0),
        "huge": np.full(n, 1e300),
        "wild": 10.0 ** rng.uniform(-200, 200, n),
        "too few": np.ones(n - 1),
        "words": np.array(["a"] * n),
    }


FITS: dict[str, Callable[[Any, Any], Any]] = {
    "GvM": lambda y, w: GvM.fit(y, order=2, weights=w),
    "GvM, order by BIC": lambda y, w: GvM.fit(y, order="bic", weights=w),
    "VonMises": lambda y, w: VonMises.fit(y, weights=w),
    "WrappedNormal": lambda y, w: WrappedNormal.fit(y, weights=w),
    "ProjectedNormal": lambda y, w: ProjectedNormal.fit(y, weights=w),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "CircularRegressor": CircularRegressor,
    "HarmonicGPRegressor": HarmonicGPRegressor,
    "CircularGPRegressor": lambda: CircularGPRegressor(random_state=0),
    "noise of any order": lambda: CircularGPRegressor(n_starts=1, noise_order="auto", average=False, random_state=0),
    "neighbours": lambda: CircularGPRegressor(n_starts=1, inference="neighbors", n_neighbors=8, random_state=0),
    "ProjectedGPRegressor": lambda: ProjectedGPRegressor(n_starts=1),
    "WrappedGPRegressor": lambda: WrappedGPRegressor(n_starts=1),
    "GvMRegressor": GvMRegressor,
    "ForestCircularRegressor": lambda: ForestCircularRegressor(n_estimators=20),
    "RecalibratedRegressor": lambda: RecalibratedRegressor(KernelCircularRegressor()),
    "KernelCircularRegressor": KernelCircularRegressor,
    "NeighborsCircularRegressor": NeighborsCircularRegressor,
    "CircularStackingRegressor": lambda: CircularStackingRegressor(
        [("none", GvMRegressor()), ("near", NeighborsCircularRegressor(3))]
    ),
}
STATISTICS = (angles.mean, angles.variance, angles.median, angles.resultant_length)


def sweep_fits(rng: np.random.Generator) -> Iterator[Verdict]:
    """Fits on the circle, odd angles and weights; summary statistics."""
    while True:
        data, weights = odd_angles(rng), odd_weights(rng)
        calls = [(y, "none") for y in data] + [("plain", w) for w in weights] + [("narrow", w) for w in weights]
        for y, w in calls:
            for name, fit in FITS.items():
                verdict = judge(partial(fit, data[y], weights[w]), find_faults)
                yield verdict._replace(note=f"{name}, {y}, weights {w}: {verdict.note}")
            for statistic in STATISTICS:
                verdict = judge(partial(statistic, data[y]), partial(_is_missing, case=y))
                yield verdict._replace(note=f"{statistic.__name__}, {y}: {verdict.note}")


def _is_missing(value: Any, case: str) -> str:
    """NaN where something is missing and nan_policy says nothing of it, or where no direction is the mean."""
    expected = case in ("NaN inside", "None inside", "NaN alone", "nothing", "two values", "antipodal", "huge")
    return "" if expected or np.isfinite(value).all() else f"it is {value}"


def sweep_regressors(rng: np.random.Generator) -> Iterator[Verdict]:
    """Regressors, odd inputs, angles and weights; predictions are densities, whatever their width."""
    while True:
        X, y, weights = odd_inputs(rng), odd_angles(rng), odd_weights(rng)
        cases = [*((x, "plain", "none") for x in X), *(("plain", angle, "none") for angle in y)]
        cases += [("one distinct", angle, "none") for angle in ("one value", "two values", "antipodal", "narrow")]
        cases += [("plain", "plain", weight) for weight in weights]
        for x, angle, weight in rng.permutation(cases):
            for name, make in REGRESSORS.items():
                verdict = judge(
                    partial(make().fit, X[x], y[angle], sample_weight=weights[weight]),
                    lambda model, at=X[x]: find_faults(model.predict_dist(at)) or _finite(model.predict(at)),
                )
                yield verdict._replace(note=f"{name}, inputs {x}, angles {angle}, weights {weight}: {verdict.note}")


def sweep_rows(rng: np.random.Generator) -> Iterator[Verdict]:
    """Fits of several angles, and circular PCA."""
    while True:
        for case, y in odd_angles(rng).items():
            rows = np.ma.stack([y, y[::-1]], axis=1) if isinstance(y, np.ndarray) and y.ndim == 1 else y
            for fit in (MGvM.fit, MultivariateWrappedNormal.fit):
                verdict = judge(lambda f=fit, r=rows: f(r), _ask_torus)
                yield verdict._replace(note=f"{fit.__qualname__}, {case}: {verdict.note}")
            verdict = judge(lambda r=rows: TorusMixture(2, random_state=0).fit(r), _ask_mixture)
            yield verdict._replace(note=f"TorusMixture, {case}: {verdict.note}")
        yield _ask_ridge(rng)
        yield _ask_copies(rng)
        for case, x in odd_inputs(rng).items():
            rows = np.ma.hstack([x] * 4) if isinstance(x, np.ndarray) and x.ndim == 2 else x
            for make in (lambda: CircularPCA(1, max_iter=30, random_state=0), lambda: PPCA(1)):
                verdict = judge(
                    lambda m=make, r=rows: (m().fit(r), r), lambda done: _finite(done[0].transform(done[1]))
                )
                yield verdict._replace(note=f"{type(make()).__name__}, {case}: {verdict.note}")


def _ask_ridge(rng: np.random.Generator) -> Verdict:
    """A mixture of rows on a line of the torus, with wild weights and gaps: components have no maximum in sight."""
    size, rows = int(rng.integers(2, 4)), int(rng.choice([8, 24, 100]))
    x = rng.uniform(-np.pi, np.pi, (rows, 1)) + 10.0 ** rng.uniform(-9, -1) * rng.normal(size=(rows, size))
    x[rng.random(x.shape) < rng.choice([0.0, 0.2])] = np.nan
    weights = 10.0 ** rng.uniform(-10, 10, rows) if rng.random() < 0.5 else None
    settings = {
        "n_components": rng.choice([1, 3, 5]).item(),
        "component": str(rng.choice(["mgvm", "directed", "wrapped_normal"])),
        "pseudo_count": rng.choice([0.0, 1e-3, 30.0]).item(),
    }
    verdict = judge(lambda: TorusMixture(**settings, random_state=0).fit(x, sample_weight=weights), _ask_mixture)
    return verdict._replace(note=f"TorusMixture of a ridge {x.shape}, {settings}: {verdict.note}")


def _ask_copies(rng: np.random.Generator) -> Verdict:
    """A mixture of a size to be chosen, of few rows that differ: it tells more of them than the uniform density."""
    size, distinct, copies = int(rng.integers(1, 5)), int(rng.integers(2, 13)), int(rng.choice([1, 3, 100]))
    x = np.repeat(rng.uniform(-np.pi, np.pi, (distinct, size)), copies, axis=0)
    component = str(rng.choice(["auto", "directed", "von_mises", "wrapped_normal"]))
    verdict = judge(
        lambda: TorusMixture("auto", component=component, random_state=0).fit(x),
        lambda model: "" if model.score(x) > -size * np.log(2.0 * np.pi) else "worse than the uniform density",
    )
    return verdict._replace(note=f"TorusMixture('auto', {component!r}), {copies} x {distinct} rows: {verdict.note}")


def _ask_torus(dist: Any) -> str:
    return _finite(dist.logpdf(np.zeros((2, dist.dimension))), dist.sample(3, rng=0))


def _ask_mixture(model: Any) -> str:
    return _finite(model.score_samples(np.zeros((2, model.n_features_in_))), model.sample(3, random_state=0)[0])


def _finite(*values: Any) -> str:
    return "" if all(np.isfinite(np.asarray(value, dtype=float)).all() for value in values) else "not finite"


TESTS: dict[str, Callable[[Any], Any]] = {
    "rayleigh_test": angles.rayleigh_test,
    "kuiper_test": angles.kuiper_test,
    "watson_test": angles.watson_test,
    "watson_two_sample_test": lambda x: angles.watson_two_sample_test(x, [0.1, 2.0, 4.0], 99, rng=0),
    "mardia_watson_wheeler_test": lambda x: angles.mardia_watson_wheeler_test(x, [0.1, 2.0, 4.0], 99, rng=0),
    "jammalamadaka_sengupta": lambda x: angles.circular_correlation(x, x, n_resamples=99, rng=0),
    "fisher_lee": lambda x: angles.circular_correlation(x, x, "fisher_lee", n_resamples=99, rng=0),
    "circular_linear_correlation": lambda x: angles.circular_linear_correlation(x, x, 99, rng=0),
}
INTERVALS = {
    method: partial(angles.mean_interval, method=method, n_resamples=199, rng=0)
    for method in ("likelihood", "bootstrap")
}
SCORES: dict[str, Callable[[Any, Any], Any]] = {
    "log_score": scores.log_score,
    "crps": scores.crps,
    "pit": scores.pit,
    "coverage": lambda dist, y: scores.coverage(dist, y, 0.5),
    "crps of draws": lambda dist, y: scores.crps(y, 0.3),
    "angular_error": lambda dist, y: scores.angular_error(y, 0.3),
    "snr": lambda dist, y: scores.snr(y, np.zeros_like(y)),
}


def odd_counts(rng: np.random.Generator, n: int = 24) -> dict[str, Any]:
    """How often each angle was seen, beside what weights may be."""
    sizes = {f"of 1e{digits}": np.full(n, 10.0**digits) for digits in (3, 6, 12, 14, 16, 18, 300)}
    return {**odd_weights(rng, n), **sizes, "one of many": np.where(np.arange(n), 1, 10**12)}


def sweep_statistics(rng: np.random.Generator) -> Iterator[Verdict]:
    """Tests, correlations, intervals, units, scores and features of odd angles and counts."""
    while True:
        data, counts = odd_angles(rng), odd_counts(rng)
        size = int(rng.choice([2, 3, 4, 10, 199, 201, 1000, 20_000]))
        data["even steps"] = 2.0 * np.pi * (np.arange(size) + rng.random()) / size
        data["next to each other"] = rng.uniform(-3, 3) + 10.0 ** rng.uniform(-320, -1) * rng.normal(size=size)
        for case, x in data.items():
            for name, test in TESTS.items():
                verdict = judge(partial(test, x), partial(_ask_test, name=name, case=case))
                yield verdict._replace(note=f"{name}, {case} ({np.size(x)}): {verdict.note}")
            for name, interval in INTERVALS.items():
                verdict = judge(partial(interval, x), _ask_interval)
                yield verdict._replace(note=f"mean_interval, {name}, {case}: {verdict.note}")
            for unit in ("radians", "degrees", "compass", "hours"):
                verdict = judge(partial(angles.to_radians, x, unit), _ask_wrapped)
                yield verdict._replace(note=f"to_radians, {unit}, {case}: {verdict.note}")
                column = x if np.ndim(x) != 1 else pd.DataFrame({"x": np.ma.filled(x, 0.0)})
                verdict = judge(partial(CircularFeatures(2, unit=unit).fit_transform, column), _ask_unit_circle)
                yield verdict._replace(note=f"CircularFeatures, {unit}, {case}: {verdict.note}")
            dist = VonMises(0.3, 10.0 ** rng.uniform(-3, 8))
            for name, score in SCORES.items():
                verdict = judge(partial(score, dist, x), partial(_ask_score, case=case))
                yield verdict._replace(note=f"{name}, {case}: {verdict.note}")
        for case, count in counts.items():
            for name in ("rayleigh_test", "kuiper_test", "watson_test"):
                verdict = judge(
                    partial(getattr(angles, name), data["plain"], count), partial(_ask_test, name=name, case=case)
                )
                yield verdict._replace(note=f"{name}, counts {case}: {verdict.note}")
            for name, interval in INTERVALS.items():
                verdict = judge(partial(interval, data["plain"], counts=count), _ask_interval)
                yield verdict._replace(note=f"mean_interval, {name}, counts {case}: {verdict.note}")
            for statistic in STATISTICS:
                verdict = judge(partial(statistic, data["plain"], count), partial(_is_missing, case=case))
                yield verdict._replace(note=f"{statistic.__name__}, weights {case}: {verdict.note}")


def _ask_test(result: Any, name: str, case: str) -> str:
    """A p-value, small for equal angles, one for even steps."""
    statistic, p_value = result
    uniformity = name in ("rayleigh_test", "kuiper_test", "watson_test")
    if not (np.isfinite(statistic) and 0.0 <= p_value <= 1.0):
        return f"{result}"
    if uniformity and case == "even steps" and p_value < 0.9:
        return f"angles in even steps have p = {p_value:.3g}"
    return f"equal angles have p = {p_value:.3g}" if uniformity and case == "one value" and p_value > 1e-6 else ""


def _ask_interval(found: Any) -> str:
    inside = found.low <= found.high <= found.low + 2.0 * np.pi + 1e-12
    return "" if inside and (found.is_whole_circle or np.isfinite(found.mean)) else f"{found}"


def _ask_wrapped(x: Any) -> str:
    known = x[~np.isnan(x)]
    return "" if (known >= -np.pi).all() and (known < np.pi).all() else f"from {known.min()} to {known.max()}"


def _ask_unit_circle(features: Any) -> str:
    values = np.asarray(features)
    off = np.abs(np.hypot(values[:, 0], values[:, 1]) - 1.0)
    return "" if not (off > 1e-12).any() else f"off the circle by {np.nanmax(off):.2g}"


def _ask_score(value: Any, case: str) -> str:
    return (
        ""
        if case in ("NaN inside", "None inside", "NaN alone", "masked")
        else ""
        if not np.isnan(value).any()
        else "NaN"
    )


def odd_couplings(rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """Ways to make a distribution of several angles, right and wrong."""
    size = int(rng.integers(1, 5))
    a = 10.0 ** rng.uniform(-3, 3) * np.exp(1j * rng.uniform(-np.pi, np.pi, size))
    half = np.triu(rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size)), 1)
    P, chain = half + half.conj().T, np.eye(size, k=1) + np.eye(size, k=-1)
    strength = 10.0 ** rng.uniform(-320, 20)
    return {
        "plain": lambda: MGvM(a, P=P),
        "any strength": lambda: MGvM(a, P=strength * P),
        "a chain of any strength": lambda: MGvM(a, P=strength * chain),
        "any field": lambda: MGvM(strength * a, P=P),
        "subnormal": lambda: MGvM(5e-324 * np.ones(size), P=5e-324 * chain),
        "none": lambda: MGvM(np.zeros(size)),
        "not Hermitian": lambda: MGvM(a, P=half),
        "NaN inside": lambda: MGvM(a, P=np.nan * P),
        "of another shape": lambda: MGvM(a, P=np.zeros((size + 1, size))),
        "sums and second harmonics": lambda: MGvM(a, b=a, Q=half + half.T),
        "a batch": lambda: MGvM(np.stack([a, 2.0 * a]), P=P),
        "a Gaussian": lambda: MGvM.from_gaussian(
            strength * np.ones(2 * size), 10.0 ** rng.uniform(-20, 20) * np.eye(2 * size)
        ),
        "a sine model": lambda: MGvM.from_sine(np.zeros(size), np.abs(a), strength * chain),
    }


def odd_given(rng: np.random.Generator) -> dict[str, Any]:
    """What the first of three angles may be given as, or other angles."""
    first = {f"the first as {case}": {0: x} for case, x in odd_angles(rng, 5).items()}
    return {**first, "nothing": {}, "too many": {7: 0.1}, "all": {0: 0.0, 1: 0.0, 2: 0.0}, "no mapping": [0.3]}


ENGINES: dict[str, Callable[[Any], Any]] = {
    "log_normalizer": lambda d: d.log_normalizer(rng=0),
    "sample": lambda d: d.sample(3, rng=0),
    "exact_grid": lambda d: exact_grid(d).moments,
    "exact_chain": lambda d: exact_chain(d).marginals.moment(1),
    "gibbs": lambda d: gibbs(d, 100, rng=0).samples,
    "mean_field": lambda d: mean_field(d, rng=0).marginals.moment(1).view(float),
    "expectation_propagation": lambda d: expectation_propagation(d).marginals.moment(1).view(float),
    "annealed_log_normalizer": lambda d: annealed_log_normalizer(d, rng=0).log_normalizer,
    "natural_vector": lambda d: d.natural_vector(),
}
LEARNERS: dict[str, Callable[[Any, Any], Any]] = {
    "likelihood": lambda x, w: fit_torus(x, "likelihood", weights=w, rng=0),
    "pseudo_likelihood": lambda x, w: fit_torus(x, "pseudo_likelihood", weights=w, rng=0),
    "score_matching": lambda x, w: fit_torus(x, "score_matching", weights=w, rng=0),
    "differences": lambda x, w: fit_torus(x, submodel="differences", order=1, weights=w, rng=0),
    "a penalty": lambda x, w: fit_torus(x, "pseudo_likelihood", penalty=0.1, weights=w, rng=0),
    "edges by EBIC": lambda x, w: fit_torus(x, "pseudo_likelihood", penalty="ebic", weights=w, rng=0),
    "edge_tests": lambda x, w: edge_tests(x, weights=w),
    "regularization_path": lambda x, w: regularization_path(x, weights=w),
}


def sweep_torus(rng: np.random.Generator) -> Iterator[Verdict]:
    """Distributions of several angles as they are made, asked, conditioned and learnt."""
    while True:
        yield from _ask_couplings(rng)
        x = rng.vonmises(rng.uniform(-3, 3), 10.0 ** rng.uniform(-1, 1), (30, 3))
        models: list[Any] = [
            MGvM([1.0, 2.0, 1j], P=np.ones((3, 3)) - np.eye(3)),
            MultivariateWrappedNormal(np.zeros(3), 10.0 ** rng.uniform(-2, 1) * (0.5 + 0.5 * np.eye(3))),
        ]
        models += [
            TorusMixture(2, component=component, random_state=0).fit(x)
            for component in ("mgvm", "directed", "von_mises", "wrapped_normal")
        ]
        for case, given in odd_given(rng).items():
            for model in models:
                verdict = judge(partial(model.conditional, given), lambda d: "")
                yield verdict._replace(note=f"conditional of {model}, {case}: {verdict.note}")
        for case, y in odd_angles(rng, 6).items():
            rows = np.ma.stack([y, y, y], axis=1) if isinstance(y, np.ndarray) and y.ndim == 1 else y
            for model in models[2:]:
                for name in ("score_samples", "predict_proba"):
                    verdict = judge(partial(getattr(model, name), rows), _finite)
                    yield verdict._replace(note=f"{name} of {model}, {case}: {verdict.note}")
        yield from _ask_learners(rng)


def _ask_couplings(rng: np.random.Generator) -> Iterator[Verdict]:
    for case, make in odd_couplings(rng).items():
        made = attempt(make)
        if made.unclear or made.failed:
            yield Verdict("unclear", f"couplings {case}: {made.unclear}") if made.unclear else REFUSED
            continue
        for name, engine in ENGINES.items():
            done = judge(partial(engine, made.value), lambda found: _finite(np.real(found)))
            yield done._replace(note=f"{name} of {made.value}, {case}, a {made.value.a}: {done.note}")


def _ask_learners(rng: np.random.Generator) -> Iterator[Verdict]:
    """Learners of few different rows, narrow ones, with gaps and wild weights: silent where they diverge."""
    distinct, copies, size = int(rng.integers(2, 40)), int(rng.choice([1, 3, 30])), int(rng.integers(1, 5))
    x = np.repeat(rng.vonmises(0.5, 10.0 ** rng.uniform(-1, 3), (distinct, size)), copies, axis=0)
    x = x + rng.choice([0.0, 1e-12, 1e-8, 1e-3]) * rng.normal(size=x.shape)
    x = np.where(rng.random(x.shape) < rng.choice([0.0, 0.1]), np.nan, x)
    weights = 10.0 ** rng.uniform(-rng.choice([2.0, 200.0]), 2.0, len(x)) if rng.random() < 0.3 else None
    for name, learn in LEARNERS.items():
        done = attempt(partial(learn, x, weights))
        note = f"{name}, {copies} x {distinct} rows of {size} angles, weights {weights is not None}"
        if done.unclear or done.failed:
            yield Verdict("unclear", f"{note}: {done.unclear}") if done.unclear else REFUSED
        elif not getattr(done.value, "converged", True):
            yield REFUSED if done.warned else Verdict("silent", f"{note}: not converged, and no warning")
        else:
            off = hasattr(done.value, "P") and not (np.isfinite(done.value.a).all() and np.isfinite(done.value.P).all())
            yield Verdict("wrong", f"{note}: parameters are not finite") if off else RIGHT


# ---- sweeps of files ------------------------------------------------------------------------------------------------


def sweep_tables(rng: np.random.Generator, folder: Path) -> Iterator[Verdict]:
    """Damaged tables, tables that unpack to much, names of megabytes, units that are not said."""
    frame = pd.DataFrame(
        {"station": ["Kiel", "Köln"] * 50, "dir": np.arange(100.0) * 3.6, "lon": np.linspace(6, 15, 100)}
    )
    text = frame.to_csv(index=False).encode()
    endings = ("csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zip", "parquet")
    yield from _ask_bombs(folder)
    yield from _ask_units(folder)
    while True:
        path = folder / f"table.{rng.choice(endings)}"
        (frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False))
        content = bytearray(path.read_bytes())
        if rng.random() < 0.3:
            content = content[: rng.integers(len(content))]
        for _ in range(int(rng.integers(0, 20))):
            if content:
                content[rng.integers(len(content))] = rng.integers(256)
        path.write_bytes(content)
        whole = path.suffix == ".csv" and bytes(content) == text
        verdict = judge(
            lambda p=path: read_table(p), lambda t, w=whole: "" if not w or t.equals(frame) else "another table"
        )
        yield verdict._replace(note=f"{path.name}: {verdict.note}")


def _ask_bombs(folder: Path) -> Iterator[Verdict]:
    import bz2
    import gzip
    import lzma
    import zipfile

    content = b"dir\n" + b"0\n" * 20_000_000
    for ending, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        (folder / f"bomb.csv.{ending}").write_bytes(pack(content))
    with zipfile.ZipFile(folder / "bomb.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.csv", content)
    pd.DataFrame({"dir": np.zeros(10_000_000)}).to_parquet(folder / "bomb.parquet")
    (folder / "name.csv").write_bytes(b"dir," + b"x" * 20_000_000 + b"\n1,2\n")
    (folder / "columns.csv").write_bytes(b"," * 20_000_000 + b"\n1\n")
    for path in sorted(folder.glob("*.*")):
        done = attempt(lambda p=path: read_table(p, max_bytes=30_000_000))
        clear = isinstance(done.value, TableError) and not done.unclear and len(str(done.value)) < 1000
        yield REFUSED if clear else Verdict("unclear", f"{path.name}: {done.unclear or str(done.value)[:100]}")


def _ask_units(folder: Path) -> Iterator[Verdict]:
    """A column far beyond one turn of degrees is refused, and its likely unit is named."""
    for name, period, unit in (
        ("minute_of_day", 1440, "minutes"),
        ("minute", 1440, "minutes"),
        ("when", 1440, "minutes"),
    ):
        path = folder / "units.csv"
        pd.DataFrame({name: np.arange(0, period, 7), "x": np.arange(0, period, 7)}).to_csv(path, index=False)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = cli.main(["density", str(path), "--angles", name, "--no-compare"])
        heeded = code == 0 and name != "when"
        yield (
            REFUSED
            if heeded or (code == 3 and unit in said.getvalue())
            else Verdict("silent", f"{name}: exit {code}, {said.getvalue()[:200]}")
        )


def sweep_models(rng: np.random.Generator, folder: Path) -> Iterator[Verdict]:
    """Model files with bytes changed, cut off or added."""
    path = folder / "model.mgvm"
    mgvm.save(MGvM([2.0, 1.0], P=[[0, 3], [3, 0]]), path)
    whole = path.read_bytes()
    while True:
        content = bytearray(whole)
        kind = rng.integers(3)
        if kind == 0:
            content[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        elif kind == 1:
            content = content[: rng.integers(len(content))]
        else:
            content += bytes(rng.integers(0, 256, 5, dtype=np.uint8))
        path.write_bytes(content)
        done = attempt(lambda: mgvm.load(path))
        clear = isinstance(done.value, ModelFileError) and not done.unclear
        yield REFUSED if clear else Verdict("wrong", f"a changed file loads, or: {done.unclear or done.value}")


_WRITER = """
import signal, sys, time, numpy as np, pandas as pd, mgvm
from pathlib import Path
from mgvm.tables import write_table
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20000, 5)))
print("ready", flush=True)
try:
    while True:
        write_table(frame, folder / "out.csv", force=True)
        mgvm.save(mgvm.GvM(np.ones((20000, 4))), folder / "out.mgvm", force=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


def sweep_writers(rng: np.random.Generator, folder: Path) -> Iterator[Verdict]:
    """Programs stopped while they write, disks that are full: old files or new ones, no halves."""
    expected = pd.DataFrame(np.random.default_rng(0).normal(size=(20000, 5)))
    yield from _ask_volumes(folder)
    while True:
        for how in ("SIGINT", "SIGKILL", "full disk", "no such folder"):
            place = folder / ("absent" if how == "no such folder" else "place")
            (folder / "place").mkdir(exist_ok=True)
            limit = int(rng.integers(1000, 300_000)) if how == "full disk" else 0
            writer = subprocess.Popen(
                [sys.executable, "-c", _WRITER, place, str(limit)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            writer.stdout.readline()
            time.sleep(rng.uniform(0.0, 1.5))
            if how.startswith("SIG"):
                writer.send_signal(getattr(signal, how))
            said = writer.stdout.read()
            writer.wait(timeout=120)
            yield _judge_files(folder / "place", expected, how, said)


def _judge_files(place: Path, expected: pd.DataFrame, how: str, said: str) -> Verdict:
    for path in place.glob(".out.*.part"):  # the next run finds them some seconds later
        os.utime(path, (time.time() - 60.0,) * 2)
    table, model = place / "out.csv", place / "out.mgvm"
    if table.exists() and not np.allclose(read_table(table).to_numpy(), expected.to_numpy(), rtol=1e-12):
        return Verdict("wrong", f"{how}: a table that is not whole")
    if model.exists() and attempt(lambda: mgvm.load(model)).failed:
        return Verdict("wrong", f"{how}: a model file that is not whole")
    mgvm.save(GvM([1.0]), model, force=True)
    mgvm.tables.write_table(expected, table, force=True)
    if list(place.glob(".out.*.part")):
        return Verdict("wrong", f"{how}: a partial file outlives the next run")
    if how in ("full disk", "no such folder") and "Error" not in said:
        return Verdict("silent", f"{how}: nothing was said, {said!r}")
    return REFUSED if how in ("full disk", "no such folder") else RIGHT


# Within a volume of 64 KB, filled or remounted read-only by what it is told: what each writer says, by lines.
_VOLUME = """
import contextlib, io, subprocess, sys, numpy as np, pandas as pd, mgvm
from pathlib import Path
from mgvm import cli
from mgvm.tables import read_table, write_table
from mgvm.tables.columns import RefusedError
place, how = Path(sys.argv[1]), sys.argv[2]
small, large = pd.DataFrame({"dir": np.arange(60.0)}), pd.DataFrame({"dir": np.random.default_rng(0).random(20000)})
write_table(small, place / "table.csv")
mgvm.save(mgvm.GvM([1.0]), place / "model.mgvm")
(place.parent / "data.csv").write_text(large[:500].mul(360).to_csv(index=False))
if how == "read-only":
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
else:
    (place / "filler").write_bytes(bytes(40_000))

def whole():
    kept = read_table(place / "table.csv").equals(small) and mgvm.load(place / "model.mgvm").order == 1
    return kept and not list(place.glob(".*.part"))

def write(name, function):
    try:
        function()
        print(name, "silent: it wrote all of it")
    except (OSError, RefusedError) as error:
        print(name, "refused" if whole() and str(error) else "wrong: what was there is not whole")
    except Exception as error:
        print(name, "unclear:", type(error).__name__, str(error)[:80])

def command(option, file):
    said = io.StringIO()
    call = ["density", str(place.parent / "data.csv"), "--angles", "dir", "--no-compare", "--components", "1"]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = cli.main([*call, option, str(place / file), "--force"])
    clear = code in (1, 2) and "of the program" not in said.getvalue() and str(place) in said.getvalue()
    print(option, "refused" if clear and whole() else f"unclear: exit {code}, {said.getvalue()[-200:]!r}")

write("table", lambda: write_table(large, place / "table.csv", force=True))
write("parquet", lambda: write_table(large, place / "table.parquet"))
big = mgvm.GvM(np.random.default_rng(0).random((20000, 4)))
write("model", lambda: mgvm.save(big, place / "model.mgvm", force=True))
for option, file in (("--out", "table.csv"), ("--report", "report.html"), ("--save", "model.mgvm")):
    if how == "read-only" or option != "--save":  # a model of one component is small enough
        command(option, file)
"""


def _ask_volumes(folder: Path) -> Iterator[Verdict]:
    """Disks that are full or read-only, mounted for one program alone; and a cache of compiled code on them."""
    place = folder / "volume"
    place.mkdir(exist_ok=True)
    mount = f'mount -t tmpfs -o size=64k tmpfs "{place}"'
    tried = attempt(lambda: subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, text=True))
    if tried.failed or tried.value.returncode:
        why = tried.value if tried.failed else tried.value.stderr.strip()
        print(f"  no disks are mounted: {why}", flush=True)
        return
    for how in ("full", "read-only"):
        call = f'{mount} && exec "$0" -c "$1" "{place}" {how}'
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", call, sys.executable, _VOLUME], capture_output=True, text=True, timeout=600
        )
        lines = done.stdout.splitlines() or [f"nothing unclear: {done.stderr[-300:]}"]
        for line in lines if done.returncode == 0 else [*lines, f"end unclear: {done.stderr[-300:]}"]:
            kind = line.split()[1].strip(":")
            yield REFUSED if kind == "refused" else Verdict(kind, f"{how} disk: {line}")
        ready = f'{mount} && {"mount -o remount,ro" if how == "read-only" else "head -c 60000 /dev/zero >"} "{place}'
        call = ready + ('"' if how == "read-only" else '/filler"') + ' && exec "$0" -c "$1"'
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", call, sys.executable, _COMPILER],
            env={**os.environ, "NUMBA_CACHE_DIR": str(place)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        yield _judge_compiled(done.returncode, done.stdout, f"{how} disk for the cache: {done.stderr[-300:]}")


_COMPILER = """
import numpy as np
from mgvm import GvM
eta = np.linspace(0.1, 40.0, 6000).reshape(3000, 2) + 0.5j
print(repr(float(GvM(eta).log_normalizer().sum())))
"""


def sweep_compilers(rng: np.random.Generator, folder: Path) -> Iterator[Verdict]:
    """Two programs that compile at once into one empty cache; a cache that cannot be written to."""
    while True:
        for cache, count in ((folder / f"cache-{rng.integers(10**9)}", 2), (Path("/proc/no-such-cache"), 1)):
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
            programs = [
                subprocess.Popen(
                    [sys.executable, "-c", _COMPILER],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for _ in range(count)
            ]
            for program in programs:
                out, error = program.communicate(timeout=600)
                yield _judge_compiled(program.returncode, out, f"cache {cache}: {out} {error[-300:]}")


def _judge_compiled(code: int, out: str, note: str) -> Verdict:
    eta = np.linspace(0.1, 40.0, 6000).reshape(3000, 2) + 0.5j
    expected = float(GvM(eta).log_normalizer().sum())
    right = code == 0 and abs(float(out) - expected) <= 1e-12 * abs(expected)
    return RIGHT if right else Verdict("wrong", note)


# ---- all of them ----------------------------------------------------------------------------------------------------


class Sweep(NamedTuple):
    """A sweep, what it says of itself in the table, and its share of the time."""

    run: Callable[..., Iterator[Verdict]]
    title: str
    share: float
    least: int  # inputs tried at least, whatever the time


SWEEPS = {
    "parameters": Sweep(
        sweep_parameters, "harmonics from 5e-324 to 1e15: normaliser, moments, density, draws", 0.08, 20
    ),
    "grids": Sweep(sweep_grids, "densities on a grid with zeros", 0.06, 10),
    "rings": Sweep(sweep_rings, "Gibbs on frustrated rings and separate groups", 0.12, 7),
    "hard": Sweep(sweep_hard, "expectation propagation and Gibbs on contradicting couplings", 0.15, 6),
    "fits": Sweep(sweep_fits, "fits on the circle: odd types, shapes, scales, weights", 0.12, 300),
    "regressors": Sweep(sweep_regressors, "regressors: odd inputs and angles, one distinct input", 0.17, 60),
    "rows": Sweep(sweep_rows, "fits of several angles, mixtures, circular PCA", 0.1, 60),
    "statistics": Sweep(sweep_statistics, "tests, intervals, units and scores: odd angles and counts", 0.03, 300),
    "torus": Sweep(sweep_torus, "several angles: odd couplings, queries, copies of rows, gaps", 0.05, 150),
    "tables": Sweep(sweep_tables, "damaged tables, bombs, names of megabytes, units not said", 0.04, 60),
    "models": Sweep(sweep_models, "changed and cut model files", 0.02, 100),
    "writers": Sweep(sweep_writers, "SIGINT, SIGKILL, full and read-only disks, no folder while writing", 0.04, 17),
    "compilers": Sweep(sweep_compilers, "two compilers at once, a cache that cannot be written", 0.02, 3),
}


def run_sweep(sweep: Sweep, seconds: float, seed: int) -> Counter[str]:
    """Counts of verdicts; inputs are tried until the CPU time is used up."""
    counts: Counter[str] = Counter()
    end = time.process_time() + seconds
    latest = time.monotonic() + 10.0 * seconds + 60.0  # programs that are started have clocks of their own
    with tempfile.TemporaryDirectory() as folder:
        more = [Path(folder)] if "folder" in sweep.run.__annotations__ else []
        for verdict in sweep.run(np.random.default_rng(seed), *more):
            counts[verdict.kind] += 1
            if verdict.kind in FAILURES:
                print(f"  {verdict.kind}: {verdict.note}", flush=True)
            out_of_time = time.process_time() > end or time.monotonic() > latest
            started = sweep.run in (sweep_writers, sweep_compilers)
            if sum(counts.values()) >= sweep.least and (
                out_of_time or (started and sum(counts.values()) >= max(sweep.least, seconds))
            ):
                return counts
    return counts


def run_named(name: str, seconds: float, seed: int) -> Counter[str]:
    """Counts of a sweep by its name, printed."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    counts = run_sweep(SWEEPS[name], seconds, seed)
    print(f"{name}: {dict(counts)}", flush=True)
    return counts


def make_table(found: dict[str, Counter[str]]) -> str:
    """The counts, as Markdown."""
    lines = [
        "| what was tried | inputs | right | refused or warned of | wrong | silent | unclear |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = ("right", "refused", *FAILURES)
    for name, counts in found.items():
        cells = " | ".join(f"{counts[kind]:,}" for kind in kinds)
        lines.append(f"| {SWEEPS[name].title} | {sum(counts.values()):,} | {cells} |")
    total = sum(found.values(), Counter())
    lines.append(f"| **all** | {sum(total.values()):,} | {' | '.join(f'{total[kind]:,}' for kind in kinds)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the sweeps, print the table, write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one minute instead of ten")
    parser.add_argument("--minutes", type=float, help="CPU time in all")
    parser.add_argument("--only", choices=SWEEPS, nargs="+", help="some of the sweeps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="sweeps at a time")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE}")
    call = parser.parse_args()
    minutes = call.minutes or (1.0 if call.quick else 10.0)
    names = list(call.only or SWEEPS)
    seconds = [60.0 * minutes * SWEEPS[name].share for name in names]
    with ProcessPoolExecutor(call.jobs, max_tasks_per_child=1, mp_context=get_context("spawn")) as pool:
        found = dict(zip(names, pool.map(run_named, names, seconds, [call.seed] * len(names)), strict=True))
    table = f"{make_table(found)}\n\nThis is a run of {minutes:g} minutes of CPU time with seed {call.seed}."
    print(table)
    if call.write:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", encoding="utf-8")
    return min(100, sum(sum(counts[kind] for kind in FAILURES) for counts in found.values()))


if __name__ == "__main__":
    sys.exit(main())
