"""The regressor to take first: several kinds of regressors, weighted by how well each predicts what it has not seen.

`CircularRegressor.fit` fits its members to a few hundred inputs first, where there are more, and leaves out expensive
ones that the others do not miss there; the others are fitted to all rows. Weights are the best on held-out log
densities: leave-one-out where every input has one row, else whole inputs or groups held out, because a row tells too
much of those beside it.
"""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from mgvm import _validation as check
from mgvm._progress import ProgressLines
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression.base import (
    Training,
    are_among,
    check_groups,
    merge_replicates,
    number_inputs,
    said_once,
    split_whole,
    validate_training,
)
from mgvm.regression.baselines.forest import ForestCircularRegressor
from mgvm.regression.baselines.kernel import KernelCircularRegressor
from mgvm.regression.baselines.no_input import GvMRegressor
from mgvm.regression.baselines.planar_gp import ProjectedGPRegressor
from mgvm.regression.gp import CircularGPRegressor, check_noise_order
from mgvm.regression.harmonic import HarmonicGPRegressor
from mgvm.regression.prior import default_kernels
from mgvm.regression.stacking import MixedRegressor, mix_log_densities, simplex_weights

MEMBERS = ("harmonic", "planar", "kernel", "forest", "none")
FEW_MEMBERS = ("planar", "projected", "kernel", "none")
EXPENSIVE = ("harmonic", "planar")  # with many inputs, beside the others


@dataclass(frozen=True)
class FrontDoorSettings:
    """What a fit may cost, and what a member must be worth.

    `weighable` and `wide` have their measurements in `choose_members`. `whole`, `look`, `worth` and `concentrated` save
    time: on the eight data sets of Table 1 with more inputs than `whole` the mixture is ahead of every baseline, and at
    most 0.013 nats behind the harmonic process alone. That one wants more inputs than a look has where densities are
    narrow: of 4,300 winds over Europe it would take the place of the planar one, and lose 0.7 nats.
    """

    whole: int = 450  # distinct inputs up to which all members are fitted to all rows at once
    look: int = 300  # inputs of the early look, where there are more
    refine: int = 1500  # inputs up to which the planar process learns again from all of them
    worth: float = 0.005  # nats a row that the mixture must lose without an expensive member at the look
    least: float = 0.01  # weight below which a member is dropped
    chance: float = 1.0  # standard errors by which the mixture beats no input at all and that is still chance,
    proof: float = 2.0  # and from which on it is none
    n_folds: int = 5  # where whole inputs or groups are held out
    few: int = 10  # distinct inputs below which rows are held out all the same
    weighable: int = 20  # distinct inputs below which "auto" leaves out "harmonic" and "forest", for "projected"
    wide: float = 4.0  # columns an input from which so few are left to "projected" alone
    repeated: float = 0.8  # distinct inputs a row below which whole inputs are held out
    concentrated: float = 1.5  # nats a row, as of a scatter of 5 degrees, above which more than `whole` inputs are told
    # without "harmonic": its cost grows with the concentration
    uneven: float = 10.0  # ratio of the spreads of columns above which each is divided by its own
    extremes: float = 0.05  # share of columns left out at either end of that ratio: of thousands some hardly vary


SETTINGS = FrontDoorSettings()


class StackMember(NamedTuple):
    """What a member of a `CircularRegressor` has said.

    Attributes
    ----------
    name : str
        Of the member.
    weight : float
        Its share of the predictions; 0 where it was left out.
    seen_weight : float
        Its share of those at inputs of the training set.
    log_likelihood : float
        Its mean held-out log density in nats, of `inputs` distinct inputs.
    inputs : int
        Those it was judged by: fewer than all where it was left out after an early look.
    seconds : float
        CPU time of its fits.
    status : str
        "kept", "dropped" for its small weight, or "skipped" after the early look.
    """

    name: str
    weight: float
    seen_weight: float
    log_likelihood: float
    inputs: int
    seconds: float
    status: str


