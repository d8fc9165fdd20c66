"""The E-step of circular PCA: the posterior of a row's angles is a mixture of densities exp(hᵀv - ½vᵀGv).

v = (cos φ, sin φ). With W = [A B c], G = W_vᵀW_v/σ² plus the prior's, and h = W_vᵀ(y - c)/σ² plus the prior's; of rows
with missing entries only the rows of W that were seen count, so that rows with the same entries missing share G.

An engine gives the normaliser and the moments of such densities: `Quadrature` around the modes, exact where the angles
are independent or there is one; `MeanField` for many angles; `Gibbs` sampling.

Components of a joint prior that are narrow need no engine. Under such a component v has the mean m and the covariance
C, from the moments of von Mises distributions; it is all but Gaussian, and then so is its posterior:

    log Z = hᵀm - ½mᵀGm + ½(h - Gm)ᵀK(h - Gm) - ½ log|I + CG|,  K = (I + CG)⁻¹C,
    v ~ N(m + K(h - Gm), K).

log Z is a quadratic function of h: for all rows and components it takes two products of matrices, and hundreds of
components cost less than one density by quadrature. A circle bends by 1/2κ over the width κ^-½ of a component, with a
standard deviation of 1/κ√2; where that moves the data by less than their noise, G <= κ², Gaussian is what they see.

The M-step needs of the rows only sums of fixed size (`Statistics`), which add up over chunks and machines.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ive

from mgvm._grids import log_sum_exp
from mgvm._numerics.gvm import gvm_facts, gvm_sample
from mgvm._numerics.torus_quadrature import mixture_moments, quadrature
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference import ConvergenceWarning, mean_field
from mgvm.learning.rows import group_by_missing
from mgvm.natural.forms import precision_to_natural
from mgvm.natural.parameters import Natural
from mgvm.pca.priors import Prior, log_shares, take_components
from mgvm.torus.mgvm import MGvM

# ---- the model, and the densities it makes of rows ------------------------------------------------------------------


class Parameters(NamedTuple):
    """y = W(v, 1) + noise: W = [A B c] (M, 2D + 1), the variance of the noise, and the prior of the angles.

    Where W is known only in distribution, `spread` (M, 2D + 1, 2D + 1) has the covariances of its rows.
    """

    weights: FloatArray
    noise_variance: float
    prior: Prior
    spread: FloatArray | None = None

    @property
    def size(self) -> int:
        """D."""
        return (self.weights.shape[1] - 1) // 2

    def at(self, angles: FloatArray) -> FloatArray:
        """y without noise at angles (n, D)."""
        return self.mean_at(np.concatenate([np.cos(angles), np.sin(angles)], axis=1))

    def mean_at(self, waves: FloatArray) -> FloatArray:
        """y without noise at E[v] (n, 2D)."""
        return np.asarray(waves @ self.weights[:, :-1].T + self.weights[:, -1])


class QuadraticForms(NamedTuple):
    """n densities exp(hᵀv - ½vᵀGv) of angles, not normalised, that share G."""

    linear: FloatArray  # (n, 2D)
    coupling: FloatArray  # (2D, 2D)

    def natural(self) -> Natural:
        """Natural parameters, a batch of mGvM."""
        G = 0.5 * (self.coupling + self.coupling.T)
        return Natural(as_complex(self.linear), *precision_to_natural(G, self.linear.shape[1] // 2))

    @property
    def constant(self) -> float:
        """What the log density of those parameters lacks: -½vᵀGv has -¼ tr G."""
        return -0.25 * float(np.trace(self.coupling))


class FormMoments(NamedTuple):
    """Of every density: log normaliser, highest mode, E[v] and the lower triangle of E[vvᵀ]."""

    log_normalizer: FloatArray
    mode: FloatArray
    mean: FloatArray
    second: FloatArray


# Of densities and E[e^{iφ}] (n, D) to begin with, NaN for none.
Engine = Callable[[QuadraticForms, ComplexArray], FormMoments]


def likelihood(Y: FloatArray, parameters: Parameters, seen: np.ndarray) -> tuple[FloatArray, QuadraticForms]:
    """log p(y | φ) = base + hᵀv - ½vᵀGv of rows whose entries `seen` are all there."""
    weights, precision = parameters.weights[seen], 1.0 / parameters.noise_variance
    loadings, centred = weights[:, :-1], Y - weights[:, -1]
    coupling = precision * loadings.T @ loadings
    linear = precision * centred @ loadings
    base = -0.5 * precision * np.einsum("nm,nm->n", centred, centred)
    if parameters.spread is not None:
        # E over W adds the covariances of the rows of W that were seen.
        extra = precision * parameters.spread[seen].sum(axis=0)
        coupling = coupling + extra[:-1, :-1]
        linear = linear - extra[-1, :-1]
        base = base - 0.5 * extra[-1, -1]
    base -= 0.5 * seen.size * np.log(2.0 * np.pi * parameters.noise_variance)
    return base, QuadraticForms(np.ascontiguousarray(linear), np.ascontiguousarray(coupling))


# ---- engines --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def gauss_hermite(size: int, count: int) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Nodes of D angles with `count` of each, the weights `quadrature` asks for, and the floor of its pivots."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    points = np.array(list(itertools.product(z, repeat=size))).T
    logs = np.array(list(itertools.product(np.log(w / np.sqrt(2.0 * np.pi)), repeat=size))).sum(axis=1)
    weights = logs + 0.5 * (points**2).sum(axis=0) + 0.5 * size * np.log(2.0 * np.pi)
    # The widest nodes are spread evenly over a turn; a single node, Laplace's, is given the width of three.
    widest = np.pi * (1.0 - 1.0 / count) / z[-1] if count > 1 else 2.0 * np.pi / 27.0**0.5
    return (np.ascontiguousarray(points), weights), float(widest**-2)


@lru_cache(maxsize=16)
def offsets(size: int) -> FloatArray:
    """Where other modes are looked for: half turns of single angles, all but, and some others."""
    rng = np.random.default_rng(0)
    return np.concatenate([3.0 * np.eye(size), rng.uniform(-np.pi, np.pi, (2 * size, size))])


def integrate_around_modes(forms: QuadraticForms, start: ComplexArray, count: int) -> FormMoments:
    """Quadrature with `count` nodes an angle around the modes that count; one is Laplace's approximation."""
    size = forms.linear.shape[1] // 2
    rule, floor = gauss_hermite(size, count)
    # A cold start solves Gv = h; the ridge, a thousandth of the mean diagonal of G, is against columns alike.
    ridge = forms.coupling + (1e-3 * np.trace(forms.coupling) / (2 * size) + 1e-12) * np.eye(2 * size)
    starts = np.linalg.inv(ridge), np.angle(start), offsets(size)
    return FormMoments(*quadrature(forms.linear, forms.coupling, starts, rule, floor))


