"""Weighted angles made ready for a fit, and maximum likelihood for the GvM distribution.

The GvM of highest likelihood has the first T trigonometric moments m̂_t of the data. The log likelihood per angle is
ℓ(η) = Re Σ conj(η_t) m̂_t - log Z(η): concave, its gradient the difference of moments, its Hessian minus the covariance
of (cos tφ, sin tφ), which the moments 1..2T give. Newton's method climbs it

* in η itself, for a single distribution;
* for narrow data in a basis of their width. Their harmonics agree in all but their last digits: at a spread of h
  radians the least certain direction of order T has a variance of about h^4T, which drowns in rounding below h of 0.01
  (order 2), 0.05 (order 3), 0.1 (order 4). About the mean direction, with u = (2/h) sin(φ/2), the same trigonometric
  polynomials are spanned by u², u⁴, ..., u^2T and (sin φ / h) (1, u², ..., u^(2T-2)): functions of order one wherever
  the data are. Gradient and curvature are a difference of means and a covariance of these functions, by quadrature;
* from moments alone, with a weak prior, for many distributions at once, each with a step length of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, Self

import numpy as np

from mgvm._newton import climb
from mgvm._numerics.gvm import gvm_facts, gvm_log_densities, gvm_panels, suffix_sums, total_concentration
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle import base
from mgvm.circle.exponential_family import LARGEST_CONCENTRATION, concentration


class Sample(NamedTuple):
    """Angles as offsets from their mean direction, in increasing order, with shares that sum to one; their number."""

    offset: FloatArray
    share: FloatArray
    centre: float
    number: float

    @classmethod
    def of(cls, angles: FloatArray, weights: FloatArray, dist: str) -> Self:
        """Keep the angles of positive weight; refuse those that are all equal."""
        angles, weights = angles[weights > 0], weights[weights > 0]
        share = weights / weights.sum()
        centre = float(np.arctan2(share @ np.sin(angles), share @ np.cos(angles)))
        offset = np.asarray(wrap(angles - centre))
        if np.abs(offset).max() <= 8.0 * np.finfo(float).eps * max(1.0, float(np.abs(angles).max())):
            raise ValueError(
                f"all angles are equal to {float(angles[0]):g}: the likelihood of {dist} grows without bound as it "
                "narrows; give at least two different angles, or make the distribution with a spread of your own"
            )
        order = np.argsort(offset)
        return cls(offset[order], share[order], centre, float(weights.sum()))

    @property
    def deficit(self) -> float:
        """1 - R, one minus the resultant length, as E 2 sin²(d/2): exact for the narrowest data."""
        return 2.0 * float(self.share @ np.sin(0.5 * self.offset) ** 2)

    def coarse(self, groups: int = 2048) -> Self:
        """Centres of mass of groups of neighbours: a small problem whose optimum is nearly that of all angles."""
        if self.offset.size <= 2 * groups:
            return self
        begin = np.linspace(0, self.offset.size, groups, endpoint=False).astype(int)
        share = np.add.reduceat(self.share, begin)
        offset = np.add.reduceat(self.share * self.offset, begin) / share
        return self._replace(offset=offset, share=share)


class GvMFit(NamedTuple):
    """Natural parameters about the data's mean direction, log likelihood per angle, and whether it is the maximum."""

    eta: ComplexArray
    log_likelihood: float
    converged: bool


def maximum_likelihood(angles: FloatArray, weights: FloatArray, order: int) -> ComplexArray:
    """Return the natural parameters of highest likelihood."""
    sample = Sample.of(angles, weights, "a GvM distribution")
    distinct = _count_distinct(sample)
    if distinct <= order:
        raise ValueError(
            f"a GvM of order {order} needs at least {order + 1} different angles, got {distinct}: its likelihood grows "
            f"without bound; lower the order to {distinct - 1} or give more data"
        )
    fits = list(_fits(sample, order))
    chosen = _choose(fits, sample, _bayesian_price(sample))
    if order > chosen.order and _price_of_holes(fits[-1].eta, chosen.fitted.eta, sample) > DEAR:
        warnings.warn(
            f"{_complaint(order, sample)}; lower the order (order='bic' takes {chosen.order}), or give more data",
            RuntimeWarning,
            stacklevel=3,
        )
    return _natural_parameters(fits[-1], sample)


