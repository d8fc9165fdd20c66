"""Circular PCA at scale: one EM iteration on one core, its growth with rows, angles and columns, and whole fits.

Peers fit the motion "fishing" with noise of 5 pixels: PPCA in closed form, Gaussian-process latent variables, and the
optimisation of the paper's MATLAB code: L-BFGS over A, B, the noise, κ and the variational parameters of all rows at
once, von Mises factors.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import minimize
from scipy.special import i0e, i1e, ive
from timing import download, table, verdict

from mgvm import CircularPCA
from mgvm.datasets import fetch_mocap
from mgvm.pca import PPCA, em, priors
from mgvm.pca.e_step import Parameters, Quadrature
from mgvm.pca.rows import CHUNK, sum_chunk
from mgvm.pca.skeleton import MaskedMap
from paper.table2.baselines import gplvm
from paper.table2.gplvm import GPLVM


def model_of(columns, size, noise=0.1):
    """Every angle turns markers of its own in the plane; what is left of the columns mixes all."""
    rng = np.random.default_rng(columns + size)
    weights = 0.3 * rng.normal(size=(columns, 2 * size + 1))
    for d in range(size):
        weights[2 * d, d] += 1.0
        weights[2 * d + 1, size + d] += 1.0
    return Parameters(weights, noise**2, priors.von_mises(np.ones(1), np.full((1, size), 0.5 + 0j)))


def rows_of(parameters, count, rng):
    eta = parameters.prior.resultants[0]
    clean = parameters.at(rng.vonmises(np.angle(eta), abs(eta), (count, eta.size)))
    return clean + parameters.noise_variance**0.5 * rng.normal(size=clean.shape)


def iteration(parameters, chunks, structure, missing=0.0):
    """CPU seconds of one EM iteration over chunks that are made on the fly; making them does not count."""
    seconds, total = 0.0, None
    for seed, count in enumerate(chunks):
        rng = np.random.default_rng(seed)
        Y = rows_of(parameters, count, rng)
        if missing:
            Y[rng.uniform(size=Y.shape) < missing] = np.nan
        begin = time.process_time()
        here = sum_chunk(Y, parameters, Quadrature())
        total = here if total is None else total + here
        seconds += time.process_time() - begin
    begin = time.process_time()
    em.maximize(total, structure, parameters.prior)
    return seconds + time.process_time() - begin


def timed(count, columns, size, repeats=3, missing=0.0):
    parameters, structure = model_of(columns, size), MaskedMap(np.ones((columns, 2 * size + 1), dtype=bool))
    chunks = [min(CHUNK, count - k) for k in range(0, count, CHUNK)]
    return min(iteration(parameters, chunks, structure, missing) for _ in range(repeats))


def scale(most):
    timed(1000, 6, 3, 1)  # compiles
    seconds = timed(200_000, 6, 3)
    holes = timed(200_000, 6, 3, 1, missing=0.1)
    table(
        "One EM iteration, N = 200,000, M = 6, D = 3, CPU seconds on one core",
        ["rows", "seconds", "target"],
        [["complete", seconds, verdict(seconds, 1.5)], ["a tenth of the entries missing", holes, "-"]],
        "pca_scale/iteration",
    )
    counts = [n for n in (10_000, 100_000, 1_000_000, 3_000_000) if n <= most]
    times = [timed(n, 6, 3, 3 if n < 10**6 else 1) for n in counts]
    each = [1e6 * t / n for t, n in zip(times, counts, strict=True)]
    table(
        "Against N, chunks made on the fly (M = 6, D = 3); linear: microseconds a row stay within 1.3 of the least",
        ["N", "seconds", "microseconds a row", "target"],
        [[f"{n:,}", t, e, verdict(e / min(each), 1.3)] for n, t, e in zip(counts, times, each, strict=True)],
        "pca_scale/rows",
    )
    table(
        "Microseconds a row against D and M (20,000 rows)",
        ["M", *[f"D = {size}" for size in (1, 2, 3, 4, 5)]],
        [
            [str(m), *["-" if 2 * d > m else 1e6 * timed(20_000, m, d, 2) / 20_000 for d in (1, 2, 3, 4, 5)]]
            for m in (2, 6, 12, 48)
        ],
    )


# ---- the paper's optimisation ---------------------------------------------------------------------------------------


def ratio_and_slope(kappa):
    """I₁/I₀ and its derivative."""
    ratio = i1e(kappa) / i0e(kappa)
    return ratio, 1.0 - ratio**2 - np.where(kappa > 1e-8, ratio / np.maximum(kappa, 1e-8), 0.5)


def second_ratio(kappa):
    """I₂/I₀ and its derivative (I₃ + I₁)/2I₀ - I₂I₁/I₀²."""
    zero, one, two, three = (ive(k, kappa) for k in range(4))
    return two / zero, 0.5 * (three + one) / zero - two * one / zero**2


def free_energy(flat, Y, size):
    """Free energy of all rows with factors vM(m_nd, k_nd), a single prior vM(0, κ_d), and its gradient."""
    (count, columns), at = Y.shape, 0
    parts = []
    for shape in ((columns, 2 * size + 1), (1,), (size,), (count, size), (count, size)):
        step = int(np.prod(shape))
        parts.append(flat[at : at + step].reshape(shape))
        at += step
    W, log_precision, log_kappa, x, y = parts
    precision, kappa = np.exp(log_precision[0]), np.exp(log_kappa)
    k = np.hypot(x, y) + 1e-12
    c, s = x / k, y / k
    (r1, d1), (r2, d2) = ratio_and_slope(k), second_ratio(k)
    cos2, sin2 = c * c - s * s, 2.0 * c * s
    v = np.concatenate([r1 * c, r1 * s], axis=1)
    loadings, residual = W[:, :-1], Y - v @ W[:, :-1].T - W[:, -1]
    A, B = W[:, :size], W[:, size:-1]
    aa, bb, ab = (A * A).sum(0), (B * B).sum(0), (A * B).sum(0)
    # Σ E|y - Ww|² = |residual|² + variances of the independent factors.
    vc, vs, vcs = (
        0.5 + 0.5 * r2 * cos2 - (r1 * c) ** 2,
        0.5 - 0.5 * r2 * cos2 - (r1 * s) ** 2,
        0.5 * r2 * sin2 - r1**2 * c * s,
    )
    square = (residual**2).sum() + (vc * aa + vs * bb + 2.0 * vcs * ab).sum()
    entropy = (np.log(2.0 * np.pi * i0e(k)) + k - k * r1).sum()
    log_prior = (kappa * r1 * c).sum() - count * (np.log(2.0 * np.pi * i0e(kappa)) + kappa).sum()
    value = (
        0.5 * count * columns * (log_precision[0] - np.log(2.0 * np.pi))
        - 0.5 * precision * square
        + entropy
        + log_prior
    )
    g_v = precision * residual @ loadings
    g_r1c = g_v[:, :size] + kappa + precision * (r1 * c * aa + r1 * s * ab)
    g_r1s = g_v[:, size:] + precision * (r1 * s * bb + r1 * c * ab)
    g_r2c, g_r2s = -0.25 * precision * (aa - bb), -0.5 * precision * ab
    along = g_r1c * d1 * c + g_r1s * d1 * s + g_r2c * d2 * cos2 + g_r2s * d2 * sin2 - k * d1
    across = r1 * (g_r1s * c - g_r1c * s) + 2.0 * r2 * (g_r2s * cos2 - g_r2c * sin2)
    g_x, g_y = along * c - across * s / k, along * s + across * c / k
    g_A = precision * (residual.T @ v[:, :size] - A * vc.sum(0) - B * vcs.sum(0))
    g_B = precision * (residual.T @ v[:, size:] - B * vs.sum(0) - A * vcs.sum(0))
    g_W = np.concatenate([g_A, g_B, precision * residual.sum(0)[:, None]], axis=1)
    g_precision = np.array([0.5 * count * columns - 0.5 * precision * square])
    g_kappa = kappa * ((r1 * c).sum(0) - count * ratio_and_slope(kappa)[0])
    gradient = np.concatenate([g.ravel() for g in (g_W, g_precision, g_kappa, g_x, g_y)])
    return -value / count, -gradient / count


def all_at_once(Y, start, steps):
    """L-BFGS from the loadings of a start; the parameters in the end, and seconds."""
    size = start.size
    guess = (Y - start.weights[:, -1]) @ np.linalg.pinv(start.weights[:, :-1]).T
    angles = np.arctan2(guess[:, size:], guess[:, :size])
    flat = np.concatenate(
        [
            start.weights.ravel(),
            [-np.log(start.noise_variance)],
            np.zeros(size),
            5.0 * np.cos(angles).ravel(),
            5.0 * np.sin(angles).ravel(),
        ]
    )
    begin = time.process_time()
    found = minimize(
        free_energy, flat, (Y, size), "L-BFGS-B", jac=True, options={"maxiter": steps, "maxfun": 2 * steps}
    )
    seconds = time.process_time() - begin
    cells = start.weights.size
    kappa = np.exp(found.x[cells + 1 : cells + 1 + size])
    prior = priors.von_mises(np.ones(1), kappa[None] + 0j)
    return Parameters(found.x[:cells].reshape(start.weights.shape), float(np.exp(-found.x[cells])), prior), seconds


def quality(clean, denoised):
    """The paper's measure, 10 ln of a ratio of sums of norms."""
    return 10.0 * np.log(np.linalg.norm(clean, axis=1).sum() / np.linalg.norm(clean - denoised, axis=1).sum())


