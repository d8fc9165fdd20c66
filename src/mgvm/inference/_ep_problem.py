"""From what a user hands to expectation propagation to the problem its loop runs on, with all checks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.linalg import lapack
from scipy.sparse.linalg import ArpackError, eigsh

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle._concentration import LARGEST_CONCENTRATION
from mgvm.inference._ep_grid import GridSites
from mgvm.inference._ep_iterate import Problem
from mgvm.inference._ep_soft import SoftSites
from mgvm.inference._ep_tilted import HarmonicSites, Sites
from mgvm.inference._law import dense_coupling, natural

LARGEST_SIZE = 16_384  # angles: the one (2N, 2N) array is then 8.6 GB
_LEAST_CELLS = 16
_SPHERICAL = 500  # angles up to which the whole spectrum of the coupling is found


def from_law(law: Any) -> Problem:
    """Λ₀ = λI - C with the coupling C of an mGvM, its a and b as sites, and ½Dλ put back into log Z.

    On the torus λ|x_d|² = λ is a constant, which the Gaussian sites can take up exactly: no fixed point depends on λ.
    It only sets where the sweeps start. The spherical model is at home there: with its λ the Gaussian N(0, Λ₀⁻¹) has
    E|x_d|² = 1 on average. (On chains it took 15 to 160 sweeps, a tenth fewer than λ just above the spectrum.) The
    spectrum it needs costs more than the sweeps for many angles, which start just above its largest value.
    """
    parameters = natural(law)
    size = parameters.dimension
    _check_size(size)
    coupling = dense_coupling(parameters).reshape(size, 2, size, 2).transpose(1, 0, 3, 2).reshape(2 * size, 2 * size)
    shift = _spherical_shift(coupling) if size <= _SPHERICAL else _lanczos_shift(coupling)
    precision = np.asfortranarray(-coupling)
    precision[np.diag_indices(2 * size)] += shift
    eta = np.concatenate([parameters.a[None, :], parameters.b]).T
    _check_concentration(eta)
    return Problem(precision, np.zeros((size, 2)), HarmonicSites(np.array(eta)), 0.5 * size * shift, shift)


def _spherical_shift(coupling: FloatArray) -> float:
    """The λ above the spectrum of C with (1/D) Σ_i 1/(λ - c_i) = 1, by bisection on a bracket that always holds it."""
    spectrum = linalg.eigvalsh(coupling)
    size, top = spectrum.size // 2, float(spectrum[-1])
    low, high = 0.5 / size, 2.5
    for _ in range(60):
        middle = 0.5 * (low + high)
        if (1.0 / (top - spectrum + middle)).sum() > size:
            low = middle
        else:
            high = middle
    return top + high


def _lanczos_shift(coupling: FloatArray) -> float:
    """A little above the largest value of the spectrum, or above Gershgorin's bound where Lanczos fails."""
    try:
        top = eigsh(coupling, k=1, which="LA", tol=1e-2, v0=np.ones(coupling.shape[0]), return_eigenvectors=False)[0]
    except ArpackError:
        return float(np.abs(coupling).sum(axis=1).max()) + 1.0
    return 1.05 * float(top) + 0.5


def from_covariance(
    covariance: ArrayLike,
    sites: ArrayLike | None,
    log_likelihood: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    radial_spread: float = 0.0,
) -> Problem:
    """N(mean, covariance) in the plane of every angle, and the sites."""
    likelihoods = _sites(sites, log_likelihood)
    factors: Sites = SoftSites(likelihoods, radial_spread) if radial_spread > 0.0 else likelihoods
    size = factors.size
    matrix = _checked_covariance(covariance, size)
    factor = lapack.dpotrf(matrix, lower=1, clean=1)[0]
    logs = float(np.log(np.diagonal(factor)).sum())
    # Cleaned, the factor leaves zeros above the diagonal of the inverse.
    half = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    precision = np.asfortranarray(half + np.tril(half, -1).T)
    copies = 2 if matrix.shape[0] == size else 1
    constant = -size * np.log(2.0 * np.pi) - copies * logs
    linear = np.zeros((size, 2))
    if mean is not None:
        centre = _checked_mean(mean, size)
        linear = np.concatenate([precision @ part for part in np.split(centre, copies)]).reshape(2, size).T
        constant -= 0.5 * float(centre @ linear.T.ravel())
    return Problem(precision, np.ascontiguousarray(linear), factors, constant)


