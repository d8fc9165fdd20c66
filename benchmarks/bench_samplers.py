"""Minimum effective sample size of cos and sin of all angles per CPU second: ours, NumPyro's NUTS, and the augmentation
of Cohen et al. (AISTATS 2025).

Everyone starts after the burn-in; warm-up and compilation are left out. NUTS runs as it comes and in five other ways
(see NUTS_VARIANTS), of which the best is quoted: unwrapped angles wander over many turns where a distribution is wide,
which leads its mass matrix astray. One effective sample size (mgvm.inference.diagnostics) for all.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits
from timing import keep, peer, table
from torus_distributions import DISTS

from mgvm._numerics.gvm import gvm_sample
from mgvm.inference import gibbs
from mgvm.inference._moves import states
from mgvm.inference.diagnostics import effective_sample_size, r_hat
from mgvm.natural.parameters import dense_coupling

TARGETS = dict(zip(DISTS, (20, 20, 20, 5, 5), strict=True))


def ours(dist, start, seconds=3.0, **options):
    """Effective draws a second and R-hat of Gibbs sampling."""
    draws = 500
    while True:
        marks = []  # of the clock after every round: the burn-in, which tunes Hamiltonian moves, is left out

        def mark(done, total, text, marks=marks):
            if done >= 400:
                marks.append(time.process_time())

        samples = gibbs(dist, draws, len(start), burn_in=400, start=start, rng=0, progress=mark, **options).samples
        spent = marks[-1] - marks[0]
        if spent > 0.3 * seconds:
            return effective_sample_size(samples).min() / spent, r_hat(samples).max()
        draws = int(draws * np.clip(seconds / max(spent, 1e-3), 1, 20))


def augmentation(dist, start, seconds=3.0):
    """The same of y ~ N(Ax, I), then all angles independent given y; A'A = C + λI with the smallest λ."""
    C = dense_coupling(dist._natural)
    values, vectors = np.linalg.eigh(C)
    A = np.sqrt(np.maximum(values - values[0], 0.0))[:, None] * vectors.T
    rng = np.random.default_rng(0)
    chains = len(start)
    b = np.repeat(dist.b.T, chains, axis=0)
    x = states(start)
    kept, begin = [], time.process_time()
    while True:
        h = A.T @ (A @ x + rng.normal(size=x.shape))
        eta = (dist.a[:, None] + h[0::2] + 1j * h[1::2]).reshape(-1, 1)
        phi = gvm_sample(np.concatenate([eta, b], axis=1), 1, rng).reshape(dist.dimension, chains)
        x[0::2], x[1::2] = np.cos(phi), np.sin(phi)
        kept.append(phi.T)
        if time.process_time() - begin > seconds and len(kept) >= 100:
            spent = time.process_time() - begin
            samples = np.stack(kept, axis=1)
            return effective_sample_size(samples).min() / spent, r_hat(samples).max()


# Mass matrix and depth of its trees, and whether NUTS walks in the plane of every angle or along the unwrapped angles.
# Along a flat ridge of a periodic potential nothing turns back, so trees grow to their limit: short ones are tried too.
NUTS_VARIANTS = {
    "default": ({}, False),
    "unit mass": ({"adapt_mass_matrix": False, "max_tree_depth": 8}, False),
    "unit mass, short": ({"adapt_mass_matrix": False, "max_tree_depth": 4}, False),
    "dense mass": ({"dense_mass": True, "max_tree_depth": 8}, False),
    "dense mass, short": ({"dense_mass": True, "max_tree_depth": 4}, False),
    "plane": ({"max_tree_depth": 8}, True),
}


def nuts(dist, start, variant, chains=4, warmup=500, draws=1000):
    """The same of NUTS, its kernel in one compiled loop, so that nothing else is timed."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.infer import NUTS

    numpyro.enable_x64()
    C, a, b = jnp.asarray(dense_coupling(dist._natural)), jnp.asarray(dist.a), jnp.asarray(dist.b)

    options, plane = NUTS_VARIANTS[variant]

    def potential(state):
        phi = jnp.arctan2(state[1], state[0]) if plane else state
        radius = 0.5 * (state**2).sum() if plane else 0.0
        x = jnp.stack([jnp.cos(phi), jnp.sin(phi)], axis=1).ravel()
        value = (a.real * jnp.cos(phi) + a.imag * jnp.sin(phi)).sum() + 0.5 * x @ (C @ x)
        for t in range(b.shape[0]):
            value += (b[t].real * jnp.cos((t + 2) * phi) + b[t].imag * jnp.sin((t + 2) * phi)).sum()
        return radius - value

    kernel = NUTS(potential_fn=potential, **options)

    def step(state, _):
        state = kernel.sample(state, (), {})
        return state, state.z

    run = jax.jit(lambda state, n: jax.lax.scan(step, state, None, length=n), static_argnums=1)
    kept, spent = [], 0.0
    for chain in range(chains):
        first = np.stack([np.cos(start[chain]), np.sin(start[chain])]) if plane else start[chain]
        state = kernel.init(jax.random.PRNGKey(chain), warmup, jnp.asarray(first), (), {})
        state, _ = run(state, warmup)
        if chain == 0:
            jax.block_until_ready(run(state, draws))
        begin = time.process_time()
        _, phi = run(state, draws)
        phi = np.asarray(phi)
        kept.append(np.arctan2(phi[:, 1], phi[:, 0]) if plane else phi)
        spent += time.process_time() - begin
    samples = np.stack(kept)
    return effective_sample_size(samples).min() / spent, r_hat(samples).max()


def rate(found):
    """Effective draws a second with R-hat, as text."""
    return f"{found[0]:,.0f} ({found[1]:.2f})"


def main():
    rows = []
    for name, make in DISTS.items():
        dist = make()
        start = gibbs(dist, 4, 16, burn_in=5000, rng=0).samples[:, -1]
        mine, plain, other = (
            ours(dist, start),
            ours(dist, start, over_relaxation=0, hamiltonian=False),
            augmentation(dist, start),
        )
        row = [name, rate(mine), rate(plain), rate(other)]
        if peer("numpyro") is not None:
            tried = {variant: nuts(dist, start, variant) for variant in NUTS_VARIANTS}
            best = max(tried, key=lambda variant: tried[variant][0])
            row += [rate(tried["default"]), f"{rate(tried[best])} {best}"]
            row += [mine[0] / tried["default"][0], mine[0] / tried[best][0], f">= {TARGETS[name]}"]
        else:
            row += ["not installed"] * 2 + ["", "", ""]
        rows.append([*row, mine[0] / other[0]])
        print(rows[-1], file=sys.stderr)
    table(
        "Effective draws a CPU second, the worst of all cos and sin (split R-hat)",
        [
            "dist",
            "mgvm",
            "no over-relaxation",
            "augmentation",
            "NUTS, default",
            "NUTS, best",
            "mgvm / NUTS, default",
            "mgvm / NUTS, best",
            "target",
            "mgvm / augmentation",
        ],
        rows,
    )
    header = ["effective draws a CPU second (split R-hat)", "mgvm", "no over-relaxation", "augmentation"]
    header += ["NUTS, default", "NUTS, best", "mgvm / NUTS, best"]
    keep("samplers", "benchmarks/bench_samplers.py", rates=(header, [[*row[:6], row[7]] for row in rows]))


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    with threadpool_limits(1):
        main()
