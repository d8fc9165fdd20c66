"""Standard errors of natural parameters: sandwiches for score matching and pseudo-likelihood.

An estimate that solves Σ_n w_n s_n(θ) = 0 has covariance about H⁻¹ B H⁻¹/N, with H the mean of w_n times minus the
derivative of s_n and B the mean of w_n² s_n s_nᵀ. Both methods are sums over the angles d of a function of η_d, and
η_d = J_nd θ is linear in the parameters that touch d: a_d, b_d, and P_dj, Q_dj for all j. So H is a sum of small
matrices over d, and s_n is one of small vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.rows import Rows
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural, natural_first, pack, unpack

MOST = 4000  # parameters: their covariance is a matrix of 128 MB, and its inverse takes seconds
_ROWS = 4096  # at a time

# Of angle d for some rows: (s, V) with s (n, 2T) the derivative of the objective in η_d as real pairs and V (n, 2T, 2T)
# minus the second one.
Local = Callable[[int, ComplexArray, ComplexArray], tuple[FloatArray, FloatArray]]


def pseudo_likelihood_errors(sample: Rows, model: Submodel, dist: Natural) -> FloatArray:
    """Standard errors of the maximum pseudo-likelihood estimate, in the order of the natural vector."""

    def local(d: int, eta: ComplexArray, z: ComplexArray) -> tuple[FloatArray, FloatArray]:
        order = eta.shape[1]
        moments = gvm_facts(eta, 2 * order).moments[:, : 2 * order]
        powers = z[:, d, None] ** np.arange(1, order + 1)
        return np.ascontiguousarray(powers - moments[:, :order]).view(float), _covariances(moments, order)

    return _sandwich(sample, model, dist, local, None)


def score_matching_errors(sample: Rows, model: Submodel, dist: Natural) -> FloatArray:
    """Standard errors of the unpenalised score matching estimate, in the order of the natural vector."""

    def local(d: int, eta: ComplexArray, z: ComplexArray) -> tuple[FloatArray, FloatArray]:
        # g_d = ∂_d log p = -Σ_t t Im(conj(η_t) z^t) = Σ_t (Re η_t, Im η_t)·f_t with f_t = t (-sin tφ, cos tφ).
        t = np.arange(1, eta.shape[1] + 1)
        turned = t * 1j * z[:, d, None] ** t
        f = np.ascontiguousarray(turned).view(float)
        slope = (np.conj(eta) * turned).real.sum(axis=1)
        return -slope[:, None] * f, f[:, :, None] * f[:, None, :]

    def laplacian(x: FloatArray) -> FloatArray:
        return _laplacians(x, model.order)

    return _sandwich(sample, model, dist, local, laplacian)


def check_count(model: Submodel) -> None:
    """Refuse more parameters than a covariance matrix can hold."""
    if model.n_parameters > MOST:
        raise ValueError(
            f"standard errors need the covariance of all parameters, and {model.n_parameters:,} are more than the "
            f"{MOST:,} that fit; restrict the submodel, or test edges one by one (mgvm.learning._edge_tests)"
        )


def free_basis(model: Submodel) -> FloatArray:
    """An orthonormal basis (p, free) of the submodel in the space of the natural vector."""
    size, order = model.dimension, model.order
    full = 2 * size * order + 2 * size * (size - 1)
    if model.directions is None:
        ones, mask = np.full(size, 1 + 1j), np.where(model.differences, 1 + 1j, 0)
        upper = np.triu(mask) + np.triu(mask).conj().T
        free = pack(Natural(ones, np.full((order - 1, size), 1 + 1j), upper, np.where(model.sums, 1 + 1j, 0)))
        return np.eye(full)[:, free != 0]
    projector = np.stack([pack(model.project(unpack(unit, size, order))) for unit in np.eye(full)])
    values, axes = np.linalg.eigh(0.5 * (projector + projector.T))
    return axes[:, values > 0.5]


def _sandwich(
    sample: Rows,
    model: Submodel,
    dist: Natural,
    local: Local,
    extra: Callable[[FloatArray], FloatArray] | None,
) -> FloatArray:
    check_count(model)
    basis = free_basis(model)
    size, order = model.dimension, model.order
    full = basis.shape[0]
    bend, meat = np.zeros((full, full)), np.zeros((full, full))
    for x, share in _chunks(sample):
        z = np.exp(1j * x)
        first = natural_first(dist, z)
        score = np.zeros((len(x), full)) if extra is None else -extra(x)
        for d in range(size):
            places, design = _design(d, z, order)
            rest = np.broadcast_to(dist.b[:, d], (len(x), order - 1))
            s, V = local(d, np.concatenate([first[:, d, None], rest], axis=1), z)
            score[:, places] += np.einsum("nu,nuk->nk", s, design)
            half = np.einsum("nuv,nvk->nuk", V * share[:, None, None], design)
            flat = (-1, len(places))
            bend[np.ix_(places, places)] += half.reshape(flat).T @ design.reshape(flat)
        weighted = score * share[:, None]
        meat += weighted.T @ weighted
    left = _inverse(basis.T @ bend @ basis)
    return _spread(basis, left @ (basis.T @ meat @ basis) @ left)


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse, without directions in which the data say nothing: their error is given as zero, not as rounding."""
    try:
        return np.asarray(cho_solve(cho_factor(matrix), np.eye(len(matrix))), dtype=float)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=float)