def integrate_separately(forms: QuadraticForms, start: ComplexArray) -> FormMoments:
    """Angles without coupling, or a single one: a GvM distribution each, exact."""
    batch = forms.natural()
    facts = gvm_facts(batch.with_harmonics(batch.a).reshape(-1, 2), 2)
    first, second = (facts.moments[:, k].reshape(batch.a.shape) for k in (0, 1))
    value = facts.log_normalizer.reshape(batch.a.shape).sum(axis=1) + forms.constant
    return independent_moments(value, integrate_around_modes(forms, start, 1).mode, first, second)


def stack_waves(first: ComplexArray) -> FloatArray:
    """E[v] from E[z]."""
    return np.concatenate([first.real, first.imag], axis=1)


def as_complex(waves: FloatArray) -> ComplexArray:
    """E[z] (..., D) from E[v] (..., 2D), or h_c + i h_s from h."""
    size = waves.shape[-1] // 2
    return np.asarray(waves[..., :size] + 1j * waves[..., size:])


def second_moments(first: ComplexArray, second: ComplexArray) -> FloatArray:
    """E[vvᵀ] of independent angles from E[z] and E[z²]."""
    size = first.shape[1]
    mean = stack_waves(first)
    both = mean[:, :, None] * mean[:, None, :]
    own = np.arange(size)
    both[:, own, own], both[:, size + own, size + own] = 0.5 + 0.5 * second.real, 0.5 - 0.5 * second.real
    both[:, own, size + own] = both[:, size + own, own] = 0.5 * second.imag
    return both