class CircularRegressor(MixedRegressor):
    """The regressor to take first: Gaussian processes, kernels, a forest and no input at all, mixed as the data want.

    p(ψ | x) = Σ_k w_k p_k(ψ | x), the weights w on the simplex by maximum likelihood on held-out angles. No member is
    best everywhere: the planar process is best for smooth fields seen with one kind of scatter, the harmonic one where
    spread, skew or modes follow the inputs, a forest with many columns. The mixture is hardly ever
    worse than the best of them.

    Parameters
    ----------
    members : "auto" or list of {"harmonic", "planar", "kernel", "forest", "none", "projected"}
        `HarmonicGPRegressor`, `CircularGPRegressor`, `KernelCircularRegressor`, `ForestCircularRegressor`,
        `GvMRegressor`, which sees no inputs, and `ProjectedGPRegressor`, learnt by leave-one-out. "auto" takes the
        first five, and "projected" too where columns outnumber distinct inputs; below 20 of these it takes "planar",
        "projected", "kernel" and "none", or "projected" alone of four columns an input or more. For other regressors,
        or options of these, there is `CircularStackingRegressor`.
    kernel : scikit-learn kernel, list of kernels or None
        Of all Gaussian processes; of a list "projected" takes none.
    noise_order : int or "auto"
        Harmonics of the planar process's noise, 12 at most.
    random_state : int, RandomState, Generator or None, default 0
        Of folds, samples, trees and starts.
    warm_start : bool, default False
        Take the last fit for the early look: learn from a few hundred rows, then refine on all of them. Gaussian
        processes that it did without are not fitted again.
    verbose : int, default 0
        1 prints progress every other second, 2 every fit.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; "compass" are degrees clockwise from north. `predict_dist` gives radians,
        and so do the fitted members inside.

    Attributes
    ----------
    weights_ : ndarray (K,)
        w of the members that are kept.
    seen_weights_ : ndarray (K,)
        w at inputs of the training set. Where whole inputs are held out, these are by rows left out one by one: the
        other rows of an input tell of it. Else they are `weights_`.
    estimators_, named_estimators_ : list, dict
        These members, fitted to all rows.
    members_ : list of StackMember
        What each member said: weight, held-out log-likelihood, CPU seconds, and what became of it.
    loo_log_density_ : ndarray (N,)
        Held-out log density of every training angle under the mixture: of a row left out where every input has one
        row, else of whole inputs or groups.
    held_out_ : str
        What was held out: "rows", "inputs" or "groups".
    scale_ : ndarray (p,)
        What columns are divided by: ones, or their standard deviations where these differ tenfold.

    Notes
    -----
    A member of a weight below 1 % is dropped. Of 20 inputs or groups and more, no input at all is kept alone where the
    mixture is not better by one standard error: what held-out rows seem to tell may then be chance. From two on it has
    its own weight, and between them one between. With more than 450 distinct inputs all members are fitted to 300
    first; a Gaussian process without which the mixture loses less than 0.005 nats there is not fitted to all. Nor is
    the harmonic one where another member tells more than 1.5 nats of each of them: concentrated densities cost it
    minutes, and are what the planar one is best at. It is fitted to anything if it stands alone.
    Densities of the planar process are recalibrated where rows are held out and that is better on rows not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import CircularRegressor
    >>> rng = np.random.default_rng(0)
    >>> hour = np.sort(rng.uniform(0, 24, 80))[:, None]
    >>> wind = rng.vonmises(np.sin(hour[:, 0] / 4), 20.0)
    >>> model = CircularRegressor().fit(hour, wind)
    >>> bool(np.abs(model.predict([[3.0], [18.0]]) - np.sin([0.75, 4.5])).max() < 0.2)
    True
    >>> sorted(model.named_estimators_, key=lambda name: -model.weights_[list(model.named_estimators_).index(name)])[0]
    'planar'
    """

    def __init__(
        self,
        members: str | list[str] = "auto",
        *,
        kernel: Any = None,
        noise_order: int | str = 1,
        random_state: Seed = 0,
        warm_start: bool = False,
        verbose: int = 0,
        unit: str = "radians",
    ) -> None:
        self.members = members
        self.kernel = kernel
        self.noise_order = noise_order
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.unit = unit

    @single_thread
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the members and their weights.

        Parameters
        ----------
        X : array_like, shape (N, p)
            Inputs.
        y : array_like, shape (N,)
            Angles in `unit`, any real numbers.
        sample_weight : array_like, shape (N,), optional
            How often each row counts.
        groups : array_like, shape (N,), optional
            Blocks (days, regions, subjects) that are held out whole when members are weighed. All rows of an input
            must be in one block.
        """
        check_noise_order(self.noise_order)
        data = validate_training(self, X, y, sample_weight, scales=False)
        self.scale_ = _spreads(data.X)
        self._merged = merge_replicates(data)
        data = data._replace(X=data.X / self.scale_)
        rows = _Rows.of(data, groups)
        self.held_out_ = rows.held_out
        say = ProgressLines("CircularRegressor", self.verbose)
        names = self._names(rows.n_inputs, data.X.shape[1])
        if self.warm_start and hasattr(self, "named_estimators_"):
            looks = {name: _Fit(estimator, np.empty(0), 0.0) for name, estimator in self.named_estimators_.items()}
            skipped = {name for name in names if name in EXPENSIVE and name not in looks}
        else:
            looks = self._look(names, rows, say) if rows.n_inputs > SETTINGS.whole and len(names) > 1 else {}
            skipped = (_choose_skipped(looks) | set(names) - set(looks)) if looks else set()
        fitted = [name for name in names if name not in skipped] or names
        members = {name: self._resume(name, looks, rows) for name in fitted}
        fits = _fit_members(members, rows, say, sparing=rows.n_inputs > SETTINGS.whole)
        self._keep(names, looks, fits, rows)
        return self

    def _names(self, n_inputs: int, n_columns: int) -> list[str]:
        if isinstance(self.members, str):
            check.choice(self.members, "members", ["auto"])
            return choose_members(n_inputs, n_columns)
        known = list(dict.fromkeys(MEMBERS + FEW_MEMBERS))
        names = [check.choice(name, "members", known) for name in self.members]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"members must be different names out of {', '.join(known)}, got {self.members!r}")
        return names

    def _make(self, name: str) -> Any:
        state = self.random_state
        if isinstance(state, (np.random.Generator, np.random.RandomState)):
            state = int(check.generator(state, "random_state").integers(2**31))
        verbose = int(self.verbose > 1)
        if name == "harmonic":
            return HarmonicGPRegressor(self.kernel, random_state=state, verbose=verbose)
        if name == "planar":
            # Densities of single inputs left out tell nothing of whole inputs or groups.
            recalibrate = "auto" if self.held_out_ == "rows" else None
            return CircularGPRegressor(
                self.kernel, self.noise_order, recalibrate=recalibrate, random_state=state, verbose=verbose
            )
        if name == "projected":
            kernel = None if isinstance(self.kernel, (list, tuple)) else self.kernel
            return ProjectedGPRegressor(kernel, selection="loo", random_state=state, verbose=verbose)
        if name == "kernel":
            return KernelCircularRegressor(random_state=state, verbose=verbose)
        if name == "forest":
            return ForestCircularRegressor(random_state=state, verbose=verbose)
        return GvMRegressor("auto")

    def _look(self, names: list[str], rows: _Rows, say: ProgressLines) -> dict[str, _Fit]:
        """All members fitted to a sample of the inputs."""
        some = rows.sample(SETTINGS.look, check.generator(self.random_state, "random_state"))
        made = {name: self._make(name) for name in names}
        if "planar" in made:
            made["planar"].set_params(recalibrate=None)  # it is judged as well without
        if "planar" in made and self.kernel is None and rows.groups is None and thins_out(rows.places, SETTINGS.look):
            # Length scales start as in one neighbourhood of the sample, not as between them.
            made["planar"].set_params(kernel=default_kernels(take_neighborhood(rows.places, SETTINGS.look)))
        return _fit_members(made, some, say, sparing=True)

    def _resume(self, name: str, looks: dict[str, _Fit], rows: _Rows) -> Any:
        """A member to be fitted to all rows: with what was learnt at the look where that saves time."""
        if name not in looks or name in ("kernel", "none"):
            return self._make(name)
        learnt = looks[name].estimator
        if name == "forest":
            return self._make(name).set_params(min_samples_leaf=learnt.min_samples_leaf_)
        if name == "harmonic":
            return copy.deepcopy(learnt).set_params(warm_start=True)
        again = rows.groups is None and rows.n_inputs <= SETTINGS.refine
        options = {"warm_start": True, "selection": "auto" if again else None}
        return copy.deepcopy(learnt).set_params(recalibrate=self._make(name).recalibrate, **options)

    def _keep(self, names: list[str], looks: dict[str, _Fit], fits: dict[str, _Fit], rows: _Rows) -> None:
        """The weights, the members that have some, and what all of them have said."""
        table = np.stack([fit.log_density for fit in fits.values()], axis=1)
        weights = seen = self._weigh(fits, table, rows)
        if rows.held_out == "inputs":
            by_rows = np.stack([fit.estimator.loo_log_density_ for fit in fits.values()], axis=1)
            seen = self._weigh(fits, by_rows, rows)
        kept = (weights > 0.0) | (seen > 0.0)
        shares = dict(zip(fits, zip(weights.tolist(), seen.tolist(), strict=True), strict=True))
        self.members_ = [_tell(name, looks.get(name), fits.get(name), shares.get(name), rows) for name in names]
        self.named_estimators_ = {name: fits[name].estimator for name, one in zip(fits, kept, strict=True) if one}
        for name, estimator in self.named_estimators_.items():
            estimator.set_params(**self._make(name).get_params(deep=False))
        self.estimators_ = list(self.named_estimators_.values())
        self.weights_, self.seen_weights_ = weights[kept], seen[kept]
        self.loo_log_density_ = mix_log_densities(table[:, kept], self.weights_)

    def _weigh(self, fits: dict[str, _Fit], table: FloatArray, rows: _Rows) -> FloatArray:
        """The weights for held-out log densities (N, K), none below the least that counts.

        No input at all has all the weight where the mixture is better by a standard error at most, and no more than its
        own from two on: of 200 rows that depend on nothing the others learnt some chance, which cost 0.009 nats.
        """
        weights = simplex_weights(table, rows.data.weights)
        weights[weights < min(SETTINGS.least, float(weights.max()))] = 0.0
        weights /= weights.sum()
        alone = np.array([name == "none" for name in fits])
        if alone.any() and rows.n_units >= SETTINGS.weighable:
            gain, error = rows.compare(mix_log_densities(table, weights), table[:, alone][:, 0])
            if gain < SETTINGS.proof * error:
                doubt = (SETTINGS.proof - gain / error) / (SETTINGS.proof - SETTINGS.chance)
                weights += min(doubt, 1.0) * (alone - weights)
        return weights

    def _weights_at(self, queries: FloatArray) -> FloatArray:
        seen = are_among(queries, self._merged.inputs)
        return np.where(seen[:, None], self.seen_weights_, self.weights_)

    def _scaled(self, checked: FloatArray, X: Any) -> Any:
        return checked / self.scale_


# ---- rows, and what of them is held out together --------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Training rows, the distinct input of each, and their groups where there are any."""

    data: Training
    input_of_row: np.ndarray
    groups: np.ndarray | None
    held_out: str  # "rows", "inputs" or "groups"

    @classmethod
    def of(cls, data: Training, groups: ArrayLike | None) -> _Rows:
        """With what is to be held out whole: groups, or inputs that have several rows each."""
        place = number_inputs(data)
        if groups is not None:
            codes = check_groups(groups, data.y.size)
            if codes.max() == 0:
                raise ValueError("groups has a single label; at least two blocks are needed to hold one out")
            return cls(data, place, codes, "groups")
        count = int(place.max()) + 1
        repeated = SETTINGS.few <= count < SETTINGS.repeated * data.y.size
        return cls(data, place, None, "inputs" if repeated else "rows")

    @property
    def n_inputs(self) -> int:
        """Distinct inputs."""
        return int(self.input_of_row.max()) + 1

    @property
    def places(self) -> FloatArray:
        """The distinct inputs (n_inputs, p)."""
        return self.data.X[np.unique(self.input_of_row, return_index=True)[1]]

    @property
    def units(self) -> np.ndarray:
        """What is held out together, as a number for every row."""
        return self.input_of_row if self.groups is None else self.groups

    @property
    def n_units(self) -> int:
        """Numbers of rows, inputs or groups that are held out one after the other."""
        return int(self.units.max()) + 1

    def compare(self, ours: FloatArray, others: FloatArray) -> tuple[float, float]:
        """The mean gain of held-out log densities over others, and its standard error over what is held out whole."""
        counts = self.data.weights
        gain = float(np.average(ours - others, weights=counts))
        sums = np.bincount(self.units, counts * (ours - others - gain))
        return gain, float(np.sqrt((sums**2).sum()) / counts.sum())

    def take(self, which: np.ndarray) -> _Rows:
        """Some of the rows."""
        place = np.unique(self.input_of_row[which], return_inverse=True)[1]
        groups = None if self.groups is None else self.groups[which]
        if groups is not None and np.unique(groups).size < 2:
            groups = None
        return _Rows(Training(*(part[which] for part in self.data)), place, groups, self.held_out)

    def sample(self, size: int, rng: np.random.Generator) -> _Rows:
        """About so many distinct inputs with all their rows; whole groups, where there are any."""
        if self.groups is not None:
            first = np.unique(self.input_of_row, return_index=True)[1]
            order = rng.permutation(int(self.groups.max()) + 1)
            reached = np.cumsum(np.bincount(self.groups[first], minlength=order.size)[order])
            chosen = order[: max(2, int(np.searchsorted(reached, size)) + 1)]
            return self.take(np.flatnonzero(np.isin(self.groups, chosen)))
        chosen = sample_places(self.places, size, rng)
        return self.take(np.flatnonzero(np.isin(self.input_of_row, chosen)))


