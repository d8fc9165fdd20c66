"""Maximum likelihood for the GvM distribution: match the first T trigonometric moments.

With data moments m̂_t the log likelihood per angle is ℓ(η) = Re Σ conj(η_t) m̂_t - log Z(η): concave, its gradient the
difference of moments, its Hessian minus the covariance of (cos tφ, sin tφ), which the moments 1..2T give.

The harmonics of narrow data agree in all but their last digits: at a spread of h radians the least certain direction of
order T has a variance of about h^4T, which drowns in rounding below h of 0.01 (order 2), 0.05 (order 3), 0.1 (order 4).
Such data are handed to `_gvm_narrow_fit`.

Maximum likelihood for the GvM distribution of narrow data: Newton's method in a basis that fits their spread.

The harmonics of narrow data agree in all but their last digits. About the mean direction, with h the spread of the data
and u = (2/h) sin(φ/2), the same trigonometric polynomials are spanned by u², u⁴, ..., u^2T and (sin φ / h) (1, u², ...,
u^(2T-2)): functions of order one wherever the data are. Gradient and curvature of the log likelihood are a difference
of means and a covariance of these functions, by quadrature.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle import base
from mgvm.circle.base import Sample
from mgvm.circle.exponential_family import LARGEST_CONCENTRATION, concentration, total_concentration

_EPS = float(np.finfo(float).eps)
_UNCERTAIN = 1e-3  # nats
_LARGEST_NARROW_FIT = (
    0.99 * LARGEST_CONCENTRATION
)  # total concentration that a step may reach: distributions hold no more
_MAX_TRIALS = 200
_SMALLEST_SHARE = 1e-7  # of a step
_MOST_PANELS = 300  # to be halved at once: more only where the polynomial's terms cancel to nothing but rounding
_VARIATION = 6.0  # of f on a panel: a 20-point rule then errs by 6^40/40!
_DEPTH = 100.0  # below the peak, in nats: what lies deeper does not matter
_WALL = 1e-4  # price of changing the depth of the far side by itself, in units of the gain in sight
_CONFINING = 0.01  # nats that a start gives away for a low far side
_LOST = 1e-12  # of the largest: a spread of the (scaled) basis below this is rounding
_QUADRATIC_NARROW_FIT = 1e-8  # gain in log likelihood per angle below which whole Newton steps square the error
_ROUNDING_NARROW_FIT = 1e-22  # gain of a step that only rounding makes


class Fitted(NamedTuple):
    """Natural parameters about the data's mean direction, log likelihood per angle, and whether it is the maximum."""

    eta: ComplexArray
    height: float
    converged: bool


class Basis(NamedTuple):
    """u^2j and (sin φ / h) u^(2j-2) for j = 1..T, with u = (2/h) sin(φ/2)."""

    order: int
    spread: float

    def values(self, x: FloatArray) -> FloatArray:
        """The functions at angles x, shape (2T, n)."""
        u = 2.0 / self.spread * np.sin(0.5 * x)
        even = np.cumprod(np.broadcast_to(u * u, (self.order, x.size)), axis=0)
        odd = np.concatenate([np.ones((1, x.size)), even[:-1]]) * np.sin(x) / self.spread
        return np.concatenate([even, odd])

    def natural(self, coefficients: FloatArray) -> ComplexArray:
        """η of the trigonometric polynomial with these coefficients, but for its constant."""
        # In powers of z = e^{iφ}: u² = (2 - z - 1/z) / h².
        square = np.array([-1.0, 2.0, -1.0]) / self.spread**2
        eta = np.zeros(self.order, dtype=complex)
        power = np.ones(1)  # of u^(2j-2): coefficients of z^(1-j) .. z^(j-1)
        for j in range(1, self.order + 1):
            sine = np.convolve(power, [-0.5, 0.0, 0.5]) / self.spread  # of i sin φ u^(2j-2) / h
            power = np.convolve(power, square)
            even, odd = coefficients[j - 1], coefficients[self.order + j - 1]
            eta[:j] += 2.0 * (even * power[j + 1 :] + 1j * odd * sine[j + 1 :])
        return eta


class _State(NamedTuple):
    """A distribution on the way: log likelihood per angle, next step and its promised gain, and that of a whole Newton step."""

    coefficients: FloatArray
    eta: ComplexArray
    height: float
    step: FloatArray
    promise: float
    gain: float


