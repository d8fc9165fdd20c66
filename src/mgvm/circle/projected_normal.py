"""The projected normal distribution: the direction of a Gaussian point of the plane.

With u the direction at the angle φ, Σ = LLᵀ, y = L⁻¹u and γ = L⁻¹m, let

    D = γ·y / |y|    and    P = γ×y / |y| = (m×u) / (√|Σ| |y|),

the mean's coordinates along and across the whitened direction. Integrating the Gaussian along the ray gives

    p(φ) = ϕ(P) J(D) / (√|Σ| |y|²),    J(D) = ϕ(D) + D Φ(D).

The textbook form e^{-|γ|²/2} (1 + D Φ(D)/ϕ(D)) / (2π √|Σ| |y|²) is the same; its exponent cancels against that of
ϕ(D), which D² + P² = |γ|² does once and for all.

Maximum likelihood is a search by BFGS. It runs in the frame of the mean direction, over (m₁, m₂, log q, p) with Σ = LLᵀ
and L = [[q, p], [0, 1]]: the spread across the mean direction is the unit, so that the width 1/m₁ of narrow data does
not depend on the q and p that they hardly determine. With y = L⁻¹u, γ = L⁻¹m, v = y/|y|, D = γ·v and P = γ×v the log
density is log J(D) - P²/2 - log(q |y|²), up to a constant. The distribution returned has |Σ| = 1.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import erfcx, ndtr, owens_t

from mgvm import _validation as check
from mgvm._validation import FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle.base import CircularDistribution, Cumulative
from mgvm.circle.fitting import Sample

_LOG_ROOT_TURN = 0.5 * float(np.log(2.0 * np.pi))

# ---- density and distribution function on plain arrays --------------------------------------------------------------


class Frame(NamedTuple):
    """The map y = L⁻¹u as y₁ = c/α, y₂ = (s - κc)/δ, with √|Σ|, m and γ."""

    alpha: FloatArray
    kappa: FloatArray
    delta: FloatArray
    root_det: FloatArray
    mean_x: FloatArray
    mean_y: FloatArray
    gamma_x: FloatArray
    gamma_y: FloatArray


class Ray(NamedTuple):
    """What the density needs of a direction: y, |y|², D and P."""

    y: tuple[FloatArray, FloatArray]
    square: FloatArray
    along: FloatArray
    across: FloatArray


def product_difference(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> FloatArray:
    """ab - cd to rounding, however much it cancels: a nearly singular covariance keeps its determinant."""
    first, second = a * b, c * d
    return (first - second) + (_product_error(a, b, first) - _product_error(c, d, second))


def _product_error(a: FloatArray, b: FloatArray, product: FloatArray) -> FloatArray:
    """The error ab - product of a rounded product, exactly (Dekker 1971)."""
    a_high, b_high = ((2.0**27 + 1.0) * v - ((2.0**27 + 1.0) * v - v) for v in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def rescale(mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m/c, Σ/c²), the same distribution, with c a power of two (so exact) that brings the trace of Σ near one."""
    _, exponent = np.frexp(cov[..., 0, 0] + cov[..., 1, 1])
    half = exponent // 2
    return np.ldexp(mean, -half[..., None]), np.ldexp(cov, -2 * half[..., None, None])


def determinant(cov: FloatArray) -> FloatArray:
    """|Σ| to rounding."""
    return product_difference(cov[..., 0, 0], cov[..., 1, 1], cov[..., 0, 1], cov[..., 0, 1])


def frame(mean: FloatArray, cov: FloatArray) -> Frame:
    """The whitening map of each distribution, from its rescaled parameters."""
    mean, cov = rescale(mean, cov)
    first, second, variance = mean[..., 0], mean[..., 1], cov[..., 0, 0]
    root_det, alpha = np.sqrt(determinant(cov)), np.sqrt(variance)
    across = product_difference(second, variance, first, cov[..., 0, 1])
    slope, gamma_y = cov[..., 0, 1] / variance, across / (alpha * root_det)
    return Frame(alpha, slope, root_det / alpha, root_det, first, second, first / alpha, gamma_y)


