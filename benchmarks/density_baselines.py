"""Other densities of angles, with all settings chosen on the training rows: kernels, nearest neighbours, no inputs.

A mixture of Gaussians on (cos, sin) is left out: it is a density on the plane, not on the circle.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import i0e, i1e, logsumexp

BLOCK = 500  # rows against all training rows at a time
CONCENTRATIONS = (0.02, 1e5)
# Bandwidths follow the local density as its power -α/D: 0 is one for all rows, 1 the distance to nearest neighbours.
SHARPNESS = (0.0, 0.4, 0.7, 1.0, 1.3)


def log_mean(values):
    """log of the mean of exp by rows, in the precision of the values; rows of -inf alone give -inf."""
    top = values.max(axis=1, keepdims=True)
    np.maximum(top, np.finfo(values.dtype).min, out=top)
    values -= top
    np.exp(values, out=values)
    total = values.sum(axis=1, keepdims=True)
    values /= total
    return (top + np.log(total))[:, 0].astype(float), values


class KernelDensity:
    """p(x) = Σ_n Π_d vM(x_d; X_nd, κ_d s_n) / N; of the angles from `given` on, conditionally on those before it.

    The concentrations κ (one an angle) maximise the leave-one-out log density of the training rows, or of a random part
    of them, by its gradient. The factors s_n = (local density)^{2α/D} make kernels narrow where rows are dense; α is
    chosen by the same score.
    """

    def __init__(self, train, given=0, sharpness=SHARPNESS, most_left_out=3000, seed=0):
        self.train, self.given = train, given
        self.points = np.hstack([np.cos(train), np.sin(train)]).astype(np.float32)
        chosen = np.random.default_rng(seed).permutation(len(train))[:most_left_out]
        start = np.full(train.shape[1], np.log(30.0))
        self.factors = np.ones(len(train))
        pilot, best = None, None
        for alpha in sharpness:
            if pilot is not None:
                self.factors = np.clip(np.exp(2.0 * alpha * (pilot - pilot.mean()) / train.shape[1]), 1e-3, 1e3)
            found = minimize(
                lambda log_kappa: self._loss(log_kappa, chosen),
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[tuple(np.log(CONCENTRATIONS))] * len(start),
                options={"maxiter": 25, "ftol": 1e-6},
            )
            start = found.x
            if pilot is None:
                pilot = self._joint(np.exp(start), np.arange(len(train)))
            if best is None or found.fun < best[0]:
                best = (found.fun, alpha, np.exp(found.x), self.factors)
        self.left_out_score, self.alpha, self.kappa, self.factors = -best[0], *best[1:]

    def logpdf(self, x):
        """Log density of rows (n, D), given their first angles where there are such."""
        out = np.empty(len(x))
        for begin in range(0, len(x), BLOCK):
            rows = slice(begin, begin + BLOCK)
            out[rows] = self._log_density(x[rows], self.kappa)[0]
        return out

    def _joint(self, kappa, chosen):
        """Leave-one-out log density of all angles, whatever is asked of them."""
        return np.concatenate(
            [
                log_mean(self._exponents(self.train[part], kappa, range(self.train.shape[1]), part))[0]
                for part in np.array_split(chosen, max(1, len(chosen) // BLOCK))
            ]
        )

    def _loss(self, log_kappa, chosen):
        kappa = np.exp(log_kappa)
        total, slope = 0.0, np.zeros_like(kappa)
        for part in np.array_split(chosen, max(1, len(chosen) // BLOCK)):
            value, gradient = self._log_density(self.train[part], kappa, part)
            total, slope = total + value.sum(), slope + gradient
        return -total / len(chosen), -slope * kappa / len(chosen)

    def _log_density(self, x, kappa, left_out=None):
        """Log densities, and the sum of their gradients in κ where rows are left out."""
        every = range(x.shape[1])
        value, weights = log_mean(self._exponents(x, kappa, every, left_out))
        gradient = None if left_out is None else self._slopes(x, kappa, every, weights)
        if not self.given:
            return value - np.log(len(self.train) - (left_out is not None)), gradient
        before, weights = log_mean(self._exponents(x, kappa, every[: self.given], left_out))
        if left_out is not None:
            gradient[: self.given] -= self._slopes(x, kappa, every[: self.given], weights)
        return value - before, gradient

    def _exponents(self, x, kappa, angles, left_out):
        """Σ_d log vM(x_d; X_nd, κ_d s_n), (rows, N): one matrix product."""
        size = self.train.shape[1]
        columns = [*angles, *(size + d for d in angles)]
        left = np.hstack([kappa[d] * function(x[:, [d]]) for function in (np.cos, np.sin) for d in angles])
        concentration = self.factors[:, None] * kappa[list(angles)]
        scale = -(np.log(2.0 * np.pi * i0e(concentration)) + concentration).sum(axis=1)
        right = (self.factors[:, None] * self.points[:, columns]).astype(np.float32)
        out = left.astype(np.float32) @ right.T
        out += scale.astype(np.float32)
        if left_out is not None:
            out[np.arange(len(x)), left_out] = -np.inf
        return out

    def _slopes(self, x, kappa, angles, weights):
        """Σ of s_n (cos(x_d - X_nd) - A(κ_d s_n)) by the weights of the kernels, one number an angle."""
        size = self.train.shape[1]
        scaled = weights @ (self.factors[:, None] * self.points).astype(np.float32)
        mass = weights.sum(axis=0, dtype=float) * self.factors
        out = np.zeros(len(angles))
        for d in angles:
            cosines = scaled[:, d] * np.cos(x[:, d]) + scaled[:, size + d] * np.sin(x[:, d])
            concentration = kappa[d] * self.factors
            out[d] = cosines.sum(dtype=float) - mass @ (i1e(concentration) / i0e(concentration))
        return out


class NeighbourDensity:
    """The last angle given the others: von Mises kernels of concentration κ on its values at the k nearest rows.

    Near means a small chord distance of the other angles; k and κ by leave-one-out. A share of 1/(k + 1) of the uniform
    distribution keeps lone rows from a density of zero, for which the leave-one-out score would choose wide kernels.
    """

    def __init__(self, train, counts=(20, 30, 45, 70, 100, 150, 220, 330), concentrations=None):
        grid = np.geomspace(5.0, 400.0, 15) if concentrations is None else concentrations
        self.train = train
        self.tree = cKDTree(_chords(train[:, :-1]))
        _, nearest = self.tree.query(_chords(train[:, :-1]), max(counts) + 1)
        others = _without_self(nearest)
        best = (-np.inf, None, None)
        for count in counts:
            for kappa in grid:
                score = self._score(train, others[:, :count], kappa).mean()
                best = max(best, (score, count, kappa))
        self.left_out_score, self.count, self.kappa = best

    def logpdf(self, x):
        """Log density of the last angle of rows (n, D) given the others."""
        _, nearest = self.tree.query(_chords(x[:, :-1]), self.count)
        return self._score(x, nearest, self.kappa)

    def _score(self, x, nearest, kappa):
        count = nearest.shape[1]
        kernels = kappa * (np.cos(x[:, -1:] - self.train[nearest, -1]) - 1.0) - np.log(2.0 * np.pi * i0e(kappa))
        logs = np.column_stack([kernels, np.full(len(x), -np.log(2.0 * np.pi))])
        return logsumexp(logs, axis=1) - np.log(count + 1)


def _chords(angles):
    return np.hstack([np.cos(angles), np.sin(angles)])


def _without_self(nearest):
    """Neighbours of each row other than itself; of rows that are equal to others itself may stand anywhere."""
    own = nearest == np.arange(len(nearest))[:, None]
    own[~own.any(axis=1), -1] = True
    return nearest[~own].reshape(len(nearest), -1)


def without_inputs(train, test, order=3):
    """Log density of the last angle by a GvM of some order that does not look at the others."""
    from mgvm import GvM

    return GvM.fit(train[:, -1], order=order).logpdf(test[:, -1])


class WrappedNormalMixture:
    """A mixture of wrapped normals with full covariances; its size is chosen by held-out training rows.

    So is its shrinkage among several, if there are: of 10 and 20 rows on lysine, 10 was better by 0.006 nats.
    """

    def __init__(self, train, seed=0, pseudo_counts=(10.0,), largest=300):
        from mgvm.mixture.em import MixtureFit
        from mgvm.mixture.families.wrapped_normal import WrappedFamily

        fits = []
        for count in pseudo_counts:
            family = WrappedFamily(pseudo_count=count)
            # The same seed holds out the same rows, so that scores compare.
            fit = MixtureFit(family, family, np.random.default_rng(seed), tol=3e-4)
            fit.fit_size_by_validation(np.ascontiguousarray(train), np.ones(len(train)), largest, 0.15)
            fits.append((max(fit.scores.values()), count, fit))
        self.left_out_score, self.pseudo_count, fit = max(fits, key=lambda item: item[:2])
        self.family, self.mixture, self.n_components_ = fit.family, fit.best, fit.best.size

    def score_samples(self, x):
        """Log density of the observed angles of rows (n, D), NaN where missing."""
        from mgvm._grids import log_sum_exp
        from mgvm.mixture import missing

        return log_sum_exp(missing.log_joint(self.family, self.mixture, np.ascontiguousarray(x)), axis=1)
