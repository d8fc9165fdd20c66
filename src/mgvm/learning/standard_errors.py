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
from mgvm.learning.row_sums import places_of
from mgvm.learning.rows import WeightedRows
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural, natural_first, statistics, with_harmonics

# Of angle d for some rows: (s, V) with s (n, 2T) the derivative of the objective in η_d as real pairs and V (n, 2T, 2T)
# minus the second one.
LocalScore = Callable[[int, ComplexArray, ComplexArray], tuple[FloatArray, FloatArray]]


def pseudo_likelihood_errors(sample: WeightedRows, model: Submodel, dist: Natural) -> FloatArray:
    """Standard errors of the maximum pseudo-likelihood estimate, in the order of the natural vector."""

    def local(d: int, eta: ComplexArray, z: ComplexArray) -> tuple[FloatArray, FloatArray]:
        order = eta.shape[1]
        moments = gvm_facts(eta, 2 * order).moments[:, : 2 * order]
        powers = z[:, d, None] ** np.arange(1, order + 1)
        return np.ascontiguousarray(powers - moments[:, :order]).view(float), real_blocks(half_covariances(moments))

    return _sandwich(sample, model, dist, local, None)


def score_matching_errors(sample: WeightedRows, model: Submodel, dist: Natural) -> FloatArray:
    """Standard errors of the score matching estimate without penalty, in the order of the natural vector."""

    def local(d: int, eta: ComplexArray, z: ComplexArray) -> tuple[FloatArray, FloatArray]:
        # g_d = ∂_d log p = -Σ_t t Im(conj(η_t) z^t) = Σ_t (Re η_t, Im η_t)·f_t with f_t = t (-sin tφ, cos tφ).
        t = np.arange(1, eta.shape[1] + 1)
        turned = t * 1j * z[:, d, None] ** t
        f = np.ascontiguousarray(turned).view(float)
        slope = (np.conj(eta) * turned).real.sum(axis=1)
        return -slope[:, None] * f, f[:, :, None] * f[:, None, :]

    # Σ_d ∂²T/∂φ_d² is -t² times the harmonics of T and -2 times its pairs.
    size, order = model.dimension, model.order
    own = np.repeat(np.arange(1.0, order + 1.0) ** 2, 2 * size)
    return _sandwich(sample, model, dist, local, np.concatenate([own, np.full(2 * size * (size - 1), 2.0)]))


def _check_count(model: Submodel, most: int = 4000) -> None:
    """Refuse more parameters than a covariance matrix can hold: at 4,000 it has 128 MB, its inverse takes seconds."""
    if model.n_parameters > most:
        raise ValueError(
            f"standard errors need the covariance of all parameters, and {model.n_parameters:,} are more than the "
            f"{most:,} that fit; restrict the submodel, or test edges one by one (mgvm.learning.edge_tests)"
        )


def _sandwich(
    sample: WeightedRows,
    model: Submodel,
    dist: Natural,
    local: LocalScore,
    extra: FloatArray | None,
) -> FloatArray:
    """The roots of the diagonal of H⁻¹BH⁻¹/N; `extra` times the statistics of a row are a part of its s_n."""
    _check_count(model)
    basis = model.basis()
    size, order = model.dimension, model.order
    full = basis.shape[0]
    bend, meat = np.zeros((full, full)), np.zeros((full, full))
    for x, share in _chunks(sample):
        z = np.exp(1j * x)
        first = natural_first(dist, z)
        score = np.zeros((len(x), full)) if extra is None else statistics(x, order) * extra
        for d in range(size):
            places, design = _design(d, z, order)
            s, V = local(d, with_harmonics(first[:, d], dist.b[:, d]), z)
            score[:, places] += np.einsum("nu,nuk->nk", s, design)
            half = np.einsum("nuv,nvk->nuk", V * share[:, None, None], design)
            flat = (-1, len(places))
            bend[np.ix_(places, places)] += half.reshape(flat).T @ design.reshape(flat)
        weighted = score * share[:, None]
        meat += weighted.T @ weighted
    left = _inverse(basis.T @ bend @ basis)
    covariance = left @ (basis.T @ meat @ basis) @ left
    return np.sqrt(np.maximum(((basis @ covariance) * basis).sum(axis=1), 0.0))


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse, without directions in which the data say nothing: their error is given as zero, not as rounding."""
    try:
        return np.asarray(cho_solve(cho_factor(matrix), np.eye(len(matrix))), dtype=float)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=float)


def _chunks(sample: WeightedRows) -> Iterator[tuple[FloatArray, FloatArray]]:
    step = max(1, 32_768 // sample.dimension)  # angles at a time, whose designs take some 100 MB
    for k in range(0, sample.n_rows, step):
        yield sample.x[k : k + step], sample.weights[k : k + step] / sample.n_rows


def _design(d: int, z: ComplexArray, order: int) -> tuple[np.ndarray, FloatArray]:
    """Places (k,) in the natural vector of what touches angle d, and J (n, 2T, k) with η_d = J θ as real pairs."""
    n, size = z.shape
    others, places = np.delete(np.arange(size), d), places_of(d, size, order)
    design = np.zeros((n, 2 * order, len(places)))
    design[:, np.arange(2 * order), np.arange(2 * order)] = 1.0
    c, s = z[:, others].real, z[:, others].imag
    # P_dj is the conjugate of the stored P_jd where j < d.
    sign = np.where(others > d, 1.0, -1.0)
    design[:, 0, 2 * order :] = np.concatenate([c, -sign * s, c, s], axis=1)
    design[:, 1, 2 * order :] = np.concatenate([s, sign * c, -s, c], axis=1)
    return places, design


def half_covariances(moments: ComplexArray) -> ComplexArray:
    """A_ts and B_ts with d E[z^t] = Σ_s A_ts dη_s + B_ts conj(dη_s), (T, T, 2, ...), from moments 1..2T (..., 2T).

    A = ½(m_{t-s} - m_t conj(m_s)), B = ½(m_{t+s} - m_t m_s); A_st = conj(A_ts).
    """
    order = moments.shape[-1] // 2
    parts = np.empty((order, order, 2, *moments.shape[:-1]), dtype=complex)
    for t in range(order):
        for s in range(t, order):
            first, second = moments[..., t], moments[..., s]
            gap = moments[..., s - t - 1].conj() if s > t else 1.0
            parts[t, s, 0], parts[t, s, 1] = gap - first * second.conj(), moments[..., t + s + 1] - first * second
            parts[s, t, 0], parts[s, t, 1] = parts[t, s, 0].conj(), parts[t, s, 1]
    parts *= 0.5
    return parts


def real_blocks(spread: ComplexArray) -> FloatArray:
    """The map dη ↦ d E[(z, ..., z^T)] of every angle or row from its halves (T, T, 2, D): symmetric, of (Re, Im) pairs,
    shape (D, 2T, 2T).
    """
    keep, turn = np.moveaxis(spread, 3, 0)[:, :, :, 0], np.moveaxis(spread, 3, 0)[:, :, :, 1]
    size, order = keep.shape[:2]
    out = np.empty((size, order, 2, order, 2))
    out[:, :, 0, :, 0] = keep.real + turn.real
    out[:, :, 0, :, 1] = turn.imag - keep.imag
    out[:, :, 1, :, 0] = turn.imag + keep.imag
    out[:, :, 1, :, 1] = keep.real - turn.real
    return out.reshape(size, 2 * order, 2 * order)