def ray(frame: Frame, cos: FloatArray, sin: FloatArray) -> Ray:
    """y, |y|², D and P for directions (cos, sin) that broadcast against the distributions."""
    y = (cos / frame.alpha, (sin - frame.kappa * cos) / frame.delta)
    square = y[0] ** 2 + y[1] ** 2
    length = np.sqrt(square)
    along = (frame.gamma_x * y[0] + frame.gamma_y * y[1]) / length
    across = (frame.mean_x * sin - frame.mean_y * cos) / (frame.root_det * length)
    return Ray(y, square, along, across)


def radial(along: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log J(D), its derivative Φ(D)/J(D), and that derivative plus D.

    For D = -t < 0, J = ϕ(t) (1 - tM(t)) with Mills' ratio M = Φ(-t)/ϕ(t). For large t the difference cancels; the
    repeated integrals of Φ give 1 - tM = M / (t + f) and Φ/J - t = f with the positive continued fraction
    f = 2/(t + 3/(t + 4/(t + ...))), of which 40 levels give all digits from t = 4 on.
    """
    shape = np.shape(along)
    along = np.atleast_1d(along)
    log_value, ratio, slope = (np.empty(along.shape) for _ in range(3))
    ahead, far = along >= 0, along < -4.0
    near = ~(ahead | far)
    d = along[ahead]
    mass = ndtr(d)
    value = d * mass + np.exp(-0.5 * d**2 - _LOG_ROOT_TURN)
    log_value[ahead], ratio[ahead], slope[ahead] = np.log(value), mass / value, d + mass / value
    t = -along[near]
    mills = _mills(t)
    log_value[near] = np.log1p(-t * mills) - 0.5 * t**2 - _LOG_ROOT_TURN
    ratio[near] = mills / (1.0 - t * mills)
    slope[near] = ratio[near] - t
    t = -along[far]
    fraction = np.zeros_like(t)
    for level in range(40, 1, -1):
        fraction = level / (t + fraction)
    log_value[far] = np.log(_mills(t) / (t + fraction)) - 0.5 * t**2 - _LOG_ROOT_TURN
    ratio[far], slope[far] = t + fraction, fraction
    return log_value.reshape(shape), ratio.reshape(shape), slope.reshape(shape)


def _mills(t: FloatArray) -> FloatArray:
    return np.sqrt(0.5 * np.pi) * erfcx(t * np.sqrt(0.5))


def log_density(frame: Frame, x: FloatArray) -> FloatArray:
    """Log p(φ)."""
    here = ray(frame, np.cos(x), np.sin(x))
    log_radial, _, _ = radial(here.along)
    return log_radial - 0.5 * here.across**2 - _LOG_ROOT_TURN - np.log(frame.root_det * here.square)


def log_slope(frame: Frame, x: FloatArray) -> FloatArray:
    """p'(φ) / p(φ): with θ the angle of y, dD/dθ = -P, dP/dθ = D and dθ/dφ = 1 / (√|Σ| |y|²)."""
    cos, sin = np.cos(x), np.sin(x)
    here = ray(frame, cos, sin)
    _, _, slope = radial(here.along)
    turning = (here.y[1] * (cos + frame.kappa * sin) / frame.delta - here.y[0] * sin / frame.alpha) / here.square
    return -here.across * slope / (frame.root_det * here.square) - 2.0 * turning


def mass(frame: Frame, x: FloatArray) -> FloatArray:
    """∫_{-π}^{x} p for x in [-π, π].

    The linear map L takes rays to rays and keeps their order, so the mass is that of a wedge under N(γ, I). From the
    ray through γ to the ray at the angle α in (0, π) past it, with h = |γ| sin α, the wedge holds
    ½ - ½ Φ(-h) - T(h, cot α), T being Owen's function; it is odd in α.
    """
    begin, end = (_wedge(frame, np.cos(angle), np.sin(angle)) for angle in (np.full_like(x, -np.pi), x))
    turned, held = end[0] - begin[0], end[1] - begin[1]
    # Half a turn of φ is half a turn of α: it tells a full turn from none where rounding could take one for the other.
    turn = np.where(x < 0, turned < -0.5 * np.pi, turned < 0.5 * np.pi)
    return np.clip(held + turn, 0.0, 1.0)


def _wedge(frame: Frame, cos: FloatArray, sin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Angle and mass from the ray through γ to a direction, both signed; any first ray serves where γ = 0."""
    here = ray(frame, cos, sin)
    centred = (frame.gamma_x == 0.0) & (frame.gamma_y == 0.0)
    sine, cosine = np.where(centred, here.y[1], here.across), np.where(centred, here.y[0], here.along)
    height = np.abs(here.across)
    with np.errstate(divide="ignore", over="ignore"):
        held = 0.5 - 0.5 * ndtr(-height) - owens_t(height, cosine / np.abs(sine))
    return np.arctan2(sine, cosine), np.copysign(held, sine)


# ---- maximum likelihood ---------------------------------------------------------------------------------------------


def maximum_likelihood(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of highest likelihood."""
    heaviest = _heaviest(sample)
    if heaviest >= 0.5:
        raise ValueError(
            f"{heaviest:.0%} of the weight is on one angle: from half on, the likelihood of ProjectedNormal grows "
            "without bound as its covariance becomes singular; spread equal angles, or take another distribution"
        )
    small = sample.coarse()
    found = [_climb(small, start) for start in _starts(small)]
    _, parameters = max(found, key=lambda pair: pair[0])
    if small is not sample:
        _, parameters = _climb(sample, parameters, scale=_inverse_curvature(small, parameters))
    return _turn_back(parameters, sample.centre)


def _heaviest(sample: Sample) -> float:
    """Largest share of the weight on one angle."""
    _, label = np.unique(sample.offset, return_inverse=True)
    return float(np.bincount(label, sample.share).max())


def _starts(sample: Sample) -> list[FloatArray]:
    """A round distribution about the mean direction, and two with the axes of the data: about 0 and about it."""
    deficit = sample.deficit
    length = 1.0 / np.sqrt(2.0 * deficit) if deficit < 0.3 else 1.6 * (1.0 - deficit)
    # Tyler's iteration for the shape of the angular central Gaussian, stopped early: it need not converge.
    u = np.stack([np.cos(sample.offset), np.sin(sample.offset)])
    shape = np.eye(2)
    for _ in range(4):
        square = (u * np.linalg.solve(shape, u)).sum(axis=0)
        shape = (sample.share / square * u) @ u.T
        shape /= np.sqrt(max(np.linalg.det(shape), 1e-12 * np.trace(shape) ** 2))
    shape /= shape[1, 1]
    log_q, p = 0.5 * np.log(np.linalg.det(shape)), shape[0, 1]
    return [np.array([length, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, log_q, p]), np.array([length, 0.0, log_q, p])]


def _scores(sample: Sample, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log density without its constant, and its gradient (4, n), at each angle."""
    first, second, log_q, p = parameters
    q = np.exp(log_q)
    cos, sin = np.cos(sample.offset), np.sin(sample.offset)
    x = (cos - p * sin) / q
    length = np.hypot(x, sin)
    vx, vy = x / length, sin / length
    gamma = (first - p * second) / q
    along, across = gamma * vx + second * vy, (first * sin - second * cos) / (q * length)
    log_radial, ratio, _ = radial(along)
    # ∂/∂γ = (Φ/J) v - P (v_y, -v_x). A change dy turns v by v×dy/|y|, which changes log p by -P (D + Φ/J), and
    # stretches y by v·dy/|y|. With γ - Dv = P (v_y, -v_x) the large terms, in PD, drop out of the sums below.
    ahead = ratio * vx - across * vy
    gradient = np.stack(
        [
            ahead / q,
            ratio * vy + across * vx - p / q * ahead,
            across**2 * vy**2 + 2.0 * vx**2 - 1.0 - ratio * vx * (gamma + across * vy),
            ((2.0 - across**2) * vx * vy - ratio * (second * vx + across * vy**2)) / q,
        ]
    )
    return log_radial - 0.5 * across**2 - np.log(q * length**2), gradient


def _climb(sample: Sample, start: FloatArray, scale: FloatArray | None = None) -> tuple[float, FloatArray]:
    """Height and place of the nearest maximum, by BFGS in coordinates in which the problem is round.

    Not the library's Newton's method: the Hessian of this likelihood is long, costs more than the steps it would save,
    and is far from negative definite where the search begins.
    """
    height = -np.inf
    for _ in range(10):
        scale = _inverse_scatter(sample, start) if scale is None else scale
        root: FloatArray = np.linalg.cholesky(scale).astype(float)

        def loss(z: FloatArray, root: FloatArray = root, start: FloatArray = start) -> tuple[float, FloatArray]:
            parameters = start + root @ z
            # With axes of ratio e^12 the distribution is a line to the eye, and the likelihood may be unbounded.
            if _log_ratio(parameters) > 12.0:
                return np.inf, np.zeros(4)
            value, gradient = _scores(sample, parameters)
            return -float(sample.share @ value), -root.T @ (gradient @ sample.share)

        result = minimize(loss, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 100})
        start, scale = start + root @ result.x, None
        gain, height = -result.fun - height, -float(result.fun)
        if gain < 1e-13 * max(1.0, abs(height)):
            break
    return height, start


def _log_ratio(parameters: FloatArray) -> float:
    """Log of the ratio of the axes of Σ, nearly: of ratio + 1/ratio, its trace over the root of its determinant."""
    log_q, p = parameters[2:]
    return float(np.logaddexp.reduce([log_q, -log_q, 2.0 * np.log(abs(p) + 1e-300) - log_q]))


def _inverse_scatter(sample: Sample, parameters: FloatArray) -> FloatArray:
    """Inverse scatter of the scores: near the optimum, for data of the family, n times the estimate's covariance."""
    _, gradient = _scores(sample, parameters)
    return _inverse((sample.share * gradient) @ gradient.T)


def _inverse_curvature(sample: Sample, parameters: FloatArray) -> FloatArray:
    """Inverse of minus the Hessian, by differences of the gradient over steps on the scale of the scatter."""
    root, step = np.linalg.cholesky(_inverse_scatter(sample, parameters)), 1e-5
    ends = [
        _scores(sample, parameters + sign * step * root[:, k])[1] @ sample.share for k in range(4) for sign in (1, -1)
    ]
    columns = np.array(ends).reshape(4, 2, 4)
    hessian = root.T @ (columns[:, 1] - columns[:, 0]).T / (2.0 * step)
    return root @ _inverse(hessian) @ root.T


def _inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a symmetric matrix with its eigenvalues made positive and kept away from zero."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(np.abs(values), 1e-12 * max(float(np.abs(values).max()), 1e-300))
    return (vectors / values) @ vectors.T


def _turn_back(parameters: FloatArray, centre: float) -> tuple[FloatArray, FloatArray]:
    """m and Σ of determinant one, turned back by the mean direction."""
    q, p = np.exp(parameters[2]), parameters[3]
    turn = np.array([[np.cos(centre), -np.sin(centre)], [np.sin(centre), np.cos(centre)]])
    root = turn @ np.array([[q, p], [0.0, 1.0]]) / np.sqrt(q)
    cov = root @ root.T
    return turn @ parameters[:2] / np.sqrt(q), 0.5 * (cov + cov.T)


# ---- the distribution -----------------------------------------------------------------------------------------------


class ProjectedNormal(CircularDistribution):
    r"""p(φ) = ∫_0^∞ N(r u | m, Σ) r dr with u = (cos φ, sin φ): the distribution of arg x for x ~ N(m, Σ).

    With A = uᵀΣ⁻¹u and D = uᵀΣ⁻¹m / √A,

        p(φ) = exp(-½ mᵀΣ⁻¹m) (1 + D Φ(D) / ϕ(D)) / (2π √|Σ| A).

    Parameters
    ----------
    mean : array_like, shape (..., 2)
        Means m of the plane's points.
    cov : array_like, shape (..., 2, 2)
        Their covariances Σ, symmetric and positive definite. The leading shapes broadcast to a batch of distributions.

    Notes
    -----
    The distribution of (c m, c² Σ) is the same for every c > 0, so four numbers are identifiable; `fit` returns |Σ| =
    1. The distribution is unimodal or bimodal, symmetric or skew; m = 0 gives the angular central Gaussian, Σ = I the
    distribution whose only parameter besides its direction is |m|.

    The distribution function is closed, by Owen's T. All methods hold to rounding for means up to 1e8 standard
    deviations away and covariances of condition up to 1e12, in the sense that the result is that of an angle one
    rounding away.

    Examples
    --------
    >>> from mgvm import ProjectedNormal
    >>> dist = ProjectedNormal(mean=[1.0, 0.0], cov=[[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(dist.pdf(0.0)), 6)
    0.43218
    >>> round(float(dist.cdf(0.0)), 12)
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
        check.positive(determinant(rescale(centre, spread)[1]), "the determinant of cov")
        centre, spread = np.broadcast_to(centre, (*batch, 2)), np.broadcast_to(spread, (*batch, 2, 2))
        self._set(mean=centre, cov=spread, _whitening=np.stack(frame(centre, spread), axis=-1))

    # ---- density and distribution ---------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        return np.asarray(log_density(*self._framed(x)))[()]

    def _log_slope(self, x: FloatArray) -> FloatArray:
        return log_slope(*self._framed(x))

    def _frame(self) -> Frame:
        return Frame(*np.moveaxis(self._whitening, -1, 0))

    def _framed(self, x: ArrayLike) -> tuple[Frame, FloatArray]:
        points = check.angles(x, "x")
        check.broadcast(x=points, **{"the batch": self.mean[..., 0]})
        return self._frame(), points

    def cdf(self, x: ArrayLike) -> FloatArray:
        """F(x) = ∫_{-π}^{x} p, continued past a turn: F(-π) = 0 and F(x + 2π) = F(x) + 1."""
        frame, points = self._framed(x)
        turns = np.floor((points + np.pi) / (2.0 * np.pi))
        inside = np.clip(points - 2.0 * np.pi * turns, -np.pi, np.pi)
        return np.asarray(turns + mass(frame, inside))[()]

    def _cumulative(self) -> Cumulative:
        return lambda row, x: self[row].cdf(x)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""
        size = check.shape(shape) + self.batch_shape
        first, second = check.generator(rng).standard_normal((2, *size))
        frame = self._frame()
        x = frame.mean_x + frame.alpha * first
        y = frame.mean_y + frame.alpha * frame.kappa * first + frame.delta * second
        return wrap(np.arctan2(y, x))

    # ---- quadrature -----------------------------------------------------------------------------------------------

    def _centred(self) -> tuple[Self, FloatArray]:
        """Distributions with a mean turned to the direction 0, where their covariance is round enough to survive it.

        With an axis ratio above 0.03 turning a covariance costs at most a thousand roundings.
        """
        angle = np.arctan2(self.mean[..., 1], self.mean[..., 0])
        angle = np.where(_axes(self.cov)[1] < 0.03, 0.0, angle)
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
            The distribution of highest likelihood found from several starts. Angles that are spread more evenly about
            their mean than the family can be drive the covariance towards a line; the search stops at axes of ratio
            e^12.

        Examples
        --------
        >>> from mgvm import ProjectedNormal
        >>> truth = ProjectedNormal(mean=[0.5, 0.0], cov=[[2.0, 0.0], [0.0, 0.5]])
        >>> angles = truth.sample(100_000, rng=1)
        >>> dist = ProjectedNormal.fit(angles)
        >>> dist.mean.round(1)[0], dist.cov.diagonal().round(1)
        (np.float64(0.5), array([2. , 0.5]))
        """
        angles = check.angle_data(data)
        sample = Sample.of(angles, check.weights(weights, angles.shape), cls.__name__)
        return cls(*maximum_likelihood(sample))


def _axes(cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Direction of the major axis, and the ratio of the minor to the major axis."""
    _, cov = rescale(np.zeros(cov.shape[:-1]), cov)
    first, second, cross = cov[..., 0, 0], cov[..., 1, 1], cov[..., 0, 1]
    largest = 0.5 * (first + second + np.hypot(first - second, 2.0 * cross))
    return 0.5 * np.arctan2(2.0 * cross, first - second), np.sqrt(determinant(cov)) / largest


def _both_ways(offsets: FloatArray) -> FloatArray:
    return np.concatenate([-offsets, offsets], axis=-1)


def _eighths(like: FloatArray) -> FloatArray:
    return np.broadcast_to(0.25 * np.pi * np.arange(8), (*like.shape[:-1], 8))


def _about(scale: FloatArray, place: float) -> FloatArray:
    """Offsets graded from `scale` up to an eighth of a turn, both ways about `place` and its antipode.

    Neighbouring panels are in the ratio 4: a 20-point rule then errs by 3^-40 near a singularity.
    """
    smallest = float(scale.min(initial=1.0))
    levels = 1 + max(0, int(np.ceil(-np.log(smallest) / np.log(4.0))))
    graded = _both_ways(np.minimum(scale * 4.0 ** np.arange(levels), 0.25 * np.pi))
    return np.concatenate([place + graded, place + np.pi + graded], axis=-1)
