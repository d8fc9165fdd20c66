"""Slow, obvious twins of the tests and correlations of mgvm.angles: definitions, double loops, simulation."""

import itertools
import math

import numpy as np


def kuiper(x):
    """Sup and inf of F_n - F by looking at both sides of every angle."""
    u = np.sort(np.mod(x, 2 * math.pi)) / (2 * math.pi)
    n = len(u)
    above = max(np.mean(u <= value) - value for value in u)
    below = max(value - np.mean(u < value) for value in u)
    assert n
    return above + below


def watson(x, cells=200_000):
    """n times the variance of F_n - F, by a midpoint rule."""
    u = np.sort(np.mod(x, 2 * math.pi)) / (2 * math.pi)
    grid = (np.arange(cells) + 0.5) / cells
    gap = np.searchsorted(u, grid, side="right") / len(u) - grid
    return len(u) * np.var(gap)


def watson_two_samples(x, y):
    x, y = np.mod(x, 2 * math.pi), np.mod(y, 2 * math.pi)
    gaps = [np.mean(x <= value) - np.mean(y <= value) for value in np.concatenate([x, y])]
    size = len(gaps)
    return len(x) * len(y) / size**2 * (sum(g * g for g in gaps) - sum(gaps) ** 2 / size)


def mardia_watson_wheeler(x, y):
    """Without ties."""
    pooled = sorted([*np.mod(x, 2 * math.pi), *np.mod(y, 2 * math.pi)])
    size = len(pooled)
    beta = [2 * math.pi * (pooled.index(value) + 1) / size for value in np.mod(x, 2 * math.pi)]
    square = sum(math.cos(b) for b in beta) ** 2 + sum(math.sin(b) for b in beta) ** 2
    return 2 * (size - 1) * square / (len(x) * len(y))


def jammalamadaka_sengupta(x, y):
    a = [math.sin(v - math.atan2(np.sin(x).sum(), np.cos(x).sum())) for v in x]
    b = [math.sin(v - math.atan2(np.sin(y).sum(), np.cos(y).sum())) for v in y]
    return np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b))


def fisher_lee(x, y):
    pairs = list(itertools.combinations(range(len(x)), 2))
    a = [math.sin(x[i] - x[j]) for i, j in pairs]
    b = [math.sin(y[i] - y[j]) for i, j in pairs]
    return np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b))


def circular_linear(x, z):
    """Mardia's formula from the three correlations."""
    rc, rs, cs = (np.corrcoef(a, b)[0, 1] for a, b in ((z, np.cos(x)), (z, np.sin(x)), (np.cos(x), np.sin(x))))
    return math.sqrt((rc**2 + rs**2 - 2 * rc * rs * cs) / (1 - cs**2))


def split_p_value(statistic, x, y):
    """Share of all splits of the pooled sample whose statistic is at least as large."""
    pooled = np.concatenate([x, y])
    observed, values = statistic(x, y), []
    for chosen in itertools.combinations(range(len(pooled)), len(x)):
        mask = np.zeros(len(pooled), dtype=bool)
        mask[list(chosen)] = True
        values.append(statistic(pooled[mask], pooled[~mask]))
    return np.mean(np.array(values) >= observed - 1e-9)


def order_p_value(statistic, x, y):
    observed = abs(statistic(x, y))
    values = [abs(statistic(x, y[list(order)])) for order in itertools.permutations(range(len(x)))]
    return np.mean(np.array(values) >= observed - 1e-9)


def profile_log_likelihood(x, mu):
    """max over κ >= 0 of Σ κ cos(x - μ) - n log I₀(κ), by a fine grid of κ and plain quadrature of I₀."""
    kappa = np.concatenate([[0.0], np.geomspace(1e-2, 1e2, 2_000)])
    mean = np.cos(np.asarray(x) - mu).mean()
    t = np.linspace(0.0, math.pi, 1001)
    scaled = np.array([np.trapezoid(np.exp(k * (np.cos(t) - 1.0)), t) / math.pi for k in kappa])
    return len(x) * np.max(kappa * mean - kappa - np.log(scaled))