def independent_moments(
    log_normalizer: FloatArray, mode: FloatArray, first: ComplexArray, second: ComplexArray
) -> FormMoments:
    """Of densities whose angles are independent, with E[z] and E[z²]."""
    lower = np.tril_indices(2 * first.shape[1])
    products = np.ascontiguousarray(second_moments(first, second)[:, lower[0], lower[1]])
    return FormMoments(log_normalizer, mode, stack_waves(first), products)


@dataclass(frozen=True)
class Quadrature:
    """`count` nodes an angle around the modes that count; exact for one angle and without coupling."""

    count: int = 3

    def __call__(self, forms: QuadraticForms, start: ComplexArray) -> FormMoments:
        """Normaliser and moments of every density."""
        if forms.linear.shape[1] == 2 or not forms.coupling.any():
            return integrate_separately(forms, start)
        return integrate_around_modes(forms, start, self.count)


@dataclass(frozen=True)
class MeanField:
    """A product of GvM or von Mises factors around the mode; its bound stands for the log normaliser.

    Without `search` the product begins with the moments it is given, where there are some, and goes on for `sweeps` at
    most; the directions of the moments stand for the mode. A step of EM moves a posterior by little, and both steps
    raise one bound, converged or not.
    """

    factors: str
    search: bool = True
    sweeps: int = 4

    def __call__(self, forms: QuadraticForms, start: ComplexArray) -> FormMoments:
        """Normaliser and moments of every density."""
        batch = MGvM(*forms.natural())
        if self.search or np.isnan(start).any():
            start = np.exp(1j * integrate_around_modes(forms, start, 1).mode)
            factors = mean_field(batch, self.factors, start=start)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                factors = mean_field(batch, self.factors, start=start, tolerance=1e-5, max_sweeps=self.sweeps)
        first, second = (np.asarray(factors.marginals.moment(k)) for k in (1, 2))
        value = np.asarray(factors.free_energy) + forms.constant
        return independent_moments(value, np.angle(start), first, second)


@dataclass(frozen=True)
class Gibbs:
    """Means over so many sweeps from the mode, the first fifth left out; Laplace's log normaliser.

    A sweep draws every angle of every row from its conditional, a GvM of order 2. Every call draws the same numbers: EM
    then climbs a fixed function, and converges.
    """

    sweeps: int
    seed: int

    def __call__(self, forms: QuadraticForms, start: ComplexArray) -> FormMoments:
        """Normaliser and moments of every density."""
        rng, batch = np.random.default_rng(self.seed), forms.natural()
        at_mode = integrate_around_modes(forms, start, 1)
        z, skipped = np.exp(1j * at_mode.mode), self.sweeps // 5
        lower = np.tril_indices(forms.linear.shape[1])
        mean, second = np.zeros_like(at_mode.mean), np.zeros_like(at_mode.second)
        for sweep in range(self.sweeps):
            for d in range(z.shape[1]):
                field = batch.a[:, d] + z @ batch.P[d] + z.conj() @ batch.Q[d]
                eta = np.stack([field, np.full(len(z), batch.b[0, d])], axis=1)
                z[:, d] = np.exp(1j * gvm_sample(eta, 1, rng)[0])
            if sweep >= skipped:
                v = stack_waves(z)
                mean += v
                second += v[:, lower[0]] * v[:, lower[1]]
        count = self.sweeps - skipped
        return FormMoments(at_mode.log_normalizer, at_mode.mode, mean / count, second / count)


# ---- narrow components in closed form -------------------------------------------------------------------------------


