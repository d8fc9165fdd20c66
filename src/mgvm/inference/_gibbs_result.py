"""What the Gibbs sampler hands back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference import _gibbs_marginals, diagnostics
from mgvm.inference._density import log_densities
from mgvm.inference._law import Natural
from mgvm.inference.result import LogNormalizer


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
        The law of every angle.
    log_normalizer : None
        Gibbs sampling has none.
    """

    samples: FloatArray
    converged: bool
    _law: Natural
    log_normalizer: LogNormalizer | None = None

    def __repr__(self) -> str:
        chains, draws, size = self.samples.shape
        state = "converged" if self.converged else "not converged"
        return f"GibbsResult({chains} chains of {draws} draws, {size} angles, {state})"

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
        rows = self.samples.reshape(-1, self._law.dimension)
        return log_densities(self._law, rows).reshape(self.samples.shape[:2])

    @cached_property
    def marginals(self) -> GridDensity:
        """The law of every angle: the mean of its conditional laws given the others, over draws along the run."""
        return _gibbs_marginals.marginals(self._law, self.samples)

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
