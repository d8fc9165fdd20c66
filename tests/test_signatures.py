"""One habit for options: scikit-learn's words on estimators, SciPy's on functions and distributions."""

import importlib
import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from mgvm import CircularGPRegressor, CircularPCA, GvM, TorusMixture
from mgvm.regression.baselines import GvMRegressor

PACKAGES = [
    "angles",
    "circle",
    "datasets",
    "inference",
    "learning",
    "mixture",
    "pca",
    "plots",
    "regression",
    "regression.baselines",
    "scores",
    "tables",
    "torus",
]
# What estimators say, and functions for the same thing.
WORDS = {
    "random_state": "rng",
    "sample_weight": "weights",
    "max_iter": "max_iterations",
    "tol": "tolerance",
    "verbose": "progress",
}


def public_callables():
    """(name, callable, whether it belongs to an estimator) of all that a user may call."""
    for package in PACKAGES:
        module = importlib.import_module(f"mgvm.{package}")
        for name in [name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")]:
            thing = getattr(module, name)
            if not getattr(thing, "__module__", "").startswith("mgvm") or not callable(thing):
                continue
            is_estimator = inspect.isclass(thing) and issubclass(thing, BaseEstimator)
            yield f"{package}.{name}", thing, is_estimator
            ours = [base for base in getattr(thing, "__mro__", ()) if base.__module__.startswith("mgvm")]
            for method in {key for base in ours for key in vars(base) if not key.startswith("_")}:
                if callable(getattr(thing, method)) and not method.endswith("_request"):  # scikit-learn's own
                    yield f"{package}.{name}.{method}", getattr(thing, method), is_estimator


def test_options_are_called_by_one_habit():
    wrong, seen = [], set()
    for name, thing, is_estimator in public_callables():
        try:
            given = set(inspect.signature(thing).parameters)
        except (TypeError, ValueError):  # compiled, or an alias of a type
            continue
        # Data that are made have scikit-learn's word, as its own makers do.
        others = set(WORDS.values()) if is_estimator else set(WORDS)
        others -= {"random_state"} if name.startswith("datasets.make") else set()
        wrong += [f"{name}({word})" for word in given & others | given & {"seed", "n_iter", "weight", "callback"}]
        seen |= given & {*WORDS, *WORDS.values()}
    assert not wrong
    assert seen == {*WORDS, *WORDS.values()}  # or the test looks at nothing


def test_every_estimator_that_may_draw_takes_a_random_state():
    """Two have closed forms or one start, and draw nothing."""
    estimators = {name: thing for name, thing, ours in public_callables() if ours and inspect.isclass(thing)}
    without = {name for name, thing in estimators.items() if "random_state" not in inspect.signature(thing).parameters}
    assert without == {"pca.PPCA", "regression.baselines.GvMRegressor"}
    assert len(estimators) > 10  # or the test looks at nothing


X = np.linspace(0.0, 1.0, 12)[:, None]


@pytest.mark.parametrize(
    "act",
    [
        lambda state: GvM([1.0]).sample(3, rng=state),
        lambda state: GvMRegressor().fit(X, X[:, 0]).sample_y(X, 2, random_state=state),
        lambda state: TorusMixture(1, random_state=state).fit(np.hstack([X, X])),
        lambda state: CircularPCA(1, max_iter=2, random_state=state).fit(np.hstack([np.cos(6 * X), np.sin(6 * X)])),
        lambda state: CircularGPRegressor(selection=None, random_state=state).fit(X, X[:, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_source_of_randomness_is_a_seed_or_a_generator(act):
    with pytest.raises(TypeError, match="must be None, a seed"):
        act("seed")
    for state in (None, 3, np.random.default_rng(0), np.random.RandomState(0)):
        act(state)