class GaussianPosteriors(NamedTuple):
    """log Z but for a number of each row (n, K), weights included; posterior means a + Kh, a (K, 2D), K (K, 2D, 2D)."""

    log_weights: FloatArray
    offset: FloatArray
    gain: FloatArray

    def moments(self, linear: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """E[v] and the lower triangle of E[vvᵀ], weighed with shares (n, K), and Σ share E[e^{iφ}] of components."""
        twice = linear.shape[1]
        mean, second = np.zeros((len(linear), twice)), np.zeros((len(linear), twice * (twice + 1) // 2))
        mixture_moments(np.ascontiguousarray(shares), linear, self.offset, self.gain, mean, second)
        return mean, second, self.sums(linear, shares)

    def sums(self, linear: FloatArray, shares: FloatArray) -> ComplexArray:
        """Σ share E[e^{iφ}] over the rows, (K, D)."""
        out = shares.sum(axis=0)[:, None] * self.offset + np.einsum("kpq,kq->kp", self.gain, shares.T @ linear)
        return as_complex(out)


def is_gaussian(prior: Prior, coupling: FloatArray) -> np.ndarray:
    """Which components are narrow enough to be Gaussian, (K,): those of a kernel were made so."""
    least = np.abs(prior.resultants).min(axis=1)
    return np.asarray(least > 0.0 if prior.kernel else least >= gaussian_concentration(coupling))


def gaussian_concentration(coupling: FloatArray) -> float:
    """The concentration from which on a component is Gaussian for data with this G: √λ_max(G), 20 at least."""
    return max(20.0, float(np.sqrt(max(np.linalg.eigvalsh(coupling)[-1], 0.0))))


def component_moments(prior: Prior) -> tuple[FloatArray, FloatArray]:
    """m (K, 2D) and C (K, 2D, 2D) of all components."""
    eta = prior.resultants
    kappa, direction = np.abs(eta), np.exp(1j * np.angle(eta))
    first, second = (ive(k, kappa) / ive(0, kappa) * direction**k for k in (1, 2))
    mean = stack_waves(first)
    return mean, second_moments(first, second) - mean[:, :, None] * mean[:, None, :]


def gaussian_posteriors(linear: FloatArray, coupling: FloatArray, prior: Prior) -> GaussianPosteriors:
    """Posterior distributions of n rows h (n, 2D) that share G under every component."""
    mean, covariance = component_moments(prior)
    mixed = np.eye(len(coupling)) + covariance @ coupling
    gain = np.linalg.solve(mixed, covariance)
    coupled = mean @ coupling
    slope = mean - np.einsum("kpq,kq->kp", gain, coupled)
    constant = -0.5 * np.einsum("kp,kp->k", coupled, slope) - 0.5 * np.linalg.slogdet(mixed)[1]
    # hᵀKh from the lower triangle of hhᵀ, what is off the diagonal counted twice.
    lower = np.tril_indices(len(coupling))
    squares = linear[:, lower[0]] * linear[:, lower[1]]
    quadratic = gain[:, lower[0], lower[1]] * np.where(lower[0] == lower[1], 0.5, 1.0)
    logs = squares @ quadratic.T + linear @ slope.T + (constant + log_shares(prior))
    return GaussianPosteriors(logs, np.ascontiguousarray(slope), np.ascontiguousarray(gain))


# ---- all rows -------------------------------------------------------------------------------------------------------


class RowMoments(NamedTuple):
    """Of every row, its posterior a mixture of K distributions."""

    log_likelihood: FloatArray  # (n,)
    mode: FloatArray  # (n, D)
    mean: FloatArray  # (n, 2D), E[v]
    second: FloatArray  # (n, D(2D + 1)), E[vvᵀ]
    shares: FloatArray  # (n, K)
    sums: ComplexArray  # (K, D), Σ share E[e^{iφ}] over the rows


def expectation(Y: FloatArray, parameters: Parameters, engine: Engine, start: ComplexArray) -> RowMoments:
    """Posterior moments of all rows of Y (n, M), NaN where an entry is missing; `start` (n, D) as the engine has it."""
    count, size = len(Y), parameters.size
    components = len(parameters.prior.linear)
    out = RowMoments(
        np.empty(count),
        np.empty((count, size)),
        np.empty((count, 2 * size)),
        np.empty((count, size * (2 * size + 1))),
        np.empty((count, components)),
        np.zeros((components, size), dtype=complex),
    )
    for rows, _, seen in group_by_missing(Y):
        # Four million pairs of row and component at once: 32 MB an array.
        for block in np.array_split(rows, 1 + rows.size * components // 4_000_000):
            base, forms = likelihood(Y[block][:, seen], parameters, seen)
            found = _posterior_moments(forms, parameters.prior, engine, start[block])
            out.log_likelihood[block] = base + found.log_likelihood
            out.mode[block], out.mean[block], out.second[block] = found.mode, found.mean, found.second
            out.shares[block] = found.shares
            out.sums[:] += found.sums
    return out


def _posterior_moments(forms: QuadraticForms, prior: Prior, engine: Engine, start: ComplexArray) -> RowMoments:
    """Every component of the prior makes a density of a row, weighed by its normaliser."""
    size, count = prior.size, len(forms.linear)
    coupling = forms.coupling + prior.coupling
    # Of many components, those that are narrow need no integral.
    closed = np.flatnonzero(is_gaussian(prior, coupling)) if len(prior.linear) > 1 else np.arange(0)
    wide = np.setdiff1d(np.arange(len(prior.linear)), closed)
    integrals = [engine(QuadraticForms(forms.linear + linear, coupling), start) for linear in prior.linear[wide]]
    gaussian = gaussian_posteriors(forms.linear, coupling, take_components(prior, closed))
    logs = np.empty((count, len(prior.linear)))
    logs[:, closed] = gaussian.log_weights
    for k, part in zip(wide, integrals, strict=True):
        logs[:, k] = prior.log_weights[k] + part.log_normalizer
    total = log_sum_exp(logs, axis=1)
    shares = np.exp(logs - total[:, None])
    sums, mode = np.empty((len(prior.linear), size), dtype=complex), np.empty((count, size))
    best = np.argmax(shares, axis=1)
    mean, second, sums[closed] = gaussian.moments(forms.linear, shares[:, closed])
    for place, k in enumerate(closed):
        mine = best == k
        mode[mine] = np.angle(as_complex(gaussian.offset[place] + forms.linear[mine] @ gaussian.gain[place].T))
    for k, part in zip(wide, integrals, strict=True):
        mode[best == k] = part.mode[best == k]
        mean += shares[:, k, None] * part.mean
        second += shares[:, k, None] * part.second
        sums[k] = as_complex(shares[:, k] @ part.mean)
    return RowMoments(total, mode, mean, second, shares, sums)


@dataclass(frozen=True)
class Statistics:
    """Sums over rows, of w = (v, 1) for every column of the data: over the rows in which it was seen.

    Attributes
    ----------
    second : (M, 2D + 1, 2D + 1)
        Σ E[wwᵀ].
    cross : (M, 2D + 1)
        Σ y E[w].
    squares, counts : (M,)
        Σ y² and the number of rows.
    shares : (K,)
        Rows of every component of the prior.
    sums : (K, D)
        Σ share E[e^{iφ}].
    log_likelihood : float
        Of all rows.
    rows : float
        Their number.
    """

    second: FloatArray
    cross: FloatArray
    squares: FloatArray
    counts: FloatArray
    shares: FloatArray
    sums: ComplexArray
    log_likelihood: float
    rows: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def sum_statistics(Y: FloatArray, moments: RowMoments) -> Statistics:
    """The sums of a chunk of rows, from its posterior moments."""
    seen = ~np.isnan(Y)
    complete = bool(seen.all())
    values = Y if complete else np.where(seen, Y, 0.0)
    means = np.concatenate([moments.mean, np.ones((len(Y), 1))], axis=1)
    columns = 1 if complete else Y.shape[1]
    # Complete rows have the same sums for all columns.
    which = np.ones((1, len(Y))) if complete else seen.T.astype(float)
    second = np.empty((columns, means.shape[1], means.shape[1]))
    lower = np.tril_indices(moments.mean.shape[1])
    second[:, lower[0], lower[1]] = second[:, lower[1], lower[0]] = which @ moments.second
    second[:, -1] = second[:, :, -1] = which @ means
    return Statistics(
        np.broadcast_to(second, (Y.shape[1], *second.shape[1:])),
        values.T @ means,
        np.einsum("nm,nm->m", values, values),
        seen.sum(axis=0).astype(float),
        moments.shares.sum(axis=0),
        moments.sums,
        float(moments.log_likelihood.sum()),
        float(len(Y)),
    )
