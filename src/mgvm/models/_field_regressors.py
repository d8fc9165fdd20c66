"""Gaussian processes on coordinates of the angle: the plane's (cos, sin), or the angle itself, unwrapped."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import WhiteKernel

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.circle.law import CircleLaw
from mgvm.circle.projected_normal import ProjectedNormal
from mgvm.circle.wrapped_normal import WrappedNormal
from mgvm.models import _field_densities
from mgvm.models._circular_regressor import CircularRegressor, Merged, generator_of, merged, queries, validated
from mgvm.models._field import Field, evidence, predicted
from mgvm.models._field_left_out import at_other_rows
from mgvm.models._field_search import Problem, Search, candidates, solve_all
from mgvm.models._gp_predict import cells
from mgvm.models._gp_search import Reporter

_UNKNOWN = np.pi**2 / 3.0  # variance of an angle that nothing is known of


class _FieldRegressor(CircularRegressor):
    """Fit and prediction shared by both; a subclass says what the coordinates are."""

    kernel: Any
    selection: str | None
    n_starts: int
    tuning_rows: int
    random_state: Any
    verbose: int

    @abc.abstractmethod
    def _prepare(self, found: Merged) -> tuple[Problem, float, float]:
        """The problem in coordinates, their variance about their mean, and that of their unknown mean."""

    def _outputs(self) -> int:
        """How many fields there are."""
        return 1

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyper-parameters from X (N, p) and angles y (N,); weights are counts of rows."""
        data = validated(self, X, y, sample_weight)
        if self.selection is not None:
            check.choice(self.selection, "selection", ["evidence", "loo"])
        count = check.integer(self.n_starts, "n_starts", minimum=1)
        most = check.integer(self.tuning_rows, "tuning_rows", minimum=2)
        found = merged(data)
        problem, variance, offset = self._prepare(found)
        rng = generator_of(self.random_state)
        small = problem.few(most, rng)
        report = Reporter(int(self.verbose), type(self).__name__)
        best = None
        for field in candidates(self.kernel, found.inputs, variance, offset):
            fields = (field,) * self._outputs()
            if self.selection is None:
                best = best or (0.0, fields)
                continue
            search = Search(small, fields, self.selection, report=report)
            end = search.run(count, rng)
            best = end if best is None or end[0] > best[0] else best
            if search.interrupted:
                break
        assert best is not None
        self._keep(best[1], problem)
        values = at_other_rows(self._parts, problem.groups, problem.density, problem.coordinates)
        self.loo_log_density_ = found.of_rows(values, lambda rows: self._law(data.X[rows]).logpdf(data.y[rows]))
        return self

    def _keep(self, fields: tuple[Field, ...], problem: Problem) -> None:
        self._parts = solve_all(fields, problem.seen, slopes=False)
        kernels = tuple(field.kernel + WhiteKernel(float(np.exp(field.log_noise))) for field in fields)
        self.kernel_ = kernels[0] if len(kernels) == 1 else kernels
        self.log_evidence_ = sum(evidence(part)[0] for part in self._parts)

    def _moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (M, P) of the coordinates."""
        parts = [predicted(part, X) for part in self._parts]
        means = np.concatenate([mean for mean, _ in parts], axis=1)
        return means, np.concatenate([np.repeat(v[:, None], m.shape[1], axis=1) for m, v in parts], axis=1)

    @abc.abstractmethod
    def _law(self, X: FloatArray) -> CircleLaw:
        """The law at checked rows."""

    def predict_dist(self, X: Any) -> CircleLaw:
        """The law of the angle at every row of X, as one batch."""
        return self._law(queries(self, X))


class ProjectedGPRegressor(_FieldRegressor):
    r"""cos kψ = f₁(x) + ε₁, sin kψ = f₂(x) + ε₂, f Gaussian processes: kψ is the direction of a Gaussian in the plane.

    The density of the angle is that of the direction, a projected normal law with the 2 x 2 predictive covariance.

    Parameters
    ----------
    kernel : kernel of scikit-learn, optional
        Of f; a WhiteKernel at the end of a sum is the noise ε, else one is added. By default an unknown constant plus a
        Matérn kernel, of order 1/2 or 3/2, whichever the criterion prefers.
    selection : {"evidence", "loo"} or None, default "evidence"
        What hyper-parameters maximise: the marginal likelihood of the coordinates, or the log density on the circle of
        angles left out (where inputs repeat, one by one as well as with all others at their input); None keeps them as
        they are. Weak log-normal priors about their starts (standard deviation 1.5) keep fits to few data sane.
    angle_multiple : int, default 1
        k. With 2 the law of the angle has two equal halves, half a turn apart: for axes, and for two tides a day.
    pair : {"shared", "separate"}, default "shared"
        One set of hyper-parameters for both coordinates; or one each, along and across the principal axis of the
        data, so that the choice of the zero direction does not matter.
    n_starts : int, default 3
        Searches from different starts.
    tuning_rows : int, default 1500
        Hyper-parameters are learnt from at most so many inputs, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of the starts.
    verbose : int, default 0
        1 prints progress every other second.

    Attributes
    ----------
    kernel_ : kernel, or a pair of them
        With the learnt hyper-parameters, noise included.
    log_evidence_ : float
        Log marginal likelihood of the coordinates, a density in the plane and not on the circle.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Notes
    -----
    Equal inputs are merged, which is exact: cost grows with the cube of the number of different inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.models import ProjectedGPRegressor
    >>> x = np.linspace(0.0, 1.0, 30)[:, None]
    >>> y = 6.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.1, 30)
    >>> model = ProjectedGPRegressor().fit(x, y)
    >>> bool(abs(model.predict([[0.5]])[0] - 3.0) < 0.2)
    True
    >>> model.predict_dist([[0.5]]).interval(0.9).shape
    (1, 1, 2)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        selection: str | None = "evidence",
        angle_multiple: int = 1,
        pair: str = "shared",
        n_starts: int = 3,
        tuning_rows: int = 1500,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.kernel = kernel
        self.selection = selection
        self.angle_multiple = angle_multiple
        self.pair = pair
        self.n_starts = n_starts
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose

    def _outputs(self) -> int:
        return 1 if check.choice(self.pair, "pair", ["shared", "separate"]) == "shared" else 2

    def _prepare(self, found: Merged) -> tuple[Problem, float, float]:
        multiple = check.integer(self.angle_multiple, "angle_multiple", minimum=1)
        angles = multiple * found.groups.angles
        z, weights = np.exp(1j * angles), found.groups.weights
        first, second = np.average(z, weights=weights), np.average(z**2, weights=weights)
        # E (z - m)² points twice along the principal axis; one field for both coordinates does not see axes.
        self._turn = 0.0 if self._outputs() == 1 else 0.5 * float(np.angle(second - first**2))
        turned = found.groups._replace(angles=np.asarray(wrap(angles - self._turn)))
        variance = max(0.5 * (1.0 - abs(first) ** 2), 0.5 / (1.0 + weights.sum()) ** 2)
        problem = Problem.of(found.inputs, turned, _field_densities.projected, _field_densities.plane)
        return problem, variance, 0.5

    def _law(self, X: FloatArray) -> CircleLaw:
        means, variances = self._moments(X)
        cos, sin = np.cos(self._turn), np.sin(self._turn)
        turn = np.array([[cos, -sin], [sin, cos]])
        covariance = (turn * variances[:, None, :]) @ turn.T
        law = ProjectedNormal(means @ turn.T, 0.5 * (covariance + np.swapaxes(covariance, 1, 2)))
        return law if self.angle_multiple == 1 else folded(law, int(self.angle_multiple), means, variances)


