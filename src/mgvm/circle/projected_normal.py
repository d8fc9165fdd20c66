"""The projected normal law: the direction of a Gaussian point of the plane."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle import _gaussian_plane as plane
from mgvm.circle import _projected_normal_fit
from mgvm.circle._distribution import Cumulative
from mgvm.circle._sample import Sample
from mgvm.circle.law import CircleLaw

_GRADING = 4.0  # ratio of neighbouring panels near a singularity: a 20-point rule then errs by 3^-40
_ROUND = 0.03  # axis ratio above which turning a covariance costs at most a thousand roundings


class ProjectedNormal(CircleLaw):
    r"""p(φ) = ∫_0^∞ N(r u | m, Σ) r dr with u = (cos φ, sin φ): the law of arg x for x ~ N(m, Σ).

    With A = uᵀΣ⁻¹u and D = uᵀΣ⁻¹m / √A,

        p(φ) = exp(-½ mᵀΣ⁻¹m) (1 + D Φ(D) / ϕ(D)) / (2π √|Σ| A).

    Parameters
    ----------
    mean : array_like, shape (..., 2)
        Means m of the plane's points.
    cov : array_like, shape (..., 2, 2)
        Their covariances Σ, symmetric and positive definite. The leading shapes broadcast to a batch of laws.

    Notes
    -----
    The law of (c m, c² Σ) is the same for every c > 0, so four numbers are identifiable; `fit` returns |Σ| = 1. The
    law is unimodal or bimodal, symmetric or skew; m = 0 gives the angular central Gaussian, Σ = I the law whose only
    parameter besides its direction is |m|.

    The distribution function is closed, by Owen's T. All methods hold to rounding for means up to 1e8 standard
    deviations away and covariances of condition up to 1e12, in the sense that the result is that of an angle one
    rounding away.

    Examples
    --------
    >>> from mgvm import ProjectedNormal
    >>> law = ProjectedNormal(mean=[1.0, 0.0], cov=[[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(law.pdf(0.0)), 6)
    0.43218
    >>> round(float(law.cdf(0.0)), 12)
    0.5
    """

    _trailing = {"mean": 1, "cov": 2, "_whitening": 1}
    mean: FloatArray
    cov: FloatArray
    _whitening: FloatArray

    def __init__(self, mean: ArrayLike, cov: ArrayLike):
        centre, spread = check.finite(mean, "mean"), check.covariance(cov, 2, "cov")
        if centre.shape[-1:] != (2,):
            raise ValueError(f"mean must have shape (..., 2), got {centre.shape}")
        batch = check.broadcast(mean=centre[..., 0], cov=spread[..., 0, 0])[0].shape
        check.positive(plane.determinant(plane.rescale(centre, spread)[1]), "the determinant of cov")
        centre, spread = np.broadcast_to(centre, (*batch, 2)), np.broadcast_to(spread, (*batch, 2, 2))
        self._set(mean=centre, cov=spread, _whitening=np.stack(plane.frame(centre, spread), axis=-1))

    # ---- density and distribution ---------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        return np.asarray(plane.log_density(*self._framed(x)))[()]

    def _log_slope(self, x: FloatArray) -> FloatArray:
        return plane.log_slope(*self._framed(x))

    def _frame(self) -> plane.Frame:
        return plane.Frame(*np.moveaxis(self._whitening, -1, 0))

    def _framed(self, x: ArrayLike) -> tuple[plane.Frame, FloatArray]:
        points = check.angles(x, "x")
        check.broadcast(x=points, **{"the batch": self.mean[..., 0]})
        return self._frame(), points

    def cdf(self, x: ArrayLike) -> FloatArray:
        """F(x) = ∫_{-π}^{x} p, continued past a turn: F(-π) = 0 and F(x + 2π) = F(x) + 1."""
        frame, points = self._framed(x)
        turns = np.floor((points + np.pi) / (2.0 * np.pi))
        inside = np.clip(points - 2.0 * np.pi * turns, -np.pi, np.pi)
        return np.asarray(turns + plane.mass(frame, inside))[()]

    def _cumulative(self) -> Cumulative:
        return lambda row, x: self[row].cdf(x)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""
        size = check.shape(shape) + self.batch_shape
        first, second = check.generator(rng).standard_normal((2, *size))
        frame = self._frame()
        x = frame.mean_x + frame.alpha * first
        y = frame.mean_y + frame.alpha * frame.kappa * first + frame.delta * second
        return wrap(np.arctan2(y, x))

    # ---- quadrature -----------------------------------------------------------------------------------------------

    def _centred(self) -> tuple[Self, FloatArray]:
        """Laws with a mean turned to the direction 0, where their covariance is round enough to survive it."""
        angle = np.arctan2(self.mean[..., 1], self.mean[..., 0])
        angle = np.where(_axes(self.cov)[1] < _ROUND, 0.0, angle)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        turn = np.moveaxis(turn, (0, 1), (-2, -1))
        length = np.hypot(self.mean[..., 0], self.mean[..., 1])
        ahead = np.stack([length, np.zeros_like(length)], axis=-1)
        mean = np.where(angle[..., None] == 0.0, self.mean, ahead)
        return type(self)(mean, turn @ self.cov @ np.swapaxes(turn, -1, -2)), angle

    def _panels(self) -> FloatArray:
        """Edges graded towards the three places where the density or its logarithm may vary fast.

        In the whitened angle θ: the direction of γ, with the width 1/|γ| of the peak; and the directions across, where
        D changes sign and log J(D) turns, on the same scale. In φ itself: the major axis, where |y|² nearly vanishes,
        on the scale of the axis ratio.
        """
        frame = self._frame()
        length = np.hypot(frame.gamma_x, frame.gamma_y)[..., None]
        direction = np.arctan2(frame.gamma_y, frame.gamma_x)[..., None]
        with np.errstate(divide="ignore"):
            width = np.minimum(1.0 / length, 1.0)
        peak = np.minimum(np.array([3.0, 6.0, 9.0]) * width, 0.5 * np.pi)
        whitened = np.concatenate([_both_ways(peak), _eighths(width), _about(width, 0.5 * np.pi)], axis=-1) + direction
        axis, ratio = _axes(self.cov)
        direct = np.concatenate([_eighths(ratio[..., None]), _about(ratio[..., None], 0.0)], axis=-1) + axis[..., None]
        first, kappa, delta = (part[..., None] for part in (frame.alpha, frame.kappa, frame.delta))
        x = first * np.cos(whitened)
        edges = np.concatenate([np.arctan2(kappa * x + delta * np.sin(whitened), x), wrap(direct)], axis=-1)
        end = np.full_like(length, np.pi)
        return np.concatenate([-end, np.sort(edges, axis=-1), end], axis=-1)

    # ---- fitting --------------------------------------------------------------------------------------------------

    @classmethod
    def fit(cls, data: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Maximise Σ w log p(φ) over m and Σ with |Σ| = 1.

        Parameters
        ----------
        data : array_like
            Angles in radians, any shape, at least two different ones.
        weights : array_like, optional
            Non-negative weights (counts, say) of the shape of the data.

        Returns
        -------
        ProjectedNormal
            The law of highest likelihood found from several starts. Angles that are spread more evenly about their mean
            than the family can be drive the covariance towards a line; the search stops at axes of ratio e^12.

        Examples
        --------
        >>> from mgvm import ProjectedNormal
        >>> truth = ProjectedNormal(mean=[0.5, 0.0], cov=[[2.0, 0.0], [0.0, 0.5]])
        >>> angles = truth.sample(100_000, rng=1)
        >>> law = ProjectedNormal.fit(angles)
        >>> law.mean.round(1)[0], law.cov.diagonal().round(1)
        (np.float64(0.5), array([2. , 0.5]))
        """
        angles = check.angle_data(data)
        sample = Sample.of(angles, check.weights(weights, angles.shape), cls.__name__)
        return cls(*_projected_normal_fit.maximum_likelihood(sample))


def _axes(cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Direction of the major axis, and the ratio of the minor to the major axis."""
    _, cov = plane.rescale(np.zeros(cov.shape[:-1]), cov)
    first, second, cross = cov[..., 0, 0], cov[..., 1, 1], cov[..., 0, 1]
    largest = 0.5 * (first + second + np.hypot(first - second, 2.0 * cross))
    return 0.5 * np.arctan2(2.0 * cross, first - second), np.sqrt(plane.determinant(cov)) / largest


def _both_ways(offsets: FloatArray) -> FloatArray:
    return np.concatenate([-offsets, offsets], axis=-1)


def _eighths(like: FloatArray) -> FloatArray:
    return np.broadcast_to(0.25 * np.pi * np.arange(8), (*like.shape[:-1], 8))


def _about(scale: FloatArray, place: float) -> FloatArray:
    """Offsets graded from `scale` up to an eighth of a turn, both ways about `place` and its antipode."""
    smallest = float(scale.min(initial=1.0))
    levels = 1 + max(0, int(np.ceil(-np.log(smallest) / np.log(_GRADING))))
    graded = _both_ways(np.minimum(scale * _GRADING ** np.arange(levels), 0.25 * np.pi))
    return np.concatenate([place + graded, place + np.pi + graded], axis=-1)
