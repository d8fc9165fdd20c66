"""Slow, obvious twins of mgvm.scores, and a small distribution whose numbers come from its Fourier series."""

import functools

import mpmath
import numpy as np
from naive.angles import distance
from scipy.special import ive, logsumexp


class VonMisesMixture:
    """Σ w vM(mu, kappa), with the methods that the scores ask of a distribution; one distribution, batch_shape ()."""

    batch_shape = ()

    def __init__(self, mu, kappa, weights=1.0):
        self.mu, self.kappa, self.weights = np.broadcast_arrays(*np.atleast_1d(mu, kappa, weights))

    def logpdf(self, x):
        gap = np.asarray(x)[..., None] - self.mu
        peak = self.weights / (2 * np.pi * ive(0, self.kappa))
        return logsumexp(-2 * self.kappa * np.sin(gap / 2) ** 2, b=peak, axis=-1)

    def moment(self, k):
        return (self.weights * ive(k, self.kappa) / ive(0, self.kappa) * np.exp(1j * k * self.mu)).sum()

    @functools.cached_property
    def moments(self):
        """m_1, m_2, … until they vanish."""
        count = int(20 + 9 * np.sqrt(self.kappa.max()))
        return np.array([self.moment(k) for k in range(1, count)])

    def cdf(self, x):
        """(x + π)/2π + Σ Re[m̄_k (e^{ikx} - e^{-ikπ}) / (ik)] / π, continued past a turn by its first term."""
        x, k = np.asarray(x), np.arange(1, self.moments.size + 1)
        coefficients = self.moments.conj() / (1j * k)
        blocks = np.array_split(x.ravel(), 1 + x.size * k.size // 1_000_000)
        waves = np.concatenate([((np.exp(1j * np.outer(v, k)) - (-1.0) ** k) @ coefficients).real for v in blocks])
        return (x + np.pi) / (2 * np.pi) + np.reshape(waves, x.shape) / np.pi

    def sample(self, shape, rng):
        pick = rng.choice(self.mu.size, size=shape, p=self.weights)
        return rng.vonmises(self.mu[pick], self.kappa[pick])

    def interval(self, mass):
        """One arc, for a single von Mises."""
        lower, upper = 0.0, np.pi
        for _ in range(60):
            half = (lower + upper) / 2
            short = self.cdf(self.mu[0] + half) - self.cdf(self.mu[0] - half) < mass
            lower, upper = (half, upper) if short else (lower, half)
        return np.array([[self.mu[0] - half, self.mu[0] + half]])

    def _quadrature(self):
        reach = np.minimum(np.pi, 10 / np.sqrt(self.kappa))
        nodes = np.sort((self.mu[:, None] + reach[:, None] * np.linspace(-1, 1, 200)).ravel())
        mass = np.exp(self.logpdf(nodes)) * np.gradient(nodes)
        return nodes, mass / mass.sum()


class Stack:
    """Several distributions as a batch of shape (n,)."""

    def __init__(self, dists):
        self.dists, self.batch_shape = dists, (len(dists),)

    def __getitem__(self, index):
        return Stack(self.dists[index])

    def _each(self, method, x):
        columns = np.broadcast_to(x, np.broadcast_shapes(np.shape(x), self.batch_shape))
        return np.stack([getattr(dist, method)(columns[..., i]) for i, dist in enumerate(self.dists)], axis=-1)

    def logpdf(self, x):
        return self._each("logpdf", x)

    def cdf(self, x):
        return self._each("cdf", x)

    def moment(self, k):
        return np.array([dist.moment(k) for dist in self.dists])

    def interval(self, mass):
        return np.stack([dist.interval(mass) for dist in self.dists])

    def _quadrature(self):
        pairs = [dist._quadrature() for dist in self.dists]
        return np.stack([nodes for nodes, _ in pairs]), np.stack([mass for _, mass in pairs])


def crps_from_samples(samples, y, kind="angular"):
    """Σ d(θ, y)/n - ½ Σ d(θ, θ*)/n² over all pairs."""
    d = distance if kind == "angular" else (lambda a, b: 1 - np.cos(a - b))
    n = len(samples)
    pairs = sum(d(a, b) for a in samples for b in samples)
    return sum(d(a, y) for a in samples) / n - pairs / (2 * n * n)


def crps_from_moments(moments, y):
    """π/4 + (2/π) Σ (|e^{iky} - m_k|² - 1)/k² over odd k, moments m_1, m_2, … until they vanish."""
    k = np.arange(1, len(moments) + 1)[::2]
    terms = np.abs(np.exp(1j * k * y) - moments[::2]) ** 2 - 1
    return np.pi / 4 + 2 / np.pi * np.sum(terms / k**2)


def crps_von_mises(mu, kappa, y):
    """E d(Θ, y) - ½ E d(Θ, Θ*) by mpmath; the difference of two draws has density I₀(2κ cos(δ/2)) / (2π I₀(κ)²)."""
    with mpmath.workdps(30):
        mu, kappa, y = mpmath.mpf(mu), mpmath.mpf(kappa), mpmath.mpf(y)
        bessel = mpmath.besseli(0, kappa)

        def density(theta):
            return mpmath.exp(kappa * mpmath.cos(theta - mu)) / (2 * mpmath.pi * bessel)

        def gap(delta):
            return mpmath.besseli(0, 2 * kappa * mpmath.cos(delta / 2)) / (2 * mpmath.pi * bessel**2)

        cuts = mpmath.linspace(0, mpmath.pi, 9)
        to_y = mpmath.quad(lambda t: t * (density(y + t) + density(y - t)), cuts)
        spread = 2 * mpmath.quad(lambda t: t * gap(t), cuts)
        return float(to_y - spread / 2)