def select_order(angles: FloatArray, weights: FloatArray, criterion: str, highest: int) -> ComplexArray:
    """Return the parameters of the order with the least AIC or BIC; the uniform distribution counts as order 0.

    Holes that an order leaves between the angles count against it, with a warning where they decide.
    """
    sample = Sample.of(angles, weights, "a GvM distribution")
    fits = _fits(sample, min(highest, _count_distinct(sample) - 1))
    chosen = _choose(fits, sample, 2.0 if criterion == "aic" else _bayesian_price(sample))
    if chosen.tempting:
        warnings.warn(
            f"{_complaint(chosen.tempting, sample)}; order {chosen.order} is taken, although {criterion.upper()} is "
            f"least for {chosen.tempting}",
            RuntimeWarning,
            stacklevel=3,
        )
    return _natural_parameters(chosen.fitted, sample)


def _bayesian_price(sample: Sample) -> float:
    """Of a parameter, log N; that of two angles for less, of which any number of parameters would be free."""
    return float(np.log(max(sample.number, 2.0)))


class _Choice(NamedTuple):
    """The best fit, its order, and the order that would be better but for its holes (0: none)."""

    fitted: GvMFit
    order: int
    tempting: int


def _choose(fits: Iterable[GvMFit], sample: Sample, price: float) -> _Choice:
    """Return the fit with the least -2 log likelihood + price · parameters, with one more angle than there are.

    The one more is drawn from the best of lower order: an angle or two decide nothing, but where there is a hole it
    counts. `price` is 2 for Akaike's criterion, the logarithm of the number of angles for the Bayesian one.
    """
    uniform = GvMFit(np.zeros(1, dtype=complex), -float(np.log(2.0 * np.pi)), True)
    chosen, least = _Choice(uniform, 0, 0), -2.0 * sample.number * uniform.log_likelihood
    scores = {}
    for fitted in fits:
        order = fitted.eta.size
        scores[order] = -2.0 * sample.number * fitted.log_likelihood + price * 2 * order
        # A von Mises distribution has no holes, only tails.
        holes = _price_of_holes(fitted.eta, chosen.fitted.eta, sample) if order > 1 else 0.0
        if scores[order] + 2.0 * holes < least:
            chosen, least = _Choice(fitted, order, 0), scores[order] + 2.0 * holes
    best = min(scores, key=scores.__getitem__)
    return chosen._replace(tempting=best if best > chosen.order and scores[best] < least else 0)


def _complaint(order: int, sample: Sample) -> str:
    """Return what is wrong with an order, and with how many angles, rounded to what, that comes."""
    step = _rounding_step(sample)
    rounded = f", rounded to {np.degrees(step):.3g}° ({_count_distinct(sample)} different ones)," if step else ""
    return (
        f"the GvM of order {order} leaves holes between the angles, where new ones would be taken for impossible: "
        f"{sample.offset.size} angles{rounded} are too few for {2 * order} parameters"
    )


# ---- holes ----------------------------------------------------------------------------------------------------------
#
# With many harmonics for few angles, or for angles rounded to few values, the likelihood is highest where the density
# is that of peaks on the data, and e^-1000 between them. What a lower order expects there tells whether the data speak
# for a hole: where q expects μ of n angles, none comes with probability e^-μ, and one of the n gaps is so wide by
# chance with n e^-μ at most. In a hole the width of a rounding step there could be no angle.

DEAR = 1.0  # nats a new angle: holes that cost more are warned of


def _log_densities(eta: ComplexArray, x: FloatArray) -> FloatArray:
    facts = gvm_facts(eta[None])
    suffix = suffix_sums(np.conj(eta[None]), facts.reference)
    return gvm_log_densities(x, np.zeros(x.size, dtype=int), facts.reference, facts.log_reference, suffix)