def _graded(spread: float) -> FloatArray:
    """Edges over the circle, at multiples of the spread near 0 and at doubling distances from there to ±π."""
    doublings = max(0, int(np.ceil(np.log2(np.pi / spread))))
    side = np.unique(np.minimum(spread * 2.0 ** np.arange(-1, doublings + 1), np.pi))
    return np.concatenate([-side[::-1], [0.0], side])


def _quadrature(basis: Basis, coefficients: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Nodes and weights that integrate e^f, f the polynomial, to rounding: panels halved until f varies little."""
    edges = _graded(basis.spread)
    panels, kept, best = np.stack([edges[:-1], edges[1:]], axis=-1), [], -np.inf
    while panels.size:
        if len(panels) > _MOST_PANELS:
            return None
        nodes, _ = base.flat_nodes_and_weights(panels)
        value = (coefficients @ basis.values(nodes.ravel())).reshape(nodes.shape)
        high, varies = value.max(axis=-1), np.ptp(value, axis=-1)
        best = max(best, float(high.max()))
        matters = high + 0.1 * varies > best - _DEPTH  # a polynomial rises little between so many nodes
        kept.append(panels[matters & (varies <= _VARIATION)])
        wide = panels[matters & (varies > _VARIATION)]
        middle = wide.mean(axis=-1)
        panels = np.concatenate([np.stack([wide[:, 0], middle], -1), np.stack([middle, wide[:, 1]], -1)])
    nodes, weights = base.flat_nodes_and_weights(np.concatenate(kept))
    return nodes.ravel(), weights.ravel()


def _evaluate(basis: Basis, target: FloatArray, coefficients: FloatArray) -> _State | None:
    """All that Newton's method asks of a distribution; None where it is beyond what doubles can hold."""
    eta = basis.natural(coefficients)
    rule = _quadrature(basis, coefficients) if total_concentration(eta) <= _LARGEST_NARROW_FIT else None
    if rule is None:
        return None
    nodes, weights = rule
    values = basis.values(nodes)
    exponent = coefficients @ values
    top = int(exponent.argmax())
    mass = weights * np.exp(exponent - exponent[top])
    height = float(coefficients @ target - exponent[top] - np.log(mass.sum()))
    mass /= mass.sum()
    mean = values @ mass
    gradient, scatter = target - mean, (values - mean[:, None]) * np.sqrt(mass)
    step = _newton_step_narrow_fit(gradient, scatter)
    gain = 0.5 * float(gradient @ step)
    fall = basis.values(base.flat_nodes_and_weights(_graded(basis.spread))[0]) - values[:, [top]]
    depth = np.maximum(-(coefficients @ fall), 1.0)
    if (step @ fall > depth).any():
        # Far from the data the density would rise above its peak; its mass there, too small to be seen, does not tell.
        # As in interior point methods, steps that change a depth by much more than itself are made dear.
        step = _newton_step_narrow_fit(
            gradient, np.concatenate([scatter, np.sqrt(_WALL * gain) * fall / depth], axis=1)
        )
    return _State(coefficients, eta, height, step, 0.5 * float(gradient @ step), gain)


def _newton_step_narrow_fit(gradient: FloatArray, scatter: FloatArray) -> FloatArray:
    """(scatter scatterᵀ)⁻¹ gradient; directions lost in rounding are left alone."""
    largest = np.abs(scatter).max(axis=1)
    scale = largest * np.sqrt(((scatter / largest[:, None]) ** 2).sum(axis=1))
    axes, size, _ = np.linalg.svd(scatter / scale[:, None], full_matrices=False)
    kept = size > _LOST * size[0]
    along = axes.T @ (gradient / scale)
    return np.asarray(axes @ np.where(kept, along / np.where(kept, size, 1.0) ** 2, 0.0) / scale)


def _climb_narrow_fit(basis: Basis, target: FloatArray, state: _State) -> tuple[_State, bool]:
    """Newton's method with halved steps; also whether it came to the maximum."""
    share = 1.0
    for _ in range(_MAX_TRIALS):
        near = state.gain <= _QUADRATIC_NARROW_FIT
        if state.gain <= _ROUNDING_NARROW_FIT or share < _SMALLEST_SHARE:
            return state, near
        trial = _evaluate(basis, target, state.coefficients + share * state.step)
        if trial is None or not (near or trial.height > state.height + 0.1 * share * state.promise):
            share *= 0.5
        elif near and trial.gain >= 0.25 * state.gain:  # what is left is rounding
            return state, True
        else:
            state, share = trial, 1.0
    return state, False


def _start(basis: Basis, target: FloatArray, coefficients: FloatArray) -> _State:
    """The given distribution with some of the highest power, which keeps the far side low while the distribution takes shape."""
    pushes = (_CONFINING, 1e-3 * _CONFINING, 1e-6 * _CONFINING) if basis.order > 1 else ()
    for push in (*pushes, 0.0):
        pushed = coefficients.copy()
        pushed[basis.order - 1] -= push / target[basis.order - 1]
        state = _evaluate(basis, target, pushed)
        if state is not None:
            return state
    raise AssertionError("a distribution of lower order can be made")


def fits(sample: Sample, highest: int) -> Iterator[Fitted]:
    """Fits of order 1, 2, ..., `highest`, none less likely than the one before.

    The first that does not come to its maximum ends the climb; higher orders repeat it.
    """
    spread = float(np.sqrt(2.0 * sample.deficit))
    # The von Mises distribution of about this spread: κ = R (2 - R²) / (1 - R²) is right to leading order at both ends.
    resultant = max(1.0 - sample.deficit, 0.0)
    kappa = resultant * (2.0 - resultant**2) / (sample.deficit * (1.0 + resultant))
    lower = np.array([-0.5 * kappa * spread**2, 0.0])
    fitted = Fitted(np.empty(0, dtype=complex), -np.inf, True)
    for order in range(1, highest + 1):
        same = Fitted(np.append(fitted.eta, 0.0), fitted.height, False)
        if fitted.converged:
            basis = Basis(order, spread)
            target = basis.values(sample.offset) @ sample.share
            state, converged = _climb_narrow_fit(basis, target, _start(basis, target, lower))
            # Parameters of this size leave the log density uncertain by K·h roundings across the data, and a climb that
            # ends this near to what distributions can hold was ended by that.
            total = float(total_concentration(state.eta))
            converged &= _EPS * total * spread < _UNCERTAIN and total < 0.2 * _LARGEST_NARROW_FIT
            fitted = Fitted(state.eta, state.height, converged) if state.height >= same.height else same
            even, odd = np.split(state.coefficients, 2)
            lower = np.concatenate([even, [0.0], odd, [0.0]])
        else:
            fitted = same
        yield fitted


_MAX_ROUNDS = 100
_MAX_HALVINGS = 40
_QUADRATIC = 1e-9  # gain in log likelihood per angle that a Newton step promises: from here on steps square the error
_CONVERGED = 1e-24
_ROUNDING = 4e-15  # of a covariance, from that of the moments it is made of
_LARGEST = 1e12  # total concentration that a step may reach
_SAME_ANGLE = 1e-14  # radians apart


def _data_moments(sample: Sample, count: int) -> ComplexArray:
    """E[e^{itφ}] of the data for t = 1..count, about their mean direction."""
    unit = np.exp(1j * sample.offset)
    power, out = np.ones_like(unit), np.empty(count, dtype=complex)
    for t in range(count):
        power = power * unit
        out[t] = sample.share @ power
    return out


def _covariance(moments: ComplexArray, order: int) -> FloatArray:
    """Covariance of (cos φ, ..., cos Tφ, sin φ, ..., sin Tφ) from moments 1..2T."""
    full = np.concatenate([[1.0 + 0.0j], moments])
    t = np.arange(1, order + 1)
    total, gap = full[t[:, None] + t], full[np.abs(t[:, None] - t)]
    gap = np.where(t[:, None] >= t, gap, np.conj(gap))
    cos_cos, sin_sin = 0.5 * (gap.real + total.real), 0.5 * (gap.real - total.real)
    cos_sin = 0.5 * (total.imag - gap.imag)
    second = np.block([[cos_cos, cos_sin], [cos_sin.T, sin_sin]])
    first = np.concatenate([full[t].real, full[t].imag])
    return second - np.outer(first, first)


def _newton_step(gradient: FloatArray, covariance: FloatArray) -> tuple[FloatArray, bool]:
    """covariance⁻¹ gradient without the directions lost in rounding, and whether there are any."""
    diagonal = np.maximum(np.diag(covariance), _ROUNDING)
    scale = np.sqrt(diagonal)
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > _ROUNDING / diagonal.min()
    along = axes.T @ (gradient / scale)
    step = axes @ np.where(kept, along / np.where(kept, values, 1.0), 0.0) / scale
    return np.asarray(step), not kept.all()


def _likelihood(target: ComplexArray, eta: ComplexArray) -> tuple[float, ComplexArray]:
    """Log likelihood per angle and moments 1..2T; minus infinity where the distribution is too concentrated to be told apart."""
    if not total_concentration(eta) <= _LARGEST:
        return -np.inf, np.zeros(2 * eta.size, dtype=complex)
    facts = gvm_facts(eta[None], 2 * eta.size)
    return float(np.real(np.conj(eta) @ target) - facts.log_normalizer[0]), facts.moments[0, : 2 * eta.size]


def _climb(target: ComplexArray, eta: ComplexArray) -> Fitted:
    """Newton's method with steps halved until the likelihood rises."""
    order = eta.size
    height, moments = _likelihood(target, eta)
    before = np.inf
    for _ in range(_MAX_ROUNDS):
        gap = target - moments[:order]
        gradient = np.concatenate([gap.real, gap.imag])
        step, lost = _newton_step(gradient, _covariance(moments, order))
        gain = 0.5 * float(gradient @ step)
        direction = step[:order] + 1j * step[order:]
        near = gain <= _QUADRATIC
        if near and (lost or gain <= _CONVERGED or gain >= 0.25 * before):  # what is left is rounding
            return Fitted(eta, height, not lost)
        for halving in range(_MAX_HALVINGS):
            trial = eta + direction * 0.5**halving
            trial_height, trial_moments = _likelihood(target, trial)
            if trial_height > height or (near and trial_height > -np.inf):
                break
        else:  # no step rises any more
            return Fitted(eta, height, False)
        eta, height, moments, before = trial, trial_height, trial_moments, gain
    return Fitted(eta, height, False)


def _fits(sample: Sample, highest: int) -> Iterator[Fitted]:
    """Fits of order 1, 2, ..., `highest`, each climbing from the one before, so that none is less likely."""
    eta = np.array([concentration(sample.deficit) + 0j])
    height, _ = _likelihood(_data_moments(sample, 1), eta)
    fitted = Fitted(eta, height, True)
    yield fitted
    for order in range(2, highest + 1):
        fitted = _climb(_data_moments(sample, order), np.append(fitted.eta, 0.0))
        if not fitted.converged:
            yield from list(fits(sample, highest))[order - 1 :]
            return
        yield fitted


def _distinct(sample: Sample) -> int:
    """Number of different angles; those that agree to rounding, around a turn too, are one."""
    gaps = np.diff(sample.offset, append=sample.offset[0] + 2.0 * np.pi)
    return max(int((gaps > _SAME_ANGLE).sum()), 1)


def _checked(fitted: Fitted, sample: Sample) -> ComplexArray:
    """The parameters turned back to the data, with a warning where they are not the maximum."""
    if not fitted.converged:
        warnings.warn(
            f"the fit of a GvM of order {fitted.eta.size} stopped short of the maximum: the data, with a spread of "
            f"{np.sqrt(2.0 * sample.deficit):.2g} radians, or clumps of them, are too narrow for so many harmonics in "
            "double precision; lower the order",
            RuntimeWarning,
            stacklevel=4,
        )
    return np.asarray(fitted.eta * np.exp(1j * np.arange(1, fitted.eta.size + 1) * sample.centre))


def maximum_likelihood(angles: FloatArray, weights: FloatArray, order: int) -> ComplexArray:
    """Natural parameters of highest likelihood."""
    sample = Sample.of(angles, weights, "a GvM distribution")
    distinct = _distinct(sample)
    if distinct <= order:
        raise ValueError(
            f"a GvM of order {order} needs at least {order + 1} different angles, got {distinct}: its likelihood grows "
            f"without bound; lower the order to {distinct - 1} or give more data"
        )
    *_, fitted = _fits(sample, order)
    return _checked(fitted, sample)


def best_order(angles: FloatArray, weights: FloatArray, criterion: str, highest: int) -> ComplexArray:
    """Natural parameters of the order with the least AIC or BIC; the uniform distribution counts as order 0."""
    sample = Sample.of(angles, weights, "a GvM distribution")
    count = float(weights.sum())
    price = 2.0 if criterion == "aic" else np.log(count)
    best, best_score = Fitted(np.zeros(1, dtype=complex), 0.0, True), 2.0 * count * np.log(2.0 * np.pi)
    for fitted in _fits(sample, min(highest, _distinct(sample) - 1)):
        score = -2.0 * count * fitted.height + price * 2 * fitted.eta.size
        if score < best_score:
            best, best_score = fitted, score
    return _checked(best, sample)
