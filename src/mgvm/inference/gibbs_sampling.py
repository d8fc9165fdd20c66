"""Gibbs sampling of laws on the torus, over-relaxed and with turns of all angles at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference import diagnostics
from mgvm.inference._gibbs_result import GibbsResult
from mgvm.inference._law import Natural, TorusLaw, natural
from mgvm.inference._progress import Progress, reporter
from mgvm.inference._roads import Roads
from mgvm.inference._sweeps import Dense, Sweeps, rotate, states, sweeps
from mgvm.inference._trajectories import FEWEST, MOST, Trajectories
from mgvm.inference.result import ConvergenceWarning

_AGREE = 1.05  # split R-hat up to which chains are said to agree
_CALL = 0.1  # seconds of compiled work between two looks at the clock and at Ctrl-C
_MIRRORS = 4
_SAMPLE_CHAINS, _SAMPLE_DRAWS = 16, 50  # of `independent_draws`: most chains, fewest draws of each
_STAGES = 100  # of the burn-in
_RAMP = 0.5  # share of the burn-in in which the couplings grow from zero to one
_OTHER = 4  # one chain in so many takes the other road
_JUDGED = 0.6  # share after which chains leave modes of negligible mass
_SETTLED = 0.75  # share after which trajectories have their metric
_LESSONS = 4  # trajectories a stage that find their step


def gibbs(
    law: TorusLaw,
    n_samples: int = 1000,
    n_chains: int = 4,
    rng: Any = None,
    *,
    burn_in: int | None = None,
    thin: int = 1,
    over_relaxation: int = _MIRRORS,
    rotation: bool = True,
    trajectories: bool | None = None,
    blocks: Sequence[ArrayLike] = (),
    start: ArrayLike | None = None,
    progress: Progress = False,
) -> GibbsResult:
    """Draw each angle from p(φ_d | all others), a GvM with η₁ = a_d + (Pz)_d + (Q conj(z))_d, exactly, in turn.

    A round is a sweep of exact draws, `over_relaxation` sweeps that mirror every angle at the axis of its field
    (cheap, and they carry the chain along narrow ridges), and a turn of all angles at once by an exactly drawn angle,
    which also takes it from a mode to its mirror image at φ + π. Where many angles depend on each other, a Hamiltonian
    trajectory of all of them follows, in a metric found during the burn-in.

    Parameters
    ----------
    law : MGvM
        A single law; couplings dense or sparse, any order.
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
        Sweeps of mirrors a round; 0 is plain Gibbs sampling.
    rotation : bool
        Whether to turn all angles at once.
    trajectories : bool, optional
        Whether rounds include Hamiltonian trajectories; by default for 16 to 1,000 angles with dense couplings.
    blocks : sequence of arrays of int
        Groups of strongly coupled angles that are also turned as one, each once a round after the burn-in.
    start : array_like, shape (n_chains, D) or (D,), optional
        First angles. With a start the couplings do not grow during the burn-in.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (rounds done, rounds in all).

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
    >>> law = MGvM(a=[2.0, 0.0, 0.0], P=[[0, 3, 0], [3, 0, 3], [0, 3, 0]])
    >>> result = gibbs(law, n_samples=2000, rng=0)
    >>> result.samples.shape, result.converged
    ((4, 2000, 3), True)
    """
    parameters = natural(law)
    draws, chains = check.integer(n_samples, "n_samples", minimum=1), check.integer(n_chains, "n_chains", minimum=1)
    warm = min(max(100, draws // 4), 1000) if burn_in is None else check.integer(burn_in, "burn_in", minimum=0)
    plan = (
        check.integer(thin, "thin", minimum=1),
        check.integer(over_relaxation, "over_relaxation", minimum=0),
        bool(rotation),
        _couples_sums(parameters),
    )
    groups = _blocks(blocks, parameters.dimension)
    source, kernel = check.generator(rng), sweeps(parameters, chains)
    paths = _trajectories(kernel, trajectories, chains)
    x = _first_states(parameters, start, chains, source)
    report = reporter(progress, "gibbs")
    total = warm + draws * plan[0]
    samples = np.empty((draws, chains, parameters.dimension))
    done = 0
    try:
        for rounds in _burn_in(kernel, x, (warm, plan, start is None), source, paths):
            report(rounds, total)
        for done in _draw(kernel, x, plan, (groups, paths), source, samples):
            report(warm + done * plan[0], total)
    except KeyboardInterrupt:
        if done == 0:
            raise
        warnings.warn(
            f"gibbs was stopped after {done} of {draws} draws; these are kept", ConvergenceWarning, stacklevel=2
        )
    return _result(parameters, np.ascontiguousarray(samples[:done].swapaxes(0, 1)), done == draws)


def _result(law: Natural, samples: FloatArray, complete: bool) -> GibbsResult:
    """The result, with a warning where chains do not agree."""
    if samples.shape[1] < 4:
        return GibbsResult(samples, False, law)
    worst, whose = diagnostics.disagreement(samples)
    limit = diagnostics.largest_by_chance(samples, _AGREE)
    if worst > limit and complete:
        warnings.warn(
            f"the chains do not agree: split R-hat is {worst:.3g} for {whose} (at most {limit:.3g} is good). Draw more "
            "(n_samples, burn_in, thin), raise over_relaxation, or name groups of strongly coupled angles in blocks; "
            "where the law has separate modes, trust none of them alone and compare with exact_grid or exact_chain",
            ConvergenceWarning,
            stacklevel=3,
        )
    return GibbsResult(samples, worst <= limit and complete, law)


def _couples_sums(law: Natural) -> bool:
    return bool(law.Q.nnz if law.is_sparse else law.Q.any())


def _blocks(blocks: Any, dimension: int) -> list[np.ndarray]:
    """Indices of every block, checked."""
    cure = "give a list of lists of indices, such as [[0, 1], [2, 3]]"
    if not isinstance(blocks, (list, tuple, np.ndarray)):
        raise TypeError(f"blocks must be groups of angles, got {blocks!r}; {cure}")
    found = []
    for group in blocks:
        indices = np.asarray(group)
        if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
            raise ValueError(f"a block must be a list of indices of angles, got {group!r}; {cure}")
        if indices.min() < 0 or indices.max() >= dimension or len(set(indices.tolist())) < indices.size:
            raise ValueError(
                f"a block must name different angles between 0 and {dimension - 1}, got {indices.tolist()}"
            )
        found.append(indices.astype(np.int64))
    return found


def _first_states(law: Natural, start: ArrayLike | None, chains: int, rng: np.random.Generator) -> FloatArray:
    if start is None:
        return states(rng.uniform(-np.pi, np.pi, (chains, law.dimension)))
    first = check.angles(start, "start")
    if first.shape not in ((law.dimension,), (chains, law.dimension)):
        raise ValueError(
            f"start must have shape ({law.dimension},) or ({chains}, {law.dimension}), as there are {law.dimension} "
            f"angles and {chains} chains, got {first.shape}"
        )
    return states(np.broadcast_to(first, (chains, law.dimension)))


def _trajectories(kernel: Sweeps, wanted: bool | None, chains: int) -> Trajectories | None:
    """Trajectories where they are wanted, or where they pay and nothing was said."""
    size = kernel.law.dimension
    if not isinstance(kernel, Dense):
        if wanted:
            raise ValueError(
                f"trajectories need dense couplings and harmonics up to the second, this law has {size} angles, order "
                f"{kernel.law.order} and {'sparse' if kernel.law.is_sparse else 'dense'} couplings; leave them out"
            )
        return None
    if wanted is False or (wanted is None and not FEWEST <= size <= MOST):
        return None
    return Trajectories(kernel.law, kernel.parameters, chains)


def _burn_in(
    kernel: Sweeps, x: FloatArray, plan: Any, rng: np.random.Generator, paths: Trajectories | None
) -> Iterator[int]:
    """Rounds that are not kept, in stages.

    In the first half the couplings grow for most chains, so that these settle without kinks frozen in; one in four
    has all couplings from the start. Chains whose road ended in a mode of negligible mass are moved; modes of
    comparable mass show as chains that do not agree. Trajectories get their metric from the third quarter of the
    rounds and their step from the last.
    """
    rounds, (_, mirrors, rotation, sums), ramp = plan
    ends = np.unique(np.linspace(0, rounds, _STAGES + 1).astype(int))
    chains = x.shape[1]
    other = np.arange(chains) % _OTHER == 1
    roads = [(np.flatnonzero(~other), True), (np.flatnonzero(other), False)] if ramp else [(np.arange(chains), False)]
    apart = [(kernel.alike(len(part)), part, grows) for part, grows in roads if len(part)]
    unkept, judged = np.empty((1, chains, x.shape[0] // 2)), Roads(kernel.law, chains)
    for begin, end in pairwise(ends.tolist()):
        if end <= _RAMP * rounds:
            for own, part, grows in apart:
                scale = min(1.0, end / (_RAMP * rounds)) if grows else 1.0
                mine = np.ascontiguousarray(x[:, part])
                # A turn of all angles knows the full couplings only.
                own.run(
                    mine, (end - begin, mirrors, rotation and scale == 1.0, sums), rng, unkept[:, : len(part)], scale
                )
                x[:, part] = mine
        else:
            kernel.run(x, (end - begin, mirrors, rotation, sums), rng, unkept)
            if ramp and end <= _JUDGED * rounds:
                judged.look(x)
            else:
                judged.leave(x, rng)
                _tune(paths, x, rng, end <= _SETTLED * rounds)
        yield end


def _tune(paths: Trajectories | None, x: FloatArray, rng: np.random.Generator, early: bool) -> None:
    if paths is not None and early:
        paths.look(x)
    elif paths is not None:
        for _ in range(_LESSONS):
            paths.learn(x, rng)


def _draw(
    kernel: Sweeps, x: FloatArray, plan: Any, moves: Any, rng: np.random.Generator, out: FloatArray
) -> Iterator[int]:
    """Fill `out` in steps that take a moment each; yields the number of draws made."""
    groups, paths = moves
    alone = not groups and paths is None
    done, step = 0, 1
    while done < len(out):
        begin = time.perf_counter()
        if alone:
            kernel.run(x, plan, rng, out[done : done + step])
        for _ in range(0 if alone else plan[0]):
            for group in groups:
                rotate(kernel, x, rng, group)
            if paths is not None:
                paths.run(x, rng)
            kernel.run(x, (1, *plan[1:]), rng, out[done : done + 1])
        done = min(done + step, len(out))
        if alone:
            step = max(1, min(2 * step, int(step * _CALL / max(time.perf_counter() - begin, 1e-6))))
        yield done


def independent_draws(law: Natural, count: int, rng: np.random.Generator) -> FloatArray:
    """Nearly independent draws (count, D): some chains, thinned, long enough to see whether they agree."""
    if count == 0:
        return np.empty((0, law.dimension))
    chains = min(count, _SAMPLE_CHAINS)
    draws = max(-(-count // chains), _SAMPLE_DRAWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = gibbs(law, draws, chains, rng, burn_in=300, thin=3)
    if not result.converged:
        worst, whose = diagnostics.disagreement(result.samples)
        warnings.warn(
            f"the draws may miss part of the law: they come from {chains} chains that do not agree, split R-hat is "
            f"{worst:.3g} for {whose}. Use mgvm.inference.gibbs for longer chains and blocks of coupled angles",
            ConvergenceWarning,
            stacklevel=4,
        )
    picked = np.linspace(0, draws - 1, -(-count // chains)).astype(int)
    return result.samples[:, picked].swapaxes(0, 1).reshape(-1, law.dimension)[:count]
