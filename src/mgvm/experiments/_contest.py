"""What both tables share: a model is tried, and stands so far behind the best."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from mgvm.inference.result import ConvergenceWarning

SIGNIFICANT = 2.0  # standard errors
_Found = TypeVar("_Found")


class Ranked:
    """A score `behind` the best, with the paired standard `error` of that."""

    behind: float
    error: float

    @property
    def best(self) -> bool:
        """No model has a higher mean."""
        return self.behind == 0.0

    @property
    def worse(self) -> bool:
        """Behind the best by more than two standard errors."""
        return self.behind > SIGNIFICANT * self.error


class Tried(NamedTuple, Generic[_Found]):
    """What came of a trial, its CPU time, and whether no engine warned that it did not converge."""

    found: _Found
    cpu_seconds: float
    settled: bool


def tried(trial: Callable[[], _Found]) -> Tried[_Found]:
    """Time a trial and keep its warnings of convergence; all others are passed on.

    A fit that is interrupted keeps its best and says so; whoever pressed the key meant the whole table.
    """
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        found = trial()
    seconds = time.process_time() - begin
    unsettled = [one for one in caught if issubclass(one.category, ConvergenceWarning)]
    if any("interrupted" in str(one.message) for one in unsettled):
        raise KeyboardInterrupt
    for other in caught:
        if other not in unsettled:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return Tried(found, seconds, not unsettled)