def _price_of_holes(eta: ComplexArray, lower: ComplexArray, sample: Sample, depth: float = 10.0) -> float:
    """Return what holes in a GvM cost an angle from one of lower order, in nats; those the data speak for are free.

    A hole is an arc on which the density lies `depth` nats and more below that of the lower order.
    """
    _, start = gvm_panels(lower[None])
    nodes, weights = base.nodes_and_weights(np.append(start, np.pi))
    expected = _log_densities(lower, nodes)
    share = weights * np.exp(expected)
    gap = expected - _log_densities(eta, nodes)
    is_deep = gap > depth
    if not is_deep.any() or is_deep.all():
        return 0.0 if not is_deep.any() else np.inf
    turn = -int(np.flatnonzero(~is_deep)[0])  # so that no hole lies across the ends
    nodes, share, gap = (np.roll(column, turn) for column in (nodes, share, gap))
    is_deep = np.roll(is_deep, turn)
    nodes = np.where(np.arange(nodes.size) < nodes.size + turn, nodes, nodes + 2.0 * np.pi)
    begins, ends = (np.flatnonzero(np.diff(is_deep.astype(int), append=0) == sign) for sign in (1, -1))
    margin, count = 0.5 * _rounding_step(sample), sample.number
    price = 0.0
    for begin, end in zip(begins + 1, ends + 1, strict=True):
        hole = slice(begin, end)
        inside = (nodes[hole] > nodes[begin] + margin) & (nodes[hole] < nodes[end - 1] - margin)
        # Wider by chance than the widest gap of n is one in twenty times.
        if count * share[hole][inside].sum() < np.log(20.0 * count):
            price += float(share[hole] @ gap[hole])
    return price


def _rounding_step(sample: Sample) -> float:
    """Return the step of which all differences of the angles are multiples, zero where there is none or no angle twice.

    Angles rounded in degrees are multiples to a hundredth of the step at least.
    """
    gaps = np.diff(sample.offset)
    gaps = gaps[gaps > 1e-9]
    if not gaps.size or gaps.size + 1 >= sample.offset.size:
        return 0.0
    steps = gaps / gaps.min()
    return float(gaps.min()) if np.abs(steps - np.rint(steps)).max() < 0.01 else 0.0


def _count_distinct(sample: Sample) -> int:
    """Return the number of different angles; those within 1e-14 radians, around a turn too, are one."""
    gaps = np.diff(sample.offset, append=sample.offset[0] + 2.0 * np.pi)
    return max(int((gaps > 1e-14).sum()), 1)


def _natural_parameters(fitted: GvMFit, sample: Sample) -> ComplexArray:
    """Return the parameters turned back to the data, with a warning where they are not the maximum."""
    if not fitted.converged:
        warnings.warn(
            f"the fit of a GvM of order {fitted.eta.size} stopped short of the maximum: the data, with a spread of "
            f"{np.sqrt(2.0 * sample.deficit):.2g} radians, or clumps of them, are too narrow for so many harmonics in "
            "double precision; lower the order",
            RuntimeWarning,
            stacklevel=4,
        )
    return np.asarray(fitted.eta * np.exp(1j * np.arange(1, fitted.eta.size + 1) * sample.centre))


def _fits(sample: Sample, highest: int) -> Iterator[GvMFit]:
    """Yield fits of order 1, 2, ..., `highest`, each climbing from the one before, so that none is less likely."""
    start = _NaturalPoint(_data_moments(sample, 1), np.array([concentration(sample.deficit) + 0j]))
    fitted = GvMFit(start.eta, start.value, True)
    yield fitted
    for order in range(2, highest + 1):
        start = _NaturalPoint(_data_moments(sample, order), np.append(fitted.eta, 0.0))
        fitted = _climb_natural(start)
        if not fitted.converged:
            yield from list(_fits_of_narrow_data(sample, highest))[order - 1 :]
            return
        yield fitted


