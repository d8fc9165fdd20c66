"""Gibbs sampling of distributions on the torus, with over-relaxation, moves of all angles and Hamiltonian moves.

A run is a burn-in, in which the couplings grow, chains leave modes of negligible mass and Hamiltonian moves are tuned,
and then rounds of moves that all leave the distribution as it is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._frames import check_names, make_frame
from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.gibbs import Round
from mgvm._numerics.gvm import gvm_facts
from mgvm._progress import Progress, reporter
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.inference import diagnostics
from mgvm.inference._moves import (
    DenseSweeps,
    HamiltonianMoves,
    Sweeps,
    angles,
    precision,
    reflection_axis,
    rotate,
    states,
    sweeps,
)
from mgvm.inference.result import ConvergenceWarning, LogNormalizer
from mgvm.natural.parameters import Natural, TorusDistribution, concentrations, log_densities, natural, natural_first


@dataclass(frozen=True)
class BurnInSettings:
    """How the rounds before the first draw are spent; shares are of all of them."""

    stages: int = 100  # parts that the rounds are cut into: progress is reported and couplings grow between two
    ramp: float = 0.5  # share in which the couplings grow from zero to one
    ramped_chains: int = 4  # all but one chain in so many have growing couplings; that one has all from the start
    selection: float = 0.6  # share after which chains leave modes of negligible mass
    metric: float = 0.75  # share after which Hamiltonian moves have their metric and adapt their step
    adaptations: int = 4  # moves a stage by which the step is adapted


@dataclass(frozen=True, eq=False, repr=False)
class GibbsResult:
    """Draws of every chain.

    Attributes
    ----------
    samples : ndarray of float, shape (chains, draws, D)
        Angles in [-π, π).
    converged : bool
        Whether all draws asked for were made, at least four of each chain, and the chains agree: split R-hat at most
        1.05 (more for few draws) for every angle, its difference from the first and its sum with it.
    r_hat, effective_sample_size : ndarray, shape (D,)
        Of every angle, the worse of its cosine and sine.
    trace : ndarray, shape (chains, draws)
        Log density of the draws without the normaliser.
    marginals : GridDensity
        The distribution of every angle.
    log_normalizer : None
        Gibbs sampling has none.
    """

    samples: FloatArray
    converged: bool
    _distribution: Natural
    log_normalizer: LogNormalizer | None = None

    def __repr__(self) -> str:
        chains, draws, size = self.samples.shape
        state = "converged" if self.converged else "not converged"
        return f"GibbsResult({chains} chains of {draws} draws, {size} angles, {state})"

    def to_frame(self, names: Sequence[str] | None = None) -> Any:
        """A pandas DataFrame of the draws, one row each, by chain and draw; a column an angle, by name where given."""
        _, draws, size = self.samples.shape
        rows = self.samples.reshape(-1, size)
        frame = make_frame(dict(zip(check_names(names, size), rows.T, strict=True)))
        frame.index = frame.index.map(lambda row: divmod(row, draws)).set_names(["chain", "draw"])
        return frame

    @cached_property
    def r_hat(self) -> FloatArray:
        """Split R-hat of every angle, the larger of its cosine's and sine's."""
        return diagnostics.r_hat(self.samples)

    @cached_property
    def effective_sample_size(self) -> FloatArray:
        """Effective sample size of every angle over all chains, the smaller of its cosine's and sine's."""
        return diagnostics.effective_sample_size(self.samples)

    @cached_property
    def trace(self) -> FloatArray:
        """Log density without the normaliser of every draw, shape (chains, draws)."""
        rows = self.samples.reshape(-1, self._distribution.dimension)
        return log_densities(self._distribution, rows).reshape(self.samples.shape[:2])

    @cached_property
    def marginals(self) -> GridDensity:
        """The distribution of every angle: the mean of its conditional distributions over draws along the run."""
        return average_conditionals(self._distribution, self.samples)

    def moment(self, k: int) -> ComplexArray:
        """E[e^{ikφ}] of every angle, from the draws."""
        return np.exp(1j * check.integer(k, "k") * self.samples).mean(axis=(0, 1))

    def to_arviz(self) -> Any:
        """The draws as ArviZ data with variables angle, cos and sin; read R-hat and effective sizes off cos and sin."""
        try:
            import arviz
        except ModuleNotFoundError:
            raise ModuleNotFoundError('ArviZ is not installed; to_arviz needs: pip install "mgvm[arviz]"') from None
        values = {"angle": self.samples, "cos": np.cos(self.samples), "sin": np.sin(self.samples)}
        try:
            return arviz.from_dict(posterior=values)
        except TypeError:  # ArviZ 1.0 and later
            return arviz.from_dict({"posterior": values})


def gibbs(
    dist: TorusDistribution,
    n_samples: int = 1000,
    n_chains: int = 4,
    rng: Seed = None,
    *,
    burn_in: int | None = None,
    thin: int = 1,
    over_relaxation: int = 4,
    rotation: bool = True,
    hamiltonian: bool | None = None,
    blocks: Sequence[ArrayLike] = (),
    start: ArrayLike | None = None,
    progress: Progress = False,
) -> GibbsResult:
    """Draw each angle from p(φ_d | all others), a GvM with η₁ = a_d + (Pz)_d + (Q conj(z))_d, exactly, in turn.

    A round is a sweep of exact draws, `over_relaxation` sweeps that reflect every angle at the axis of its field
    (cheap, and they carry the chain along narrow ridges), and a reflection of all angles at one axis and a rotation by
    one exactly drawn angle, which take a chain from a mode to its mirror image and to its image at φ + π. Now and
    then clusters of angles that are tied to each other are turned by half (Swendsen and Wang). Where many
    angles depend on each other, a Hamiltonian move of all of them precedes, in a metric found during the burn-in.

    Parameters
    ----------
    dist : MGvM
        A single distribution; couplings dense or sparse, any order.
    n_samples : int
        Draws kept of each chain.
    n_chains : int
        Chains, all run at once.
    rng : None, seed or Generator
        Source of randomness.
    burn_in : int, optional
        Rounds before the first draw, half of them with growing couplings; n_samples / 4 by default, at least 100 and at
        most 1000.
    thin : int
        Rounds a draw.
    over_relaxation : int
        Sweeps of reflections a round; 0 is plain Gibbs sampling.
    rotation : bool
        Whether rounds end with a reflection and a rotation of all angles, and half turns of clusters.
    hamiltonian : bool, optional
        Whether rounds include Hamiltonian moves; by default for 16 to 1,000 angles with dense couplings.
    blocks : sequence of arrays of int
        Sets of strongly coupled angles that are also rotated as one, each once a round after the burn-in.
    start : array_like, shape (n_chains, D) or (D,), optional
        First angles. With a start the couplings do not grow during the burn-in.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets
        (rounds done, rounds in all, "gibbs").

    Returns
    -------
    GibbsResult
        Stopped with Ctrl-C, it holds the draws made so far.

    Warns
    -----
    ConvergenceWarning
        When the chains do not agree, or the run was stopped.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.inference import gibbs
    >>> dist = MGvM(a=[2.0, 0.0, 0.0], P=[[0, 3, 0], [3, 0, 3], [0, 3, 0]])
    >>> result = gibbs(dist, n_samples=2000, rng=0)
    >>> result.samples.shape, result.converged
    ((4, 2000, 3), True)
    """
    parameters = natural(dist)
    draws, chains = check.integer(n_samples, "n_samples", minimum=1), check.integer(n_chains, "n_chains", minimum=1)
    warm = min(max(100, draws // 4), 1000) if burn_in is None else check.integer(burn_in, "burn_in", minimum=0)
    plan = Round(
        check.integer(thin, "thin", minimum=1),
        check.integer(over_relaxation, "over_relaxation", minimum=0),
        bool(rotation),
        bool(parameters.Q.nnz if parameters.is_sparse else parameters.Q.any()),
        reflection_axis(parameters),
    )
    turned = _check_blocks(blocks, parameters.dimension)
    source, kernel = check.generator(rng), sweeps(parameters)
    paths = _hamiltonian_moves(kernel, hamiltonian)
    x = _first_states(parameters, start, chains, source)
    report = reporter(progress, "gibbs")
    total = warm + draws * plan.thin
    samples = np.empty((draws, chains, parameters.dimension))
    done = 0
    try:
        for rounds in _burn_in(kernel, x, plan, source, paths, n_rounds=warm, ramp=start is None):
            report(rounds, total)
        for done in _draw(kernel, x, plan, source, samples, turned, paths):
            report(warm + done * plan.thin, total)
    except KeyboardInterrupt:
        if done == 0:
            raise
        warnings.warn(
            f"gibbs was stopped after {done} of {draws} draws; these are kept", ConvergenceWarning, stacklevel=2
        )
    return _result(parameters, np.ascontiguousarray(samples[:done].swapaxes(0, 1)), done == draws)


def _result(dist: Natural, samples: FloatArray, complete: bool) -> GibbsResult:
    """The result, with a warning where chains do not agree."""
    if samples.shape[1] < 4:
        return GibbsResult(samples, False, dist)
    worst, whose = diagnostics.disagreement(samples)
    limit = diagnostics.largest_by_chance(samples, 1.05)
    if worst > limit and complete:
        warnings.warn(
            f"the chains do not agree: split R-hat is {worst:.3g} for {whose} (at most {limit:.3g} is good). Draw more "
            "(n_samples, burn_in, thin), raise over_relaxation, or name strongly coupled angles in blocks; where the "
            "distribution has separate modes, trust none of them alone and compare with exact_grid or exact_chain",
            ConvergenceWarning,
            stacklevel=3,
        )
    return GibbsResult(samples, worst <= limit and complete, dist)


def _check_blocks(blocks: Sequence[ArrayLike], dimension: int) -> list[np.ndarray]:
    """The indices of every block."""
    cure = "give a list of lists of indices, such as [[0, 1], [2, 3]]"
    if not isinstance(blocks, (list, tuple, np.ndarray)):
        raise TypeError(f"blocks must be sets of angles, got {blocks!r}; {cure}")
    found = []
    for block in blocks:
        indices = np.asarray(block)
        if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
            raise ValueError(f"a block must be a list of indices of angles, got {block!r}; {cure}")
        if indices.min() < 0 or indices.max() >= dimension or len(set(indices.tolist())) < indices.size:
            raise ValueError(
                f"a block must name different angles between 0 and {dimension - 1}, got {indices.tolist()}"
            )
        found.append(indices.astype(np.int64))
    return found


def _first_states(dist: Natural, start: ArrayLike | None, chains: int, rng: np.random.Generator) -> FloatArray:
    """States (2D, chains) to begin with: as given, or uniform."""
    if start is None:
        return states(rng.uniform(-np.pi, np.pi, (chains, dist.dimension)))
    first = check.angles(start, "start")
    if first.shape not in ((dist.dimension,), (chains, dist.dimension)):
        raise ValueError(
            f"start must have shape ({dist.dimension},) or ({chains}, {dist.dimension}), as there are {dist.dimension} "
            f"angles and {chains} chains, got {first.shape}"
        )
    return states(np.broadcast_to(first, (chains, dist.dimension)))


def _hamiltonian_moves(kernel: Sweeps, wanted: bool | None) -> HamiltonianMoves | None:
    """Hamiltonian moves where they are wanted, or where they pay and nothing was said."""
    size = kernel.dist.dimension
    if not isinstance(kernel, DenseSweeps):
        if wanted:
            raise ValueError(
                f"Hamiltonian moves need dense couplings and harmonics up to the second, this distribution has {size} "
                f"angles, order {kernel.dist.order} and {'sparse' if kernel.dist.is_sparse else 'dense'} couplings; "
                "leave hamiltonian out"
            )
        return None
    # Below 16 angles sweeps are as good, above 1,000 the matrices are heavy.
    if wanted is False or (wanted is None and not 16 <= size <= 1000):
        return None
    return HamiltonianMoves(kernel)


def independent_draws(dist: Natural, count: int, rng: np.random.Generator) -> FloatArray:
    """Nearly independent draws (count, D): some chains, thinned, long enough to see whether they agree."""
    if count == 0:
        return np.empty((0, dist.dimension))
    chains = min(count, 16)
    draws = max(-(-count // chains), 50)  # fewer would not tell whether the chains agree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = gibbs(dist, draws, chains, rng, burn_in=300, thin=3)
    if not result.converged:
        worst, whose = diagnostics.disagreement(result.samples)
        warnings.warn(
            f"the draws may miss part of the distribution: they come from {chains} chains that do not agree, split "
            f"R-hat is {worst:.3g} for {whose}. Use mgvm.inference.gibbs for longer chains and blocks of angles",
            ConvergenceWarning,
            stacklevel=4,
        )
    picked = np.linspace(0, draws - 1, -(-count // chains)).astype(int)
    return result.samples[:, picked].swapaxes(0, 1).reshape(-1, dist.dimension)[:count]


# ---- burn-in --------------------------------------------------------------------------------------------------------


def _burn_in(
    kernel: Sweeps,
    x: FloatArray,
    plan: Round,
    rng: np.random.Generator,
    paths: HamiltonianMoves | None,
    *,
    n_rounds: int,
    ramp: bool,
    settings: BurnInSettings = BurnInSettings(),
) -> Iterator[int]:
    """Rounds that are not kept, in stages; yields the rounds done.

    In the first half the couplings grow for most chains, so that these converge without kinks frozen in; one in four
    has all couplings from the start. Chains that ended in a mode of negligible mass are moved; modes of comparable
    mass show as chains that do not agree. Hamiltonian moves get their metric from the third quarter of the rounds and
    their step from the last.
    """
    ends = np.unique(np.linspace(0, n_rounds, settings.stages + 1).astype(int))
    chains = x.shape[1]
    direct = np.arange(chains) % settings.ramped_chains == 1
    parts = [(np.flatnonzero(~direct), True), (np.flatnonzero(direct), False)] if ramp else [(np.arange(chains), False)]
    parts = [(part, grows) for part, grows in parts if len(part)]
    unkept, selection = np.empty((1, chains, x.shape[0] // 2)), ModeSelection(kernel.dist, chains)
    for begin, end in pairwise(ends.tolist()):
        stage = plan._replace(thin=end - begin)
        if end <= settings.ramp * n_rounds:
            for part, grows in parts:
                scale = min(1.0, end / (settings.ramp * n_rounds)) if grows else 1.0
                mine = np.ascontiguousarray(x[:, part])
                # Moves of all angles at once know the full couplings only.
                rounds = stage._replace(rotation=plan.rotation and scale == 1.0)
                kernel.run(mine, rounds, rng, unkept[:, : len(part)], scale)
                x[:, part] = mine
        else:
            kernel.run(x, stage, rng, unkept)
            if ramp and end <= settings.selection * n_rounds:
                selection.observe(x)
            else:
                selection.apply(x, rng)
                if paths is not None and end <= settings.metric * n_rounds:
                    paths.observe(x)
                elif paths is not None:
                    for _ in range(settings.adaptations):
                        paths.adapt(x, rng)
        yield end


class ModeSelection:
    """Moves chains out of modes with next to no mass, by what they saw over some rounds of the burn-in.

    The mass of a mode is about exp(mean log density + ½D) (2π)^{D/2} / √det H, H the mean of minus the Hessian
    (Laplace). Kinks frozen into a smooth distribution and modes far below the heaviest are left by their chains; modes
    of comparable mass keep theirs.
    """

    def __init__(self, dist: Natural, chains: int):
        self._distribution, self._observed = dist, 0
        # Up to 200 angles determinants are cheap beside the sweeps.
        usable = dist.order <= 2 and 1 < dist.dimension <= 200 and chains > 1
        self._height = np.zeros(chains)
        self._curvature = np.zeros((chains, dist.dimension, dist.dimension)) if usable else None

    def observe(self, x: FloatArray) -> None:
        """Take the states of all chains into their means."""
        if self._curvature is None:
            return
        self._observed += 1
        self._height += log_densities(self._distribution, angles(x))
        for chain in range(x.shape[1]):
            self._curvature[chain] += precision(self._distribution, x[:, chain : chain + 1])

    def apply(self, x: FloatArray, rng: np.random.Generator) -> None:
        """Put chains in modes of negligible mass where chains in heavy ones are, in place, once."""
        if self._curvature is None or not self._observed:
            return
        sign, log_determinant = np.linalg.slogdet(self._curvature / self._observed)
        # Where the curvature is not that of a peak the formula says nothing, and the chain stays.
        mass = np.where(sign > 0, self._height / self._observed - 0.5 * log_determinant, np.nan)
        known = np.isfinite(mass)
        if known.any():
            poor = known & (mass < np.nanmax(mass) - 10.0)  # less than e^-10 of the heaviest
            heavy = np.flatnonzero(known & ~poor)
            x[:, poor] = x[:, rng.choice(heavy, int(poor.sum()))]
        self._curvature, self._observed = None, 0


# ---- draws ----------------------------------------------------------------------------------------------------------


def _draw(
    kernel: Sweeps,
    x: FloatArray,
    plan: Round,
    rng: np.random.Generator,
    out: FloatArray,
    blocks: list[np.ndarray],
    paths: HamiltonianMoves | None,
) -> Iterator[int]:
    """Fill `out` (draws, chains, D) in steps that take a moment each; yields the number of draws made."""
    only_sweeps, single = not blocks and paths is None, plan._replace(thin=1)
    done, step = 0, 1
    while done < len(out):
        begin = time.perf_counter()
        if only_sweeps:
            kernel.run(x, plan, rng, out[done : done + step])
        for _ in range(0 if only_sweeps else plan.thin):
            for block in blocks:
                rotate(kernel, x, rng, block)
            if paths is not None:
                paths.run(x, rng)
            kernel.run(x, single, rng, out[done : done + 1])
        done = min(done + step, len(out))
        if only_sweeps:
            # A tenth of a second of compiled work between two looks at the clock and at Ctrl-C.
            step = max(1, min(2 * step, int(step * 0.1 / max(time.perf_counter() - begin, 1e-6))))
        yield done


# ---- marginals ------------------------------------------------------------------------------------------------------


def average_conditionals(dist: Natural, samples: FloatArray) -> GridDensity:
    """The mean of the conditional distributions of every angle over draws (Rao and Blackwell).

    The grid is fine enough for each of them, up to 4,096 nodes; draws are picked evenly along the run, at most 20,000
    and so few that 10⁷ nodes are filled in all, but no fewer than 16.
    """
    rows = samples.reshape(-1, dist.dimension)
    nodes = int(min(4096, 32 + 8.0 * np.sqrt(concentrations(dist).max())))
    count = int(min(len(rows), np.clip(1e7 / (nodes * dist.dimension), 16, 20_000)))
    picked = np.exp(1j * rows[np.linspace(0, len(rows) - 1, count).astype(int)])
    eta, grid = dist.with_harmonics(natural_first(dist, picked)), periodic_grid(nodes)
    return GridDensity(np.array([_average_densities(eta[:, angle], grid) for angle in range(dist.dimension)]))


def _average_densities(eta: ComplexArray, grid: FloatArray) -> FloatArray:
    """Log of the mean density of GvM distributions (n, T) on a grid."""
    waves = np.exp(1j * np.arange(1, eta.shape[1] + 1)[:, None] * grid)
    logs = (eta.conj() @ waves).real - gvm_facts(eta).log_normalizer[:, None]
    return log_sum_exp(logs, axis=0) - np.log(len(eta))