def fits():
    from mgvm.pca.e_step import MeanField
    from mgvm.pca.rows import evaluate_rows

    clean = fetch_mocap("fishing").rows
    rng = np.random.default_rng(0)
    order = rng.permutation(len(clean))
    noisy = clean + 5.0 * rng.normal(size=clean.shape)
    train, test = order[: len(clean) // 2], order[len(clean) // 2 :]
    Y = noisy[train]
    out = []

    def add(name, seconds, denoised):
        out.append([name, seconds, quality(clean[test], denoised)])

    free = {"structure": None, "prior": "von_mises"}
    CircularPCA(3, max_iter=2, tol=1.0, n_init=1, **free).fit(Y)  # compiles
    begin = time.process_time()
    add("PPCA, closed form", *(lambda m: (time.process_time() - begin, m.denoise(noisy[test])))(PPCA(3).fit(Y)))
    for name, options in (
        ("CircularPCA, one start", {"n_init": 1, "tol": 1e-4, **free}),
        ("CircularPCA, four starts", {"tol": 1e-4, **free}),
        ("CircularPCA, rigid links found", {"tol": 1e-4}),
    ):
        begin = time.process_time()
        model = CircularPCA(3, random_state=0, **options).fit(Y)
        add(name, time.process_time() - begin, model.denoise(noisy[test]))
    best = out[1]
    for name, model in (("GPLVM, linear kernel", GPLVM("linear")), ("GPLVM, squared exponential", gplvm(5.0, 3))):
        begin = time.process_time()
        model = model.fit(Y)
        add(name, time.process_time() - begin, model.denoise(noisy[test]))
    start = em.start_parameters(em.make_starts(Y, 3, 1, np.random.default_rng(0))[0], Y)
    for steps in (100, 300, 1000):
        found, seconds = all_at_once(Y, start, steps)
        name = f"L-BFGS over all variational parameters, {steps} steps"
        add(name, seconds, evaluate_rows(noisy[test], found, MeanField("von_mises"), "denoised"))
        if out[-1][2] > best[2] - 0.05:
            break
    table(
        f"Fits of fishing with noise 5: {len(Y)} rows, 3 angles, CPU seconds and the paper's measure on the test half",
        ["fit", "seconds", "10 ln ratio", "seconds of CircularPCA, one start, to these"],
        [[*row, best[1] / row[1]] for row in out],
    )
    print(f"\nFaster than optimising all at once: {verdict(best[1] / out[-1][1], 1.0)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=3_000_000, help="largest number of rows")
    parser.add_argument("--part", choices=["scale", "fits"], help="only one part")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part != "scale":
        download("bench_pca_scale.py", ["fishing.mat"])
    if given.part != "fits":
        scale(given.most)
    if given.part != "scale":
        fits()