def _spread(basis: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(((basis @ covariance) * basis).sum(axis=1), 0.0))


def _chunks(sample: Rows) -> Iterator[tuple[FloatArray, FloatArray]]:
    step = max(1, _ROWS * 8 // sample.dimension)
    for k in range(0, sample.n_rows, step):
        yield sample.x[k : k + step], sample.weights[k : k + step] / sample.n_rows


def _design(d: int, z: ComplexArray, order: int) -> tuple[np.ndarray, FloatArray]:
    """Places (k,) in the natural vector of what touches angle d, and J (n, 2T, k) with η_d = J θ as real pairs."""
    n, size = z.shape
    others = np.delete(np.arange(size), d)
    low, high = np.minimum(others, d), np.maximum(others, d)
    pair = low * size - low * (low + 1) // 2 + high - low - 1
    pairs = size * (size - 1) // 2
    differences = 2 * size * order + 2 * pair
    sums = differences + 2 * pairs
    own = 2 * size * np.arange(order) + 2 * d
    places = np.stack([own, own + 1], axis=1).ravel()
    places = np.concatenate([places, differences, differences + 1, sums, sums + 1])
    design = np.zeros((n, 2 * order, len(places)))
    design[:, np.arange(2 * order), np.arange(2 * order)] = 1.0
    c, s = z[:, others].real, z[:, others].imag
    # P_dj is the conjugate of the stored P_jd where j < d.
    sign = np.where(others > d, 1.0, -1.0)
    design[:, 0, 2 * order :] = np.concatenate([c, -sign * s, c, s], axis=1)
    design[:, 1, 2 * order :] = np.concatenate([s, sign * c, -s, c], axis=1)
    return places, design


def _covariances(moments: ComplexArray, order: int) -> FloatArray:
    """Covariances (n, 2T, 2T) of (cos φ, sin φ, cos 2φ, ...) from moments 1..2T."""
    n = len(moments)
    full = np.concatenate([np.ones((n, 1)), moments], axis=1)
    out = np.empty((n, order, 2, order, 2))
    for t in range(1, order + 1):
        for s in range(1, order + 1):
            gap = full[:, t - s] if t >= s else full[:, s - t].conj()
            keep = 0.5 * (gap - full[:, t] * full[:, s].conj())
            turn = 0.5 * (full[:, t + s] - full[:, t] * full[:, s])
            out[:, t - 1, 0, s - 1, 0] = keep.real + turn.real
            out[:, t - 1, 0, s - 1, 1] = turn.imag - keep.imag
            out[:, t - 1, 1, s - 1, 0] = turn.imag + keep.imag
            out[:, t - 1, 1, s - 1, 1] = keep.real - turn.real
    return out.reshape(n, 2 * order, 2 * order)


def _laplacians(x: FloatArray, order: int) -> FloatArray:
    """Σ_d ∂²T/∂φ_d² of the sufficient statistics: harmonics times -t², pairs times -2."""
    from mgvm.natural.parameters import statistics

    size = x.shape[1]
    factor = np.full(2 * size * order + 2 * size * (size - 1), -2.0)
    factor[: 2 * size * order] = -np.repeat(np.arange(1, order + 1) ** 2, 2 * size)
    return statistics(x, order) * factor