# ---- in the natural parameters --------------------------------------------------------------------------------------


def _data_moments(sample: Sample, count: int) -> ComplexArray:
    """Return E[e^{itφ}] of the data for t = 1..count, about their mean direction."""
    unit = np.exp(1j * sample.offset)
    power, out = np.ones_like(unit), np.empty(count, dtype=complex)
    for t in range(count):
        power = power * unit
        out[t] = sample.share @ power
    return out


@cache
def _differences_and_sums(order: int) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(1, order + 1)
    return t[:, None] - t, t[:, None] + t


def harmonic_moments(moments: ComplexArray) -> tuple[FloatArray, FloatArray]:
    """Return E[u] (n, 2T) and E[uuᵀ] of u = (cos φ, ..., cos Tφ, sin φ, ..., sin Tφ), from moments 1..2T (n, 2T)."""
    order = moments.shape[1] // 2
    less, more = _differences_and_sums(order)
    whole = np.concatenate([np.conj(moments[:, ::-1]), np.ones((len(moments), 1)), moments], axis=1)
    difference, total = whole[:, less + 2 * order], moments[:, more - 1]
    second = np.empty((len(moments), 2 * order, 2 * order))
    # cos a cos b = ½[cos(a - b) + cos(a + b)], sin a sin b = ½[cos(a - b) - cos(a + b)], sin a cos b likewise.
    second[:, :order, :order] = 0.5 * (difference.real + total.real)
    second[:, order:, order:] = 0.5 * (difference.real - total.real)
    second[:, order:, :order] = 0.5 * (difference.imag + total.imag)
    second[:, :order, order:] = np.swapaxes(second[:, order:, :order], 1, 2)
    return np.concatenate([moments[:, :order].real, moments[:, :order].imag], axis=1), second


def _harmonic_covariance(moments: ComplexArray) -> FloatArray:
    """Return Cov[u] (n, 2T, 2T)."""
    mean, second = harmonic_moments(moments)
    return second - mean[:, :, None] * mean[:, None, :]


class _NaturalPoint:
    """A GvM on the way to the maximum; `lost` says that rounding hides the curvature in some directions."""

    def __init__(self, target: ComplexArray, eta: ComplexArray):
        facts = gvm_facts(eta[None], 2 * eta.size)
        self.target, self.eta, self.moments = target, eta, facts.moments[0, : 2 * eta.size]
        self.value = float(np.real(np.conj(eta) @ target) - facts.log_normalizer[0])

    @cached_property
    def _newton(self) -> tuple[ComplexArray, float, bool]:
        """The Newton step without the directions lost in rounding, its gain, and whether there are any."""
        gap = self.target - self.moments[: self.eta.size]
        gradient = np.concatenate([gap.real, gap.imag])
        covariance = _harmonic_covariance(self.moments[None])[0]
        rounding = 4e-15  # of a covariance, from that of the moments it is made of
        diagonal = np.maximum(np.diag(covariance), rounding)
        scale = np.sqrt(diagonal)
        values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
        kept = values > rounding / diagonal.min()
        coordinates = axes.T @ (gradient / scale)
        step = axes @ np.where(kept, coordinates / np.where(kept, values, 1.0), 0.0) / scale
        real, imaginary = np.split(step, 2)
        return real + 1j * imaginary, 0.5 * float(gradient @ step), not kept.all()

    @property
    def gain(self) -> float:
        return self._newton[1]

    promise = gain

    @property
    def lost(self) -> bool:
        return self._newton[2]

    def along(self, share: float) -> Self | None:
        eta = self.eta + self._newton[0] * share
        # At a total concentration of 1e12 nothing is left of the moments' differences.
        return type(self)(self.target, eta) if total_concentration(eta) <= 1e12 else None


