"""Densities of the angles observed near an input: k nearest neighbours, and kernels.

The density at a query is a weighted sum of histograms of the angles at the inputs, on a fine grid (an angle is shared
between the two nodes next to it), convolved with a von Mises distribution of concentration κ, plus a share ε of the
uniform distribution:

    p(ψ | x) = (1 - ε) Σ_j w_j(x) VM(ψ | ψ_j, κ) / Σ_j w_j(x) + ε / 2π.

Angles recorded in steps (of ten degrees, say) have a likelihood that grows without bound as the distributions shrink
onto the steps. Where many angles are equal, κ is such that the distribution is at least half a step wide, which leaves
no ripples.

Smoothing is learnt by leaving out one row at a time. Where inputs repeat, leaving out all rows of an input would serve
predictions at new inputs; measured on half a million rides of 15 days it gained 0.001 nats there with kernels and lost
0.002 with neighbours, against losses of 0.002 and 0.02 for more rides of the same days.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import ive

from mgvm import _validation as check
from mgvm._progress import reporter
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.base import (
    BaseCircularRegressor,
    MergedTraining,
    Training,
    merge_replicates,
    validate_queries,
    validate_training,
)
from mgvm.regression.noise import Replicates
from mgvm.regression.prediction import cells

_LEAST, _MOST = 0.25, 4000.0  # κ that is tried: all but uniform, and a degree wide
NODES = cells(_MOST)


class HeldOutAngles(NamedTuple):
    """Angles to be predicted: which blend predicts each, the angle, how much it counts, and its own part in the blend.

    A blend that holds the angle itself is relieved of that part, so that only other rows predict it.
    """

    position: np.ndarray
    angles: FloatArray
    weights: FloatArray
    own: FloatArray


class Blend(NamedTuple):
    """Weighted sums of histograms, of mass 1 (M, nodes), and the mass they had (M,)."""

    shares: FloatArray
    mass: FloatArray


class Smoothing(NamedTuple):
    """κ and ε, with the sum of weighted log densities they reach."""

    concentration: float
    share: float
    value: float


def make_histograms(found: MergedTraining) -> csr_array:
    """(G, nodes): the weight of the angles of every input at the nodes -π + 2πj/n."""
    replicates = found.replicates
    left, part = _locate(replicates.angles)
    values = np.concatenate([replicates.weights * (1.0 - part), replicates.weights * part])
    columns = np.concatenate([left, (left + 1) % NODES])
    return csr_array((values, (np.tile(replicates.input_of, 2), columns)), shape=(replicates.starts.size, NODES))


def blend(weights: Any, table: csr_array) -> Blend:
    """Weighted sums of histograms; none at all is the uniform distribution."""
    mixed = weights @ table
    out = np.asarray(mixed.toarray() if hasattr(mixed, "toarray") else mixed)
    total = out.sum(axis=1)
    some = (total > 0.0)[:, None]
    return Blend(np.where(some, out / np.where(some, total[:, None], 1.0), 1.0 / NODES), total)


def smooth(spectrum: np.ndarray, concentration: float, count: int = NODES) -> FloatArray:
    """Densities (M, count) of histograms of given Fourier coefficients, convolved with VM(κ)."""
    orders = np.arange(count // 2 + 1)
    coefficients = ive(orders, concentration) / ive(0, concentration)
    density = np.fft.irfft(spectrum[:, : orders.size] * coefficients, count, axis=1) * (count / (2.0 * np.pi))
    return np.maximum(density, 0.0)  # Fourier's rounding


def log_values(blended: Blend, smoothing: Smoothing) -> FloatArray:
    """Log densities (M, n) at as many nodes as kernels so wide need."""
    density = smooth(np.fft.rfft(blended.shares, axis=1), smoothing.concentration, cells(smoothing.concentration))
    return np.log((1.0 - smoothing.share) * density + smoothing.share / (2.0 * np.pi))


def log_densities(blended: Blend, rows: HeldOutAngles, smoothing: Smoothing) -> FloatArray:
    """Log densities (n,) of rows without their own part."""
    uniform = smoothing.share / (2.0 * np.pi)
    whole = np.exp(GridDensity(log_values(blended, smoothing))[rows.position].logpdf(rows.angles))
    part, step, kappa = _locate(rows.angles)[1], 2.0 * np.pi / NODES, smoothing.concentration
    ends = np.stack([part, 1.0 - part])
    near = np.exp(kappa * (np.cos(step * ends) - 1.0)) / (2.0 * np.pi * ive(0, kappa))
    own = (ends[::-1] * near).sum(axis=0)
    others = _remove_own(blended, rows, (whole - uniform) / (1.0 - smoothing.share), own)
    return np.log((1.0 - smoothing.share) * others + uniform)


def _densities(blended: Blend, rows: HeldOutAngles, concentrations: FloatArray, block: int = 4096) -> FloatArray:
    """The same (κ, n) for some κ, without the uniform share, all read off linearly between the nodes.

    The Fourier coefficients at the angle of a row, both its nodes together, are the same for all κ: the densities are
    one product of matrices.
    """
    spectrum, orders = np.fft.rfft(blended.shares, axis=1), np.arange(NODES // 2 + 1)
    times = np.where((orders == 0) | (orders == NODES // 2), 1.0, 2.0) / (2.0 * np.pi)
    falling = times[:, None] * ive(orders[:, None], concentrations) / ive(0, concentrations)
    turns = np.exp(2j * np.pi / NODES * np.arange(NODES))
    left, part = _locate(rows.angles)
    whole = np.empty((concentrations.size, part.size))
    for begin in range(0, part.size, block):
        some = slice(begin, begin + block)
        waves = turns[left[some, None] * orders % NODES] * (1.0 + part[some, None] * (turns[orders] - 1.0))
        whole[:, some] = ((spectrum[rows.position[some]] * waves).real @ falling).T
    # An angle between two nodes has shares 1 - p and p there, and is read off with the same weights.
    peak = (turns[orders * np.arange(2)[:, None]].real @ falling)[:, :, None]
    own = ((1.0 - part) ** 2 + part**2) * peak[0] + 2.0 * part * (1.0 - part) * peak[1]
    return _remove_own(blended, rows, np.maximum(whole, 0.0), own)  # Fourier's rounding


def _remove_own(blended: Blend, rows: HeldOutAngles, whole: FloatArray, own: FloatArray) -> FloatArray:
    """(M f - m f_own) / (M - m) for masses M and m, uniform where none is left."""
    mass = blended.mass[rows.position]
    left = mass - rows.own
    some = left > 1e-9 * mass
    others = np.maximum(mass * whole - rows.own * own, 0.0) / np.where(some, left, 1.0)
    return np.where(some, others, 1.0 / (2.0 * np.pi))


def largest_concentration(replicates: Replicates) -> float:
    """κ = 4/δ² for angles recorded in steps δ: more than half of them equal others, and the median gap is δ."""
    values = np.unique(replicates.angles)
    if 2 * values.size > max(replicates.angles.size, replicates.weights.sum()) or values.size < 2:
        return _MOST
    gaps = np.diff(np.append(values, values[0] + 2.0 * np.pi))
    # Twice the root first: the square of a tiny gap is zero.
    return float(np.clip((2.0 / max(float(np.median(gaps)), 1e-100)) ** 2, 2.0 * _LEAST, _MOST))


def candidate_concentrations(largest: float, around: float | None = None) -> FloatArray:
    """Values of κ to try: over the whole range, or about one of these."""
    coarse = np.geomspace(_LEAST, largest, 12)
    if around is None:
        return coarse
    ratio = float(coarse[1] / coarse[0])
    return np.minimum(around * np.geomspace(1.0 / ratio, ratio, 9), largest)


def fit_smoothing(blended: Blend, rows: HeldOutAngles, candidates: FloatArray) -> Smoothing:
    """κ and ε of the highest likelihood."""
    best = Smoothing(float(candidates[0]), 0.5, -np.inf)
    for concentration, density in zip(candidates, _densities(blended, rows, candidates), strict=True):
        share = _fit_uniform_share(density, rows.weights)
        value = float(rows.weights @ np.log((1.0 - share) * density + share / (2.0 * np.pi)))
        if value > best.value:
            best = Smoothing(float(concentration), share, value)
    return best


def _fit_uniform_share(density: FloatArray, weights: FloatArray) -> float:
    """ε in [1e-4, 0.5] by 25 steps of EM, with a twentieth of an observation for it and another against it."""
    share, total = 0.05, float(weights.sum())
    for _ in range(25):
        uniform = share / (2.0 * np.pi)
        mass = float(weights @ (uniform / (uniform + (1.0 - share) * density)))
        share = float(np.clip((mass + 0.05) / (total + 0.1), 1e-4, 0.5))
    return share


def _locate(angles: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """The node below each angle, and how far it is on its way to the next."""
    place = (angles + np.pi) * (NODES / (2.0 * np.pi))
    below = np.floor(place)
    return below.astype(np.int64) % NODES, place - below


_HELD = 1 << 24  # weights held at once: 128 MB


class LocalRegressor(BaseCircularRegressor):
    """Fit and prediction by weights; a subclass says which inputs count how much at a query."""

    _measures_distances = True  # and so suffers from columns of wildly different scale

    tuning_rows: int
    random_state: Seed
    verbose: int

    @abc.abstractmethod
    def _scales(self) -> list[float]:
        """The candidates for the one parameter of the weights."""

    @abc.abstractmethod
    def _weights(self, X: FloatArray, scales: list[float], own: np.ndarray) -> Iterator[Any]:
        """Weights (M, G) of the inputs at queries for every scale; `own` (M,) are inputs to leave out, -1 for none."""

    @single_thread
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the smoothing from X (N, p) and angles y (N,); weights are counts of rows."""
        data = validate_training(self, X, y, sample_weight, scales=self._measures_distances)
        most = check.integer(self.tuning_rows, "tuning_rows", minimum=1)
        found = self._merge(data)
        self._inputs, self._table = found.inputs, make_histograms(found)
        self._prepare(found.replicates)
        size = len(self._inputs)
        used = min(size, most, max(50, _HELD // size))
        which = np.sort(check.generator(self.random_state, "random_state").choice(size, used, replace=False))
        rows, own = self._take_held_out(found.replicates, which)
        largest = largest_concentration(found.replicates)
        best = None
        scales = self._scales()
        for scale, weights in zip(scales, self._weights(self._inputs[which], scales, own), strict=True):
            blended = blend(weights, self._table)
            smoothing = fit_smoothing(blended, rows, candidate_concentrations(largest))
            if best is None or smoothing.value > best[1].value:
                best = scale, smoothing, blended
        assert best is not None
        self._scale, coarse, blended = best
        fine = candidate_concentrations(largest, coarse.concentration)
        self._smoothing = fit_smoothing(blended, rows, fine)
        self.concentration_, self.background_ = self._smoothing.concentration, self._smoothing.share
        values = self._leave_rows_out(found.replicates)
        self.loo_log_density_ = found.of_rows(
            values, lambda rows: self._distribution(data.X[rows]).logpdf(data.y[rows])
        )
        return self

    def _merge(self, data: Training) -> MergedTraining:
        """The inputs that have weights, and their angles."""
        return merge_replicates(data)

    def _prepare(self, replicates: Replicates) -> None:
        """Whatever the weights need of the inputs and of their angles."""

    def _take_held_out(self, replicates: Replicates, which: np.ndarray) -> tuple[HeldOutAngles, np.ndarray]:
        """The angles of some inputs, and the inputs (-1 for others) that are gone without their only angle.

        Of an angle of weight w, which stands for w rows, one row is left out; of w < 1 the whole.
        """
        picked = replicates.take(which)
        sizes = picked.sizes
        gone = (sizes == 1) & (picked.total <= 1.0)
        position = np.repeat(np.arange(which.size), sizes)
        own = np.where(gone[position], 0.0, np.minimum(picked.weights, 1.0))
        return HeldOutAngles(position, picked.angles, picked.weights, own), np.where(gone, which, -1)

    def _leave_rows_out(self, replicates: Replicates) -> FloatArray:
        """log p(ψ | all other rows) of every angle of the replicates."""
        size = len(self._inputs)
        parts = []
        report = reporter(bool(self.verbose), f"{type(self).__name__}: inputs left out")
        for which in np.array_split(np.arange(size), self._pieces(size)):
            report(int(which[0]), size)
            rows, own = self._take_held_out(replicates, which)
            weights = next(self._weights(self._inputs[which], [self._scale], own))
            parts.append(log_densities(blend(weights, self._table), rows, self._smoothing))
        return np.concatenate(parts)

    def _pieces(self, rows: int) -> int:
        return max(1, -(-rows * max(len(self._inputs), NODES) // _HELD))

    def _distribution(self, X: FloatArray) -> GridDensity:
        weights = next(self._weights(X, [self._scale], np.full(len(X), -1)))
        return GridDensity(log_values(blend(weights, self._table), self._smoothing))

    @single_thread
    def predict_dist(self, X: Any) -> GridDensity:
        """The distribution of the angle at every row of X, as one batch."""
        checked = validate_queries(self, X)
        parts = np.array_split(checked, self._pieces(len(checked)))
        return GridDensity(np.concatenate([self._distribution(part).log_values for part in parts]))


class NeighborsCircularRegressor(LocalRegressor):
    """p(ψ | x) = (1 - ε) Σ_{j among the k nearest inputs} VM(ψ | ψ_j, κ) / n + ε/2π; k, κ and ε by leave-one-out.

    Parameters
    ----------
    n_neighbors : int, optional
        k, the number of nearest different inputs (all their angles count). By default the best of about sixteen.
    tuning_rows : int, default 1000
        Leave-one-out densities are taken at no more inputs than this, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of that draw.
    verbose : int, default 0
        1 prints progress every other second.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; `predict_dist` gives radians.

    Attributes
    ----------
    n_neighbors_ : int
        k.
    concentration_, background_ : float
        κ and ε.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import NeighborsCircularRegressor
    >>> x = np.linspace(0.0, 1.0, 100)[:, None]
    >>> y = 6.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.2, 100)
    >>> bool(abs(NeighborsCircularRegressor().fit(x, y).predict([[0.5]])[0] - 3.0) < 0.2)
    True
    """

    def __init__(
        self,
        n_neighbors: int | None = None,
        *,
        tuning_rows: int = 1000,
        random_state: Seed = 0,
        verbose: int = 0,
        unit: str = "radians",
    ):
        self.n_neighbors = n_neighbors
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose
        self.unit = unit

    @property
    def n_neighbors_(self) -> int:
        """The number of neighbours."""
        return int(self._scale)

    def _scales(self) -> list[float]:
        others = max(1, len(self._inputs) - 1)
        if self.n_neighbors is not None:
            return [float(min(check.integer(self.n_neighbors, "n_neighbors", minimum=1), others))]
        largest = min(others, 1000)
        return np.unique(np.rint(np.geomspace(1.0, largest, 16))).tolist()

    def _prepare(self, replicates: Replicates) -> None:
        self._tree = cKDTree(self._inputs)

    def _weights(self, X: FloatArray, scales: list[float], own: np.ndarray) -> Iterator[csr_array]:
        size = len(self._inputs)
        count = min(int(max(scales)) + bool((own >= 0).any()), size)
        nearest = np.reshape(self._tree.query(X, k=[*range(1, count + 1)])[1], (len(X), count))
        # The input itself goes to the end of its own list, or is not in it among ever so many at distance zero.
        last = np.argsort(nearest == own[:, None], axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, last, axis=1)
        for scale in scales:
            part = nearest[:, : int(scale)]
            rows = np.repeat(np.arange(len(X)), part.shape[1])
            others = (part != own[:, None]).ravel().astype(float)
            yield csr_array((others, (rows, part.ravel())), shape=(len(X), size))


class KernelCircularRegressor(LocalRegressor):
    """p(ψ | x) = (1 - ε) Σ_j e^{-|x - x_j|²/2h²} VM(ψ | ψ_j, κ) / Σ_j e^{-|x - x_j|²/2h²} + ε/2π.

    The conditional density of Nadaraya and Watson; h, κ and ε by leave-one-out.

    Parameters
    ----------
    bandwidth : float, optional
        h. By default the best of sixteen between the nearest and the farthest distances of inputs.
    tuning_rows : int, default 1000
        Leave-one-out densities are taken at no more inputs than this, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of that draw.
    verbose : int, default 0
        1 prints progress every other second.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; `predict_dist` gives radians.

    Attributes
    ----------
    bandwidth_ : float
        h.
    concentration_, background_ : float
        κ and ε.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import KernelCircularRegressor
    >>> x = np.linspace(0.0, 1.0, 100)[:, None]
    >>> y = 6.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.2, 100)
    >>> bool(abs(KernelCircularRegressor().fit(x, y).predict([[0.5]])[0] - 3.0) < 0.2)
    True
    """

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        tuning_rows: int = 1000,
        random_state: Seed = 0,
        verbose: int = 0,
        unit: str = "radians",
    ):
        self.bandwidth = bandwidth
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose
        self.unit = unit

    @property
    def bandwidth_(self) -> float:
        """The bandwidth in X."""
        return float(self._scale)

    def _scales(self) -> list[float]:
        if self.bandwidth is not None:
            return [check.single_positive(self.bandwidth, "bandwidth")]
        width = np.linalg.norm(np.ptp(self._inputs, axis=0))
        if width == 0.0:
            return [1.0]
        nearest = cKDTree(self._inputs).query(self._inputs, k=2)[0][:, 1]
        return np.geomspace(0.3 * float(np.median(nearest)), float(width), 16).tolist()

    def _weights(self, X: FloatArray, scales: list[float], own: np.ndarray) -> Iterator[Any]:
        tree = cKDTree(self._inputs)
        with np.errstate(over="ignore"):
            least = tree.query(X, k=[1, 2])[0][np.arange(len(X)), (own >= 0).astype(int)] ** 2
        square = None
        for scale in scales:
            if square is None:
                near = self._near_weights(tree, X, least, scale, own)
                if near is not None:
                    yield near
                    continue
                square = cdist(X, self._inputs, "sqeuclidean")
                without = np.flatnonzero(own >= 0)
                square[without, own[without]] = np.inf
                # Relative to the nearest input, by the same squares: far from all of them the nearest ones decide, and
                # nothing under- or overflows.
                nearest = square.min(axis=1, keepdims=True)
                square -= np.where(np.isfinite(nearest), nearest, 0.0)
            weights = square * (-0.5 / scale**2)
            yield np.exp(weights, out=weights)

    def _near_weights(
        self, tree: cKDTree, X: FloatArray, least: FloatArray, scale: float, own: np.ndarray
    ) -> csr_array | None:
        """Weights of the inputs within reach of each query; None where these are more than a twentieth of all.

        Farther ones weigh less than e^-40 of the nearest, whose squared distance is `least`.
        """
        if not np.isfinite(least).all():
            return None
        reach = (1.0 + 1e-9) * np.sqrt(least + 80.0 * scale**2)  # the nearest is within it, whatever the rounding
        some = np.linspace(0, len(X) - 1, min(len(X), 50)).astype(int)
        if tree.query_ball_point(X[some], reach[some], return_length=True).mean() > 0.05 * len(self._inputs):
            return None
        found = tree.query_ball_point(X, reach)
        sizes = np.array([len(one) for one in found])
        rows = np.repeat(np.arange(len(X)), sizes)
        columns = np.concatenate([np.asarray(one, dtype=np.int64) for one in found])
        square = np.where(columns == own[rows], np.inf, ((X[rows] - self._inputs[columns]) ** 2).sum(axis=1))
        square -= np.minimum.reduceat(square, np.cumsum(sizes) - sizes)[rows]
        values = np.exp(-0.5 / scale**2 * square)
        return csr_array((values, (rows, columns)), shape=(len(X), len(self._inputs)))
