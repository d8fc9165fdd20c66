"""Predictive distributions of circular regression.

The direction of the Gaussian on the soft circle is the latent angle; convolution with the noise gives the observed one.
Leave-one-out densities of single rows come from the latent density without an input's observations, to which all of
them but one are added again. Everything is a `GridDensity` on nodes of each row's own.

The convolution is a trapezoid sum of exponentials of logarithms, over points so close that the product of the latent
density and the noise is resolved wherever the two meet: log densities are right to 1e-6 as long as the density is above
1e-30 of its peak, and below that they have the right order of magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.soft_circle import convolve_over_latent, convolve_over_noise
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.base import CircularDistribution
from mgvm.circle.graded_nodes import (
    Features,
    count_even_nodes,
    features_of,
    find_features,
    graded_nodes,
    has_bends,
    resolve_density,
)
from mgvm.circle.grid_density import GridDensity
from mgvm.circle.gvm import GvM
from mgvm.inference._planar_gaussian import are_positive_definite, natural_parameters
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Noise, Replicates, bounded_likelihood

_TURN = 2.0 * np.pi


def cells(concentration: float) -> int:
    """Nodes that resolve a distribution of the given curvature, a power of two from 256 to 8192."""
    wanted = 64.0 + 24.0 * np.sqrt(concentration)
    return int(np.clip(2 ** np.ceil(np.log2(wanted)), 256, 8192))


def radial_precision(radial_scale: float) -> float:
    """τ⁻², negative for the circle itself: how compiled functions tell it from the plane."""
    return -1.0 if radial_scale == 0.0 else radial_scale**-2.0


# ---- the latent direction -------------------------------------------------------------------------------------------


class Directions(GridDensity):
    """Directions of Gaussians in the plane on the soft circle: grid densities that know their formula."""

    _trailing = {**GridDensity._trailing, "_natural": 1, "_constant": 0, "_pull": 0, "_features": 2}
    _natural: FloatArray  # of the Gaussians
    _pull: FloatArray  # τ⁻², the same for all
    _constant: FloatArray  # what the formula lacks
    _features: FloatArray  # places and widths of the peaks

    def __init__(self, natural: FloatArray, radial_scale: float):
        pull = radial_precision(radial_scale)

        def evaluate(rows: np.ndarray, x: FloatArray) -> FloatArray:
            return direction_logs(natural[rows, None, :], np.cos(x), np.sin(x), pull)

        features = find_features(evaluate, len(natural))
        values, nodes = resolve_density(evaluate, features)
        super().__init__(values, nodes)
        constant = self.log_values[:, 0] - values[:, 0]
        places = np.stack(features, axis=1)
        self._set(_natural=natural, _constant=constant, _pull=np.full(len(natural), pull), _features=places)

    def log_towards(self, cosine: FloatArray, sine: FloatArray) -> FloatArray:
        """Log densities of a flat batch at angles given by cosine and sine (R, m), by the formula."""
        pull = float(self._pull[0]) if self._size else 0.0
        return self._constant[:, None] + direction_logs(self._natural[:, None, :], cosine, sine, pull)

    def log_convolved(self, x: FloatArray, noise: FloatArray) -> FloatArray:
        """Log densities (R, m) of a flat batch plus noise, cos ε, sin ε and log weights (3, j), at angles x."""
        out = np.empty(x.shape)
        pull = float(self._pull[0]) if self._size else 0.0
        convolve_over_noise(np.ascontiguousarray(self._natural), pull, np.stack([np.cos(x), np.sin(x)]), noise, out)
        return out + self._constant[:, None]


def direction_logs(natural: FloatArray, cosine: FloatArray, sine: FloatArray, pull: float) -> FloatArray:
    """log I₁, or the distribution on the circle itself where the radial precision `pull` is negative; unnormalised.

    In the direction u, with a and b of `mgvm._numerics.soft_circle` and D = b/√a, I₁ = J₁(D)/a and J₁(D) =
    1 + D √(π/2) e^{D²/2} erfc(-D/√2).
    """
    first, second, xx, xy, yy = np.moveaxis(natural, -1, 0)
    linear = first * cosine + second * sine
    square = (xx * cosine + xy * sine) * cosine + yy * sine**2
    if pull < 0.0:
        return np.asarray(linear + square)
    precision = pull - 2.0 * square
    d = (linear + pull) / np.sqrt(precision)
    # Beyond 7 the rest, φ(D)/D³, is below 1e-13 of the whole.
    out = 0.5 * d**2 + np.log(np.sqrt(_TURN) * np.maximum(d, 1.0) / precision)
    small = d < 7.0
    if small.any():
        here = d[small]
        near = np.maximum(here, -30.0)
        rest = 1.0 + near * np.sqrt(0.5 * np.pi) * erfcx(-near * np.sqrt(0.5))
        # ∫ t exp(-t²/2 - |D|t) dt = D⁻² - 3 D⁻⁴ + 15 D⁻⁶ - …: at -30 the sum above has lost three digits.
        inverse = 1.0 / np.maximum(here**2, 100.0)
        series = inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - inverse * (105.0 - 945.0 * inverse))))
        out[small] = np.log(np.where(here < -30.0, series, rest) / precision[small])
    return np.asarray(out)


def project_gaussians(mean: FloatArray, covariance: FloatArray, radial_scale: float) -> Directions:
    """Directions of Gaussians in the plane, given by means (M, 2) and covariances (M, 2, 2), on the soft circle."""
    if not are_positive_definite(covariance).all():
        raise np.linalg.LinAlgError("a predictive covariance is not positive definite")
    return Directions(natural_parameters(mean, covariance), radial_scale)


def project_natural(natural: FloatArray, radial_scale: float) -> Directions:
    """Directions of Gaussians in the plane, given by natural parameters (N, 5), on the soft circle."""
    return Directions(natural, radial_scale)


def _log_latent(latent: GridDensity, cosine: FloatArray, sine: FloatArray) -> FloatArray:
    """Log densities of a flat batch at angles given by cosine and sine (R, m)."""
    if isinstance(latent, Directions):
        return latent.log_towards(cosine, sine)
    return np.asarray(latent[:, None].logpdf(np.arctan2(sine, cosine)))


def find_peaks(latent: GridDensity) -> Features:
    """Places and widths of the peaks of latent directions."""
    return Features(*np.moveaxis(latent._features, 1, 0)) if isinstance(latent, Directions) else features_of(latent)


# ---- convolution with the noise -------------------------------------------------------------------------------------

_DEEP = 85.0  # nats below the peak: what lower values add to 1e-30 of it does not count
_REACH = 13.0  # standard deviations of a normal peak that fall so deep
# Steps of the trapezoid rule in widths of peaks. A normal peak is then off by 5e-11. A direction may be as broad as the
# Cauchy distribution, with poles √2 widths beside the circle: by 1e-9. Noise of higher order may be as flat as
# exp(-x⁴), whose spectrum falls as exp(-1.5 (k/4)^(4/3)): by 1e-8.
_NORMAL_STEP, _LATENT_STEP, _FLAT_STEP = 0.9, 0.42, 0.33
_MOST_EVEN = 1 << 12  # points of an even grid on which both are evaluated once
_PAIRS = 1 << 18  # that are held at once: temporaries of some 20 MB


def convolve_noise(latent: GridDensity, noise: Noise, rho: FloatArray) -> GridDensity:
    """The distribution of latent direction plus noise."""
    return convolve_noises([latent], noise, [rho], [1.0])


def convolve_noises(
    latents: Sequence[GridDensity], noise: Noise, rhos: Sequence[FloatArray], weights: Sequence[float]
) -> GridDensity:
    """The mixture of distributions of latent direction plus noise, each with parameters ρ of its own.

    The parts are summed at the nodes of the whole: none needs nodes for itself.
    """
    share = np.zeros(len(rhos))
    if isinstance(noise, ContaminatedNoise):
        share = 1.0 / (1.0 + np.exp([-rho[-1] for rho in rhos]))
        noise, rhos = noise.clean, [rho[:-1] for rho in rhos]
    assert isinstance(noise, GvMNoise)
    etas = np.stack([noise.eta(rho) for rho in rhos])
    peaks = features_of(GvM(etas))
    parts = [Convolution.of(latent, etas[k], peaks.take(slice(k, k + 1))) for k, latent in enumerate(latents)]
    shares = np.log(np.asarray(weights)) + np.log1p(-share)
    outliers = float(np.asarray(weights) @ share) / _TURN

    def evaluate(rows: np.ndarray, x: FloatArray) -> FloatArray:
        logs = [log_share + part.evaluate(rows, x) for log_share, part in zip(shares, parts, strict=True)]
        out = np.asarray(np.logaddexp.reduce(logs))
        return out if outliers == 0.0 else np.logaddexp(out, np.log(outliers))

    features = parts[0].find_features()
    for part in parts[1:]:
        features = features.join(part.find_features())
    return GridDensity(*resolve_density(evaluate, features))


class Convolution(NamedTuple):
    """Latent directions plus a GvM: log ∫ L(φ) N(x - φ) dφ by the trapezoid rule.

    The rule has equal steps, for each distribution as wide as the narrowest product of peaks of both. It runs over the
    noise, as far as that has mass, or over the latent direction, whichever takes fewer points.
    """

    latent: GridDensity
    peaks: Features  # of the latent direction
    noise: GvM
    noise_peaks: Features  # (1, K)
    step: FloatArray  # (R,)
    half: FloatArray  # of a window about each peak of the latent direction, (R,); π where it has mass all around
    over_noise: np.ndarray  # (R,) which of the two

    @classmethod
    def of(cls, latent: GridDensity, eta: ComplexArray, noise_peaks: Features) -> Convolution:
        """With the choices that the widths of both suggest."""
        noise, peaks = GvM(eta), find_peaks(latent)
        noise_step = (_NORMAL_STEP if eta.size == 1 else _FLAT_STEP) * float(noise_peaks.narrowest[0])
        step = 1.0 / np.hypot(1.0 / (_LATENT_STEP * peaks.narrowest), 1.0 / noise_step)
        half = np.where(_is_within_windows(latent, peaks), _REACH * np.nanmax(peaks.width, axis=1, initial=0.0), np.pi)
        windows = np.where(half < np.pi, (~np.isnan(peaks.width)).sum(axis=1), 1)
        extent = min(2.0 * _REACH * float(np.nansum(noise_peaks.width)), _TURN)
        # A point of the latent direction costs more.
        return cls(latent, peaks, noise, noise_peaks, step, half, 2.0 * extent < 2.0 * half * windows)

    def find_features(self) -> Features:
        """Places and widths of the sums of peaks, all pairs."""
        place = self.peaks.place[:, :, None] + self.noise_peaks.place[:, None, :]
        width = np.hypot(self.peaks.width[:, :, None], self.noise_peaks.width[:, None, :])
        shape = (len(place), -1)
        return Features(place.reshape(shape), np.minimum(width, 1.0).reshape(shape))

    def evaluate(self, rows: np.ndarray, x: FloatArray) -> FloatArray:
        """Log densities (r, m) of the distributions at some rows (r,) at angles (r, m)."""
        out, left = np.empty(x.shape), np.ones(rows.size, dtype=bool)
        if (x == periodic_grid(x.shape[1])).all():
            finer = 2.0 ** np.ceil(np.log2(np.maximum(_TURN / (x.shape[1] * self.step[rows]), 1.0)))
            left = finer * x.shape[1] > _MOST_EVEN
            for times in np.unique(finer[~left]).astype(int):
                which = np.flatnonzero(finer == times)
                for some in np.array_split(which, -(-which.size * x.shape[1] * times // _PAIRS)):
                    out[some] = self._on_grid(rows[some], x.shape[1], times)
        for over_noise, add in ((True, self._over_noise), (False, self._over_latent)):
            which = np.flatnonzero(left & (self.over_noise[rows] == over_noise))
            points = self._count_points(rows[which])
            # Those that need about as many points are done together.
            which, points = which[np.argsort(-points)], np.sort(points)[::-1]
            begin = 0
            while begin < which.size:
                some = which[begin : begin + max(1, int(_PAIRS / (points[begin] * x.shape[1])))]
                out[some] = add(rows[some], x[some])
                begin += some.size
        return out

    def _on_grid(self, rows: np.ndarray, nodes: int, times: int) -> FloatArray:
        """log Σ_j L(φ_j) N(x - φ_j) Δφ at equal nodes x, φ_j on a grid so many times finer.

        Both are evaluated once a point of that grid. Relative to their peaks the sum is at least e^(-q), q the smaller
        of the ranges of their logarithms: terms below e^(-q - 45) do not count. If q is small, what is left of the
        product cannot underflow, and the sum is a product of matrices; it has no negative terms, and so no rounding
        noise. Else it is taken in logarithms.
        """
        count = nodes * times
        fine = periodic_grid(count)
        latent = _log_latent(self.latent[rows], np.cos(fine)[None], np.sin(fine)[None])
        top = latent.max(axis=1, keepdims=True)
        noise = np.asarray(self.noise.logpdf(fine + np.pi)) + np.log(_TURN / count)
        highest = float(noise.max())
        least = np.minimum(np.ptp(latent, axis=1), np.ptp(noise))
        out = np.empty((rows.size, nodes))
        smooth = (least < 300.0) & (nodes * count <= 1 << 22)  # 32 MB
        if smooth.any():
            depth = least[smooth, None] + 45.0
            factor = np.exp(np.where(latent[smooth] - top[smooth] > -depth, latent[smooth] - top[smooth], -np.inf))
            other = np.exp(np.where(noise - highest > -float(depth.max()), noise - highest, -np.inf))
            steps = (times * np.arange(nodes) - np.arange(count)[:, None]) % count
            out[smooth] = np.log(factor @ other[steps]) + top[smooth] + highest
        places = times * np.arange(nodes)[:, None]
        for row in np.flatnonzero(~smooth):
            if self.over_noise[rows[row]]:
                here, there, deep = noise, latent[row], self._depth(float(self.peaks.narrowest[rows[row]]))
            else:
                here, there, deep = latent[row], noise, _DEEP
            near, core = here > here.max() - deep, there > there.max() - 10.0
            far = np.where(near, -1e9, here)  # in the far tails of both: the peak of the other
            sums = [
                log_sum_exp(other[(places - points) % count] + one[points])
                for one, other, points in ((here, there, np.flatnonzero(near)), (there, far, np.flatnonzero(core)))
            ]
            out[row] = np.logaddexp(*sums)
        return out

    def _count_points(self, rows: np.ndarray) -> FloatArray:
        extent = np.where(self.over_noise[rows], 2.0 * _REACH * float(np.nanmax(self.noise_peaks.width)), 0.0)
        return np.maximum(extent, 2.0 * self.half[rows] * ~self.over_noise[rows]) / self.step[rows]

    def _over_noise(self, rows: np.ndarray, x: FloatArray) -> FloatArray:
        """log Σ_j N(ε_j) L(x - ε_j) Δε."""
        step = float(self.step[rows].min())
        offsets, logs = self._offsets(step, float(self.peaks.narrowest[rows].min()))
        latent = self.latent[rows]
        if isinstance(latent, Directions):
            return latent.log_convolved(x, np.stack([np.cos(offsets), np.sin(offsets), logs]))
        return log_sum_exp(np.asarray(latent[:, None, None].logpdf(x[..., None] - offsets)) + logs)

    def _offsets(self, step: float, width: float) -> tuple[FloatArray, FloatArray]:
        """Points of the noise about a step apart, as far as they count for latent peaks of a width; their weights."""
        count = int(np.ceil(_TURN / step))
        if count <= 1 << 14:
            number = np.arange(count)
        else:
            near = [
                np.arange((place - _REACH * w) // (_TURN / count), (place + _REACH * w) // (_TURN / count) + 2)
                for place, w in zip(*(part[0] for part in self.noise_peaks), strict=True)
                if not np.isnan(w)
            ]
            number = np.unique(np.concatenate(near) % count)
        offsets = _TURN / count * number
        logs = np.asarray(self.noise.logpdf(offsets)) + np.log(_TURN / count)
        high = logs > logs.max() - self._depth(width)
        return offsets[high], logs[high]

    def _depth(self, width: float) -> float:
        """Nats below its peak down to which the noise counts for latent peaks of a width."""
        if self.noise.eta.shape[-1] > 1:
            return _DEEP
        # Of a normal peak six standard deviations count, and twelve times that of the product further down.
        return 0.5 * min(_REACH, 6.5 + 12.0 * float(self.noise_peaks.narrowest[0]) / width) ** 2

    def _over_latent(self, rows: np.ndarray, x: FloatArray) -> FloatArray:
        """log Σ_j L(φ_j) N(x - φ_j) Δφ."""
        points, log_step = self._points(rows)
        logs = _log_latent(self.latent[rows], np.cos(points), np.sin(points)) + log_step
        eta = self.noise.eta
        orders = np.arange(1, eta.size + 1)
        wave, against = np.exp(1j * x[..., None] * orders) * eta.conj(), np.exp(1j * points[..., None] * orders)
        # Re Σ_t conj(η_t) e^{itx} e^{-itφ} as one real product for each row.
        left, right = (np.concatenate([part.real, part.imag], axis=-1) for part in (wave, against))
        out = np.empty(x.shape)
        convolve_over_latent(left, np.ascontiguousarray(np.swapaxes(right, 1, 2)), logs, out)
        return out - float(self.noise.log_normalizer())

    def _points(self, rows: np.ndarray) -> tuple[FloatArray, FloatArray]:
        """Points (R, m) of the latent direction and the logarithms of their distances, -inf where there is no peak."""
        count = int(np.ceil((2.0 * self.half[rows] / self.step[rows]).max())) + 1
        around = self.half[rows, None] >= np.pi
        there = ~np.isnan(self.peaks.width[rows])
        there[:, 1:] &= ~around
        place = np.where(there & ~around, self.peaks.place[rows], 0.0)
        there[:, 0] |= around[:, 0]
        points = place[:, :, None] + self.half[rows, None, None] * (periodic_grid(count) / np.pi)
        with np.errstate(divide="ignore"):
            steps = np.log(2.0 * self.half[rows, None, None] / count * there[:, :, None])
        return points.reshape(len(points), -1), np.broadcast_to(steps, points.shape).reshape(len(points), -1)


def _is_within_windows(latent: GridDensity, peaks: Features) -> np.ndarray:
    """Whether all mass that counts lies within reach of the peaks, and those are apart."""
    reach = _REACH * np.nanmax(peaks.width, axis=1, keepdims=True, initial=0.0)
    there = ~np.isnan(peaks.place)
    place = np.where(there, peaks.place, 0.0)
    angles = np.concatenate([place, place - reach, place + reach], axis=1)
    top, *ends = np.split(_log_latent(latent, np.cos(angles), np.sin(angles)), 3, axis=1)
    within = (np.maximum(*ends) < top.max(axis=1, keepdims=True) - 0.9 * _DEEP) | ~there
    ordered = np.sort(np.where(there, np.mod(place, _TURN), np.inf), axis=1)
    count = there.sum(axis=1, keepdims=True)
    last = np.take_along_axis(ordered, np.maximum(count - 1, 0), axis=1)
    with np.errstate(invalid="ignore"):  # where there is no peak, or none after the last
        gaps = np.diff(ordered, axis=1, append=ordered[:, :1] + _TURN)
        gaps = np.where(np.isfinite(gaps), gaps, ordered[:, :1] + _TURN - last)
    return np.asarray(within.all(axis=1) & (gaps > 2.0 * reach).all(axis=1) & (count[:, 0] > 0))


def mix_densities(dists: Sequence[CircularDistribution], weights: ArrayLike) -> GridDensity:
    """Mixtures of the distributions of equal batches (R,), on nodes that resolve all their parts.

    `weights` are (K,), or (R, K) where rows have their own.
    """
    of_rows = np.broadcast_to(np.asarray(weights, dtype=np.float64), (*dists[0].batch_shape, len(dists)))
    with np.errstate(divide="ignore"):
        used = [(np.log(of_rows[:, [k]]), dist) for k, dist in enumerate(dists) if (of_rows[:, k] > 0.0).any()]
    even = _mix_on_even_nodes(used)
    if even is not None:
        return even
    features = features_of(used[0][1])
    for _, dist in used[1:]:
        features = features.join(features_of(dist))

    def evaluate(rows: np.ndarray, x: FloatArray) -> FloatArray:
        parts = [log_weight[rows] + dist[rows][:, None].logpdf(x) for log_weight, dist in used]
        return np.asarray(np.logaddexp.reduce(parts))

    return GridDensity(*resolve_density(evaluate, features))


def _mix_on_even_nodes(used: Sequence[tuple[FloatArray, CircularDistribution]], most: int = 2048) -> GridDensity | None:
    """The mixture on equally spaced nodes, where no more than `most` resolve it: kernel densities have many peaks."""
    if not any(_has_even_nodes(dist) for _, dist in used):
        return None
    count = max(
        dist.log_values.shape[-1] if _has_even_nodes(dist) else count_even_nodes(features_of(dist))  # type: ignore[attr-defined]
        for _, dist in used
    )
    while count <= most:
        nodes = periodic_grid(count)
        parts = [
            log_weight + (dist.log_values if _has_even_nodes(dist, count) else dist[:, None].logpdf(nodes))  # type: ignore[attr-defined]
            for log_weight, dist in used
        ]
        values = np.logaddexp.reduce(parts)
        if not has_bends(values):
            return GridDensity(values)
        count *= 2
    return None


def _has_even_nodes(dist: CircularDistribution, count: int | None = None) -> bool:
    """Whether a distribution is known at equally spaced nodes, at so many."""
    if not isinstance(dist, GridDensity) or dist._nodes.shape[-1]:
        return False
    return count is None or dist.log_values.shape[-1] == count


def join_densities(parts: Sequence[GridDensity]) -> GridDensity:
    """Batches one after the other; those of fewer nodes are evaluated at as many as the others have."""
    if len(parts) == 1:
        return parts[0]
    count = max(part.log_values.shape[-1] for part in parts)
    tables = [_with_nodes(part, count) for part in parts]
    return GridDensity(*(np.concatenate(table) for table in zip(*tables, strict=True)))


def _with_nodes(dist: GridDensity, count: int) -> tuple[FloatArray, FloatArray]:
    """Log densities at so many nodes, and the nodes."""
    if dist.log_values.shape[-1] == count:
        return dist.log_values, np.broadcast_to(dist.nodes, dist.log_values.shape)
    nodes = graded_nodes(features_of(dist), count)
    return np.asarray(dist[:, None].logpdf(nodes)), nodes


def on_own_nodes(dist: CircularDistribution) -> GridDensity:
    """Any batch of circular distributions as values at nodes."""
    return dist if isinstance(dist, GridDensity) else mix_densities([dist], [1.0])


# ---- leave-one-out densities of rows -------------------------------------------------------------------------------


def row_log_densities(
    latent: GridDensity,
    replicates: Replicates,
    noise: Noise,
    rho: FloatArray,
    *,
    block: int = 2**22,
    sharpest: float = 4e5,
) -> FloatArray:
    """log p(ψ_r | all other observations) of every observation, in the order of the replicates.

    With L = `latent` the distribution of the latent direction without an input's observations, Π its likelihood and p_r
    that of one observation, it is log ∫LΠ - log ∫LΠ/p_r: the others at the same input keep their say. An observation of
    weight w stands for w equal ones, of which one is left out; one of w < 1 is left out whole. `block` numbers are held
    at once. Likelihoods of all at an input are no sharper than `sharpest`, as in `engines.tilted`.
    """
    out = np.empty(replicates.angles.size)
    ends = np.append(replicates.starts[1:], replicates.angles.size)
    latent_curvature = float(np.max(find_peaks(latent).narrowest ** -2.0, initial=0.0))
    count = cells(max(latent_curvature, min(noise.concentration(rho) * float(replicates.total.max()), sharpest)))
    nodes = periodic_grid(count)
    size = max(1, block // count)
    noisy = noise.log_density(rho, nodes)
    # Nodes 40 nats below the top do not count, and leaving one observation out lifts none by more than the noise spans.
    negligible = -40.0 - float(np.ptp(noisy))
    for begin in range(0, replicates.starts.size, size):
        which = np.arange(begin, min(begin + size, replicates.starts.size))
        values = _log_latent(latent[which], np.cos(nodes)[None], np.sin(nodes)[None])
        values = values + bounded_likelihood(noise, rho, replicates.take(which), nodes, sharpest)[0]
        values = values - log_sum_exp(values, axis=1)[:, None]
        lone = ends[which] == replicates.starts[which] + 1  # inputs with one observation: all at once
        if lone.any():
            rows = replicates.starts[which[lone]]
            alone = Replicates(replicates.angles[rows], np.ones(rows.size), np.arange(rows.size))
            out[rows] = _leave_out(values[lone], replicates.weights[rows], noise.likelihood(rho, alone, nodes)[0])
        for i in which[~lone]:
            near = values[i - begin] > values[i - begin].max() + negligible
            logs, places = values[i - begin][near], nodes[near]
            for first in range(replicates.starts[i], ends[i], size):
                rows = np.arange(first, min(first + size, ends[i]))
                single = noise.log_densities(rho, replicates.angles[rows], places)
                out[rows] = _leave_out(logs, replicates.weights[rows], single)
    return out


def _leave_out(values: FloatArray, weights: FloatArray, single: FloatArray) -> FloatArray:
    """log p of each observation given the others: `values` are log densities with all, `single` (n, nodes) of each."""
    without = values - np.minimum(weights[:, None], 1.0) * single
    return np.asarray(log_sum_exp(without + single) - log_sum_exp(without))