def _climb_natural(start: _NaturalPoint) -> GvMFit:
    """Return where Newton's method in the natural parameters ends; converged only where no direction is lost."""
    quadratic = 1e-9
    found = climb(
        start,
        tolerance=1e-24,
        quadratic=quadratic,
        callback=lambda point: point.lost and point.gain <= quadratic,
    )
    return GvMFit(found.point.eta, found.point.value, found.converged and not found.point.lost)


# ---- in a basis for narrow data -------------------------------------------------------------------------------------


class _NarrowBasis(NamedTuple):
    """u^2j and (sin φ / h) u^(2j-2) for j = 1..T, with u = (2/h) sin(φ/2)."""

    order: int
    spread: float

    def values(self, x: FloatArray) -> FloatArray:
        """Return the functions at angles x, shape (2T, n)."""
        u = 2.0 / self.spread * np.sin(0.5 * x)
        even = np.cumprod(np.broadcast_to(u * u, (self.order, x.size)), axis=0)
        odd = np.concatenate([np.ones((1, x.size)), even[:-1]]) * np.sin(x) / self.spread
        return np.concatenate([even, odd])

    def natural(self, coefficients: FloatArray) -> ComplexArray:
        """Return η of the trigonometric polynomial with these coefficients, but for its constant."""
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

    def graded_edges(self) -> FloatArray:
        """Return edges over the circle: multiples of the spread near 0, doubling distances from there to ±π."""
        doublings = max(0, int(np.ceil(np.log2(np.pi / self.spread))))
        side = np.unique(np.minimum(self.spread * 2.0 ** np.arange(-1, doublings + 1), np.pi))
        return np.concatenate([-side[::-1], [0.0], side])

    def quadrature(self, coefficients: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return nodes and weights that integrate e^f, f the polynomial, to rounding; None where none of use do.

        Panels are halved until f varies by at most 6 on each, where a 20-point rule errs by 6^40/40!. More than 300 to
        halve at once there are only where the polynomial's terms cancel to nothing but rounding.
        """
        edges = self.graded_edges()
        panels, kept, best = np.stack([edges[:-1], edges[1:]], axis=-1), [], -np.inf
        while panels.size:
            if len(panels) > 300:
                return None
            nodes, _ = base.nodes_and_weights(panels)
            value = (coefficients @ self.values(nodes.ravel())).reshape(nodes.shape)
            high, varies = value.max(axis=-1), np.ptp(value, axis=-1)
            best = max(best, float(high.max()))
            # What lies 100 nats below the peak does not matter; a polynomial rises little between so many nodes.
            matters = high + 0.1 * varies > best - 100.0
            kept.append(panels[matters & (varies <= 6.0)])
            wide = panels[matters & (varies > 6.0)]
            middle = wide.mean(axis=-1)
            panels = np.concatenate([np.stack([wide[:, 0], middle], -1), np.stack([middle, wide[:, 1]], -1)])
        nodes, weights = base.nodes_and_weights(np.concatenate(kept))
        return nodes.ravel(), weights.ravel()


# Total concentration that a step may reach: distributions hold no more.
_LARGEST_STEP_END = 0.99 * LARGEST_CONCENTRATION


@dataclass(frozen=True)
class _NarrowPoint:
    """A GvM on the way to the maximum, as coefficients in the basis for narrow data."""

    basis: _NarrowBasis
    target: FloatArray
    coefficients: FloatArray
    eta: ComplexArray
    value: float
    gradient: FloatArray
    scatter: FloatArray  # (2T, nodes): its product with its transpose is the covariance of the basis
    peak: FloatArray  # (2T, 1): the basis where the density is highest

    @classmethod
    def make(cls, basis: _NarrowBasis, target: FloatArray, coefficients: FloatArray) -> Self | None:
        """Return the distribution with these coefficients; None where it is beyond what doubles can hold."""
        eta = basis.natural(coefficients)
        rule = basis.quadrature(coefficients) if total_concentration(eta) <= _LARGEST_STEP_END else None
        if rule is None:
            return None
        nodes, weights = rule
        values = basis.values(nodes)
        exponent = coefficients @ values
        top = int(exponent.argmax())
        mass = weights * np.exp(exponent - exponent[top])
        value = float(coefficients @ target - exponent[top] - np.log(mass.sum()))
        mass /= mass.sum()
        mean = values @ mass
        scatter = (values - mean[:, None]) * np.sqrt(mass)
        return cls(basis, target, coefficients, eta, value, target - mean, scatter, values[:, [top]])

    @cached_property
    def _newton(self) -> tuple[FloatArray, float, float]:
        """The step, its promised gain, and that of a whole Newton step."""
        step = _solve_scatter(self.gradient, self.scatter)
        gain = 0.5 * float(self.gradient @ step)
        fall = self.basis.values(base.nodes_and_weights(self.basis.graded_edges())[0]) - self.peak
        depth = np.maximum(-(self.coefficients @ fall), 1.0)
        if (step @ fall > depth).any():
            # Far from the data the density would rise above its peak; its mass there, too small to be seen, does not
            # tell. As in interior point methods, steps that change a depth by much more than itself are made dear: the
            # price of changing it by itself is 1e-4 of the gain in sight.
            walls = np.sqrt(1e-4 * gain) * fall / depth
            step = _solve_scatter(self.gradient, np.concatenate([self.scatter, walls], axis=1))
        return step, 0.5 * float(self.gradient @ step), gain

    @property
    def promise(self) -> float:
        return self._newton[1]

    @property
    def gain(self) -> float:
        return self._newton[2]

    def along(self, share: float) -> Self | None:
        return self.make(self.basis, self.target, self.coefficients + share * self._newton[0])


def _solve_scatter(gradient: FloatArray, scatter: FloatArray) -> FloatArray:
    """Return (scatter scatterᵀ)⁻¹ gradient; directions lost in rounding are left alone."""
    largest = np.abs(scatter).max(axis=1)
    scale = largest * np.sqrt(((scatter / largest[:, None]) ** 2).sum(axis=1))
    axes, size, _ = np.linalg.svd(scatter / scale[:, None], full_matrices=False)
    kept = size > 1e-12 * size[0]
    coordinates = axes.T @ (gradient / scale)
    return np.asarray(axes @ np.where(kept, coordinates / np.where(kept, size, 1.0) ** 2, 0.0) / scale)


def _start_of_narrow_data(basis: _NarrowBasis, target: FloatArray, coefficients: FloatArray) -> _NarrowPoint:
    """Return the given distribution with some of the highest power, which keeps the density low far from the data.

    The power is worth 0.01 nats, or less where doubles cannot hold that much.
    """
    pushes = (1e-2, 1e-5, 1e-8) if basis.order > 1 else ()
    for push in (*pushes, 0.0):
        pushed = coefficients.copy()
        pushed[basis.order - 1] -= push / target[basis.order - 1]
        point = _NarrowPoint.make(basis, target, pushed)
        if point is not None:
            return point
    raise AssertionError("a distribution of lower order can be made")


def _fits_of_narrow_data(sample: Sample, highest: int) -> Iterator[GvMFit]:
    """Yield fits of order 1, 2, ..., `highest`, none less likely than the one before.

    The first that does not come to its maximum ends the climb; higher orders repeat it.
    """
    spread = float(np.sqrt(2.0 * sample.deficit))
    # The von Mises distribution of about this spread: κ = R (2 - R²) / (1 - R²) is right to leading order at both ends.
    resultant = max(1.0 - sample.deficit, 0.0)
    kappa = resultant * (2.0 - resultant**2) / (sample.deficit * (1.0 + resultant))
    lower = np.array([-0.5 * kappa * spread**2, 0.0])
    fitted = GvMFit(np.empty(0, dtype=complex), -np.inf, True)
    for order in range(1, highest + 1):
        same = GvMFit(np.append(fitted.eta, 0.0), fitted.log_likelihood, False)
        if fitted.converged:
            basis = _NarrowBasis(order, spread)
            target = basis.values(sample.offset) @ sample.share
            start = _start_of_narrow_data(basis, target, lower)
            found = climb(start, tolerance=1e-22, quadratic=1e-8, sufficient=0.1, smallest_share=1e-7, max_iter=200)
            # Parameters of this size leave the log density uncertain by K·h roundings across the data, here up to
            # 0.001 nats, and a climb that ends this near to what distributions can hold was ended by that.
            total = float(total_concentration(found.point.eta))
            rounding = float(np.finfo(float).eps) * total * spread
            converged = found.converged and rounding < 1e-3 and total < 0.2 * _LARGEST_STEP_END
            better = found.point.value >= same.log_likelihood
            fitted = GvMFit(found.point.eta, found.point.value, converged) if better else same
            even, odd = np.split(found.point.coefficients, 2)
            lower = np.concatenate([even, [0.0], odd, [0.0]])
        else:
            fitted = same
        yield fitted


# ---- many distributions at once -------------------------------------------------------------------------------------


def fit_moments(
    moments: ComplexArray, count: FloatArray, start: ComplexArray, *, tolerance: float = 1e-16, max_iter: int = 60
) -> ComplexArray:
    """Return the η (n, T) that maximise Re Σ_t conj(η_t) m_t - log Z(η) - Σ_t log(1 + |η_t|²) / 2N.

    Moments (n, T), numbers of observations N (n,) and first guesses (n, T). The penalty is a weak prior on the scale of
    |η|, alike for wide and narrow distributions. A distribution is done when its next step promises less than
    `tolerance` nats an observation.
    """
    # A millionth of the uniform distribution, mixed in, leaves constant angles with a finite distribution.
    target = (1.0 - 1e-6) * moments
    eta = np.array(start, dtype=complex)
    active = np.arange(len(eta))
    for _ in range(max_iter):
        value, slope, curvature = _penalized_likelihood(eta[active], target[active], count[active])
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        busy = 0.5 * (step * slope).sum(axis=1) > tolerance
        if not busy.any():
            break
        active, value, step = active[busy], value[busy], step[busy]
        eta[active], gained = _take_steps(eta[active], step, value, target[active], count[active])
        active = active[gained]
        if not active.size:
            break
    return eta


def _penalized_likelihood(
    eta: ComplexArray, target: ComplexArray, count: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return value, slope and (positive) curvature in the real and imaginary parts of η."""
    order = eta.shape[1]
    facts = gvm_facts(eta, 2 * order)
    moments = facts.moments[:, : 2 * order]
    shrink = 1.0 / (count[:, None] * (1.0 + np.abs(eta) ** 2))
    value = (eta.conj() * target).real.sum(axis=1) - facts.log_normalizer
    value -= 0.5 * np.log1p(np.abs(eta) ** 2).sum(axis=1) / count
    away = target - moments[:, :order] - shrink * eta
    curvature = _harmonic_covariance(moments)
    places = np.arange(2 * order)
    # The penalty's curvature without its negative part, so that the steps ascend.
    curvature[:, places, places] += np.tile(shrink, 2) + 1e-14
    return value, np.concatenate([away.real, away.imag], axis=1), curvature


def _take_steps(
    eta: ComplexArray, step: FloatArray, value: FloatArray, target: ComplexArray, count: FloatArray
) -> tuple[ComplexArray, np.ndarray]:
    """Return η after the steps, each shortened until it gains, and which do; the others are at the top, to rounding."""
    order = eta.shape[1]
    move = step[:, :order] + 1j * step[:, order:]
    out, gained = eta.copy(), np.zeros(len(eta), dtype=bool)
    waiting = np.arange(len(eta))
    for _ in range(8):
        tried = eta[waiting] + move[waiting]
        good = _penalized_likelihood(tried, target[waiting], count[waiting])[0] > value[waiting]
        out[waiting[good]], gained[waiting[good]] = tried[good], True
        waiting = waiting[~good]
        if not waiting.size:
            break
        move[waiting] *= 0.3
    return out, gained