def _spreads(X: FloatArray) -> FloatArray:
    """What columns are to be divided by."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = X.std(axis=0)
    varying = spread[(spread > 0.0) & np.isfinite(spread)]
    if varying.size < 2:
        return np.ones(X.shape[1])
    low = np.quantile(varying, SETTINGS.extremes, method="lower")
    high = np.quantile(varying, 1.0 - SETTINGS.extremes, method="higher")
    if high <= SETTINGS.uneven * low:
        return np.ones(X.shape[1])
    return np.where((spread > 0.0) & np.isfinite(spread), spread, 1.0)


def thins_out(places: FloatArray, size: int) -> bool:
    """Whether a random sample of so many rows would more than double the distances between neighbours."""
    rows, columns = places.shape
    return bool(rows > size * 2.0**columns)


def sample_neighborhoods(places: FloatArray, size: int, rng: np.random.Generator, count: int = 8) -> np.ndarray:
    """`size` rows in `count` neighbourhoods of rows that lie together, around rows drawn at random; sorted."""
    free = np.ones(len(places), dtype=bool)
    tree = cKDTree(places)
    for centre in rng.choice(len(places), count, replace=False):
        nearest = tree.query(places[centre], size)[1]
        free[nearest[free[nearest]][: size // count]] = False
    return np.flatnonzero(~free)


def sample_places(places: FloatArray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` rows drawn at random, sorted.

    Where these would be much less dense than all rows, they are taken in neighbourhoods instead, so that length scales
    and scatter are those of all.
    """
    if thins_out(places, size):
        return sample_neighborhoods(places, size, rng)
    return np.sort(rng.choice(len(places), size, replace=False))