def _sites(sites: ArrayLike | None, log_likelihood: ArrayLike | None) -> HarmonicSites | GridSites:
    """The sites, given in one of two ways."""
    if (sites is None) == (log_likelihood is None):
        given = "neither" if sites is None else "both"
        raise ValueError(
            f"give either sites (natural parameters) or log_likelihood (values on a grid), got {given}; "
            "for the circle constraint alone give sites=np.zeros((N, 1), complex)"
        )
    return HarmonicSites(_harmonics(sites)) if log_likelihood is None else GridSites(_values(log_likelihood))


def _harmonics(sites: Any) -> ComplexArray:
    array = np.asarray(sites)
    if array.dtype.kind in "fiub" and array.size:
        raise TypeError(
            f"sites must be complex natural parameters of shape (N, T), got real numbers of shape {array.shape}; "
            "pass values on a grid as log_likelihood=, or write sites.astype(complex) if they are natural parameters"
        )
    eta = check.finite_complex(sites, "sites")
    if eta.ndim != 2 or 0 in eta.shape:
        raise ValueError(
            f"sites must have shape (N, T) with N >= 1 angles and T >= 1 harmonics, got {eta.shape}; "
            "write sites[:, None] for one harmonic an angle"
        )
    _check_concentration(eta)
    _check_size(eta.shape[0])
    return np.array(eta)


def _check_concentration(eta: ComplexArray) -> None:
    """Leave room for the cavity below the largest concentration a law on the circle may have."""
    squares = np.arange(1, eta.shape[1] + 1) ** 2
    total = (squares * np.abs(eta)).sum(axis=1)
    check.at_most(total, 0.1 * LARGEST_CONCENTRATION, "the total concentration Σ t²|η_t| of a site")


def _values(log_likelihood: Any) -> FloatArray:
    values = check.real(log_likelihood, "log_likelihood")
    if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] < _LEAST_CELLS:
        raise ValueError(
            f"log_likelihood must have shape (N, n) with N >= 1 angles and n >= {_LEAST_CELLS} grid points, "
            f"got {values.shape}"
        )
    bad = np.isnan(values) | np.isposinf(values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"log_likelihood must be finite or -inf (impossible), got {values[row, column]} at index ({row}, {column})"
        )
    empty = np.isneginf(values).all(axis=1)
    if empty.any():
        raise ValueError(
            f"log_likelihood is -inf everywhere in row {int(np.argmax(empty))}; no angle is possible there"
        )
    _check_size(values.shape[0])
    return np.array(values)


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError("the law has no angles; expectation propagation needs at least one")
    if size > LARGEST_SIZE:
        raise ValueError(
            f"expectation propagation holds a dense (2N, 2N) array, {32e-9 * size * size:.3g} GB for N = {size} "
            f"angles, and takes at most N = {LARGEST_SIZE}; merge angles that share an input, or use mean_field, or "
            "exact_chain where the couplings form a chain"
        )


def _checked_covariance(covariance: ArrayLike, size: int) -> FloatArray:
    matrix = check.finite(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] not in (size, 2 * size):
        raise ValueError(
            f"covariance must have shape ({size}, {size}), one kernel for cos and for sin, or "
            f"({2 * size}, {2 * size}), cos first, for {size} sites; got {matrix.shape}"
        )
    return np.asfortranarray(check.covariance(matrix, matrix.shape[0], "covariance"))


def _checked_mean(mean: ArrayLike, size: int) -> FloatArray:
    centre = check.finite(mean, "mean")
    if centre.shape != (2 * size,):
        raise ValueError(f"mean must have shape ({2 * size},), cos first and then sin, got {centre.shape}")
    return centre