class WrappedGPRegressor(_FieldRegressor):
    r"""ψ = μ + f(x) + ε modulo 2π, f a Gaussian process on the line; the density of the angle is wrapped normal.

    Angles are unwrapped around their mean direction μ, to [μ - π, μ + π). This serves angles that stay away from the
    cut at μ ± π, and no others: the method is here to be compared with.

    Parameters
    ----------
    kernel : kernel of scikit-learn, optional
        Of f; a WhiteKernel at the end of a sum is the noise ε, else one is added. By default an unknown constant plus a
        Matérn kernel, of order 1/2 or 3/2, whichever the criterion prefers.
    selection : {"evidence", "loo"} or None, default "evidence"
        What hyper-parameters maximise: the marginal likelihood on the line, or the log density on the circle of
        angles left out (where inputs repeat, one by one as well as with all others at their input); None keeps them as
        they are.
    n_starts : int, default 3
        Searches from different starts.
    tuning_rows : int, default 1500
        Hyper-parameters are learnt from at most so many inputs, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of the starts.
    verbose : int, default 0
        1 prints progress every other second.

    Attributes
    ----------
    kernel_ : kernel
        With the learnt hyper-parameters, noise included.
    center_ : float
        μ.
    log_evidence_ : float
        Log marginal likelihood of the unwrapped angles.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.models import WrappedGPRegressor
    >>> x = np.linspace(0.0, 1.0, 30)[:, None]
    >>> y = np.pi + x[:, 0] + np.random.default_rng(0).normal(0.0, 0.1, 30)
    >>> bool(abs(WrappedGPRegressor().fit(x, y).predict([[0.5]])[0] - (0.5 - np.pi)) < 0.2)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        selection: str | None = "evidence",
        n_starts: int = 3,
        tuning_rows: int = 1500,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.kernel = kernel
        self.selection = selection
        self.n_starts = n_starts
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose

    def _prepare(self, found: Merged) -> tuple[Problem, float, float]:
        groups = found.groups
        self.center_ = float(np.angle(groups.weights @ np.exp(1j * groups.angles)))
        turned = groups._replace(angles=np.asarray(wrap(groups.angles - self.center_)))
        # One angle, or few that are equal, do not show that there is no variance.
        variance = float(np.average(turned.angles**2, weights=groups.weights))
        variance = max(variance, _UNKNOWN / (1.0 + float(groups.weights.sum())) ** 2)
        problem = Problem.of(found.inputs, turned, _field_densities.wrapped, _field_densities.line)
        return problem, variance, variance

    def _law(self, X: FloatArray) -> CircleLaw:
        means, variances = self._moments(X)
        return WrappedNormal(self.center_ + means[:, 0], np.sqrt(variances[:, 0]))


def folded(law: ProjectedNormal, multiple: int, means: FloatArray, variances: FloatArray) -> GridDensity:
    """The law of ψ whose multiple kψ has the given law, alike in all k parts of the turn: f(ψ) = g(kψ)."""
    # Curvature of the log density: that of the mean's distance, and that of the covariance's axes.
    bend = ((means**2).sum(axis=1) + variances.max(axis=1)) / variances.min(axis=1)
    count = cells(4.0 * float(bend.max(initial=0.0)))
    nodes = -multiple * np.pi + 2.0 * np.pi / count * np.arange(count)
    return GridDensity(np.tile(law[:, None].logpdf(nodes), multiple))
