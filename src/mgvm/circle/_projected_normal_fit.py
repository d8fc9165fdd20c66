"""Maximum likelihood for the projected normal law.

The search runs in the frame of the mean direction, over (m₁, m₂, log q, p) with Σ = LLᵀ and L = [[q, p], [0, 1]]: the
spread across the mean direction is the unit, so that the width 1/m₁ of narrow data does not depend on the q and p that
they hardly determine. With y = L⁻¹u, γ = L⁻¹m, v = y/|y|, D = γ·v and P = γ×v the log density is
log J(D) - P²/2 - log(q |y|²), up to a constant. The law returned has |Σ| = 1.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from mgvm._validation import FloatArray
from mgvm.circle._gaussian_plane import radial
from mgvm.circle._sample import Sample

_LARGEST_LOG_RATIO = 12.0  # of the axes: beyond it the law is a line to the eye, and the likelihood may be unbounded
_STEP = 1e-5


def maximum_likelihood(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of highest likelihood."""
    heaviest = _heaviest(sample)
    if heaviest >= 0.5:
        raise ValueError(
            f"{heaviest:.0%} of the weight is on one angle: from half on, the likelihood of ProjectedNormal grows "
            "without bound as its covariance becomes singular; spread equal angles, or take another law"
        )
    small = sample.coarse()
    found = [_climb(small, start) for start in _starts(small)]
    _, parameters = max(found, key=lambda pair: pair[0])
    if small is not sample:
        _, parameters = _climb(sample, parameters, scale=_inverse_curvature(small, parameters))
    return _turned(parameters, sample.centre)


def _heaviest(sample: Sample) -> float:
    """Largest share of the weight on one angle."""
    _, label = np.unique(sample.offset, return_inverse=True)
    return float(np.bincount(label, sample.share).max())


def _starts(sample: Sample) -> list[FloatArray]:
    """A round law about the mean direction, and laws with the axes of the data about 0 and about that direction."""
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
    """Height and place of the nearest maximum, by BFGS in coordinates in which the problem is round."""
    height = -np.inf
    for _ in range(10):
        scale = _inverse_scatter(sample, start) if scale is None else scale
        root: FloatArray = np.linalg.cholesky(scale).astype(float)

        def loss(z: FloatArray, root: FloatArray = root, start: FloatArray = start) -> tuple[float, FloatArray]:
            parameters = start + root @ z
            if _log_ratio(parameters) > _LARGEST_LOG_RATIO:
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
    """Inverse scatter of the scores: near the optimum of a law that fits, the covariance of the estimate, times n."""
    _, gradient = _scores(sample, parameters)
    return _inverse((sample.share * gradient) @ gradient.T)


def _inverse_curvature(sample: Sample, parameters: FloatArray) -> FloatArray:
    """Inverse of minus the Hessian, by differences of the gradient over steps on the scale of the scatter."""
    root = np.linalg.cholesky(_inverse_scatter(sample, parameters))
    ends = [
        _scores(sample, parameters + sign * _STEP * root[:, k])[1] @ sample.share for k in range(4) for sign in (1, -1)
    ]
    columns = np.array(ends).reshape(4, 2, 4)
    hessian = root.T @ (columns[:, 1] - columns[:, 0]).T / (2.0 * _STEP)
    return root @ _inverse(hessian) @ root.T


def _inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a symmetric matrix with its eigenvalues made positive and kept away from zero."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(np.abs(values), 1e-12 * max(float(np.abs(values).max()), 1e-300))
    return (vectors / values) @ vectors.T


def _turned(parameters: FloatArray, centre: float) -> tuple[FloatArray, FloatArray]:
    """m and Σ of determinant one, turned back by the mean direction."""
    q, p = np.exp(parameters[2]), parameters[3]
    turn = np.array([[np.cos(centre), -np.sin(centre)], [np.sin(centre), np.cos(centre)]])
    root = turn @ np.array([[q, p], [0.0, 1.0]]) / np.sqrt(q)
    cov = root @ root.T
    return turn @ parameters[:2] / np.sqrt(q), 0.5 * (cov + cov.T)