def take_neighborhood(places: FloatArray, size: int) -> FloatArray:
    """The rows whose distances tell where length scales start: one neighbourhood, if a sample of `size` has several."""
    if not thins_out(places, size):
        return places
    return places[sample_neighborhoods(places, size // 8, np.random.default_rng(0), 1)]


# ---- members --------------------------------------------------------------------------------------------------------


def choose_members(n_inputs: int, n_columns: int) -> list[str]:
    """The members that "auto" takes.

    In many columns all inputs are about as far apart, and the variance that a process has at a new one says little of
    how far off its direction is: the planar process ties both together, for the projected one leave-one-out learns
    their ratio. Of a cycle seen in 12 to 768 noisy columns at 12 inputs, it is level at one column an input, and 0.1 to
    0.7 nats ahead from four on; at 40 inputs of 100 and 800 columns, 0.1 to 0.7. Where columns tell nothing, it is at
    most 0.04 behind.

    With few inputs and columns, leave-one-out hardly tells members apart, but it does tell what fails: on nine tasks of
    10 or 16 inputs kernels and no input at all beside both processes gain 0.07 to 0.1 nats, 0.8 on side chains.
    """
    if n_inputs < SETTINGS.weighable:
        return ["projected"] if n_columns >= SETTINGS.wide * n_inputs else list(FEW_MEMBERS)
    return [*MEMBERS, "projected"] if n_inputs < n_columns and n_inputs <= SETTINGS.whole else list(MEMBERS)


class _Fit(NamedTuple):
    """A member as fitted, the held-out log density of every row, and CPU seconds."""

    estimator: Any
    log_density: FloatArray
    seconds: float


def _fit_members(members: dict[str, Any], rows: _Rows, say: ProgressLines, *, sparing: bool = False) -> dict[str, _Fit]:
    """All members fitted to rows; if `sparing` without the harmonic process where others show concentrated densities.

    Its natural parameters grow with the concentration, and its cost with them, while angles so close to smooth curves
    are what the planar process is best at.
    """
    fits = {name: _fit_member(name, one, rows, say) for name, one in members.items() if name != "harmonic"}
    narrow = any(float(fit.log_density.mean()) > SETTINGS.concentrated for fit in fits.values())
    if "harmonic" in members and not (sparing and narrow):
        fits["harmonic"] = _fit_member("harmonic", members["harmonic"], rows, say)
    return {name: fits[name] for name in members if name in fits}


def _fit_member(name: str, estimator: Any, rows: _Rows, say: ProgressLines) -> _Fit:
    """A member fitted to rows; inference that did not converge is judged by what it predicts."""
    say(f"fitting {name} to {rows.data.y.size:,} rows")
    begin = time.process_time()
    with said_once():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _fit(estimator, rows)
        values = _hold_out(estimator, rows, say)
    return _Fit(estimator, values, time.process_time() - begin)


def _fit(estimator: Any, rows: _Rows) -> Any:
    takes = rows.groups is not None and has_fit_parameter(estimator, "groups")
    takes = takes and getattr(estimator, "selection", "auto") is not None
    options = {"groups": rows.groups} if takes else {}
    return estimator.fit(rows.data.X, rows.data.y, sample_weight=rows.data.weights, **options)


def _hold_out(estimator: Any, rows: _Rows, say: ProgressLines) -> FloatArray:
    """log p of every row by what the estimator makes of the others, hyper-parameters kept."""
    # One distribution for all inputs hardly depends on which of many rows are held out.
    if rows.held_out == "rows" or isinstance(estimator, GvMRegressor):
        return np.asarray(estimator.loo_log_density_)
    if hasattr(estimator, "held_out_log_density_"):
        return np.asarray(estimator.held_out_log_density_)
    folds = split_whole(rows.units, SETTINGS.n_folds)
    out = np.empty(rows.units.size)
    for number, (train, test) in enumerate(folds):
        say(f"{type(estimator).__name__}: fold {number + 1} of {len(folds)}")
        part = rows.data.X[train], rows.data.y[train], rows.data.weights[train]
        if not part[2].any():
            part = part[0], part[1], np.ones(train.size)
        out[test] = _keep_learnt(estimator).fit(*part).log_density(rows.data.X[test], rows.data.y[test])
    return out


def _keep_learnt(estimator: Any) -> Any:
    """An estimator to be fitted to other rows with the hyper-parameters that it has learnt."""
    if isinstance(estimator, CircularGPRegressor):
        return copy.deepcopy(estimator).set_params(warm_start=True, selection=None)
    if isinstance(estimator, KernelCircularRegressor):
        return clone(estimator).set_params(bandwidth=estimator.bandwidth_)
    if isinstance(estimator, ForestCircularRegressor):
        return clone(estimator).set_params(min_samples_leaf=estimator.min_samples_leaf_)
    return clone(estimator)


def _choose_skipped(looks: dict[str, _Fit]) -> set[str]:
    """Expensive members that the mixture does not miss at the look, the least missed first."""
    skipped: set[str] = set()
    while True:
        left = [name for name in looks if name not in skipped]
        losses = {name: _loss_without(name, left, looks) for name in left if name in EXPENSIVE and len(left) > 1}
        if not losses or min(losses.values()) >= SETTINGS.worth:
            return skipped
        skipped.add(min(losses, key=lambda name: losses[name]))


def _loss_without(name: str, names: list[str], looks: dict[str, _Fit]) -> float:
    """Nats a row that the best mixture loses without a member."""
    return _mixture_score(names, looks) - _mixture_score([other for other in names if other != name], looks)


def _mixture_score(names: list[str], looks: dict[str, _Fit]) -> float:
    table = np.stack([looks[name].log_density for name in names], axis=1)
    return float(mix_log_densities(table, simplex_weights(table, np.ones(len(table)))).mean())


def _tell(
    name: str, look: _Fit | None, fit: _Fit | None, shares: tuple[float, float] | None, rows: _Rows
) -> StackMember:
    """What is told of a member."""
    seconds = sum(one.seconds for one in (look, fit) if one is not None)
    if fit is not None and shares is not None:
        mean = float(np.average(fit.log_density, weights=rows.data.weights))
        return StackMember(name, *shares, mean, rows.n_inputs, seconds, "kept" if any(shares) else "dropped")
    mean = float(look.log_density.mean()) if look is not None else np.nan
    inputs = SETTINGS.look if look is not None else 0
    return StackMember(name, 0.0, 0.0, mean, inputs, seconds, "skipped")
