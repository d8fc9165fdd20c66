"""The only place that checks what a user hands in.

Every function returns a clean NumPy value or raises one error that names the value, the cause and the cure.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
# What `generator` makes a generator of.
Seed: TypeAlias = int | np.integer[Any] | np.random.SeedSequence | np.random.Generator | np.random.RandomState | None


class DegreesWarning(UserWarning):
    """Angles were expected in radians and look like degrees."""


def _refuse(bad: NDArray[np.bool_], values: NDArray[Any], must: str, cure: str = "") -> None:
    """Raise with what must be, the first offending value, where it stands, and a cure, where there is one."""
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" at index {index[0] if len(index) == 1 else index}" if index else ""
        raise ValueError(f"{must}, got {values[index]!s}{where}{cure}")


def _number_array(value: Any, name: str, dtype: type) -> NDArray[Any]:
    kind = "complex" if dtype is complex else "real"
    if value is None:
        raise TypeError(f"{name} must be {kind} numbers, got None")
    try:
        # A masked number is a missing one.
        array = np.ma.filled(_cast(value, dtype), np.nan) if np.ma.is_masked(value) else np.asarray(value)
        if array.dtype.kind in "USO" and array.size:
            # pandas hands over object columns of numbers; text is refused even where it spells a number.
            if any(isinstance(item, (str, bytes)) for item in array.ravel()):
                raise TypeError
            items = [np.nan if item is None or type(item).__name__ == "NAType" else item for item in array.ravel()]
            array = np.array(items, dtype=dtype).reshape(array.shape)
        if array.dtype.kind == "M" or array.dtype.kind == "m":
            raise TypeError
        if dtype is float and array.dtype.kind == "c":
            raise TypeError
        return np.asarray(_cast(array, dtype))
    except OverflowError:
        raise ValueError(f"{name} holds a whole number beyond 1.8e308, the largest double; scale it down") from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be {kind} numbers, got {_describe(value)}; convert it to a {kind} array first"
        ) from None


def _cast(array: Any, dtype: type) -> Any:
    """An array of the type; numbers beyond the doubles become infinite, which is told where infinities are refused."""
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)


@contextmanager
def validating(name: str, value: Any = None) -> Iterator[None]:
    """Around scikit-learn's own checks: these look for NaN by a sum, which may overflow, and pass by huge integers.

    Dates in `value`, which they turn into days since 1970, are refused.
    """
    kinds = value.dtypes if hasattr(value, "dtypes") else [getattr(value, "dtype", None)]
    if any(getattr(kind, "kind", "") in ("M", "m") for kind in np.atleast_1d(np.asarray(kinds, dtype=object))):
        raise TypeError(f"{name} must be real numbers, got dates or times; make them angles or numbers first")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except OverflowError:
        raise ValueError(f"{name} holds a whole number beyond 1.8e308, the largest double; scale it down") from None


def _describe(value: Any) -> str:
    if hasattr(value, "select_dtypes"):  # a pandas frame, whose text would show its numbers
        names = ", ".join(map(str, value.select_dtypes(exclude="number")))
        return f"a DataFrame whose columns {names if len(names) <= 200 else names[:199] + '…'} are not numbers"
    if hasattr(value, "iloc"):  # a pandas column, whose text would show its index
        return f"a {type(value).__name__} of {value.dtype}" + ("" if value.name is None else f", {value.name!r}")
    try:
        text = repr(value)
    except ValueError:  # Python does not write out integers of more than 4300 digits
        return f"a very large {type(value).__name__}"
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def real(value: ArrayLike, name: str) -> FloatArray:
    """Real numbers, NaN and infinities allowed."""
    return _number_array(value, name, float)


def finite(value: ArrayLike, name: str) -> FloatArray:
    """Finite real numbers."""
    array = real(value, name)
    _refuse(~np.isfinite(array), array, f"{name} must be finite", "; remove or repair it first")
    return array


def finite_or_nan(value: ArrayLike, name: str) -> FloatArray:
    """Real numbers where NaN marks a missing one; infinities are refused."""
    array = real(value, name)
    _refuse(np.isinf(array), array, f"{name} must be finite or NaN", "; mark a missing value with NaN")
    return array


def finite_complex(value: ArrayLike, name: str) -> ComplexArray:
    """Finite complex numbers."""
    array = _number_array(value, name, complex)
    _refuse(~np.isfinite(array), array, f"{name} must be finite", "; remove or repair it first")
    return array


def non_negative(value: ArrayLike, name: str) -> FloatArray:
    """Finite real numbers, none below zero."""
    array = finite(value, name)
    _refuse(array < 0, array, f"{name} must be >= 0")
    return array


def positive(value: ArrayLike, name: str) -> FloatArray:
    """Finite real numbers above zero."""
    array = finite(value, name)
    _refuse(array <= 0, array, f"{name} must be > 0")
    return array


def fraction(value: ArrayLike, name: str) -> FloatArray:
    """Numbers strictly between 0 and 1."""
    array = finite(value, name)
    _refuse((array <= 0) | (array >= 1), array, f"{name} must lie strictly between 0 and 1")
    return array


def single_fraction(value: ArrayLike, name: str) -> float:
    """One number strictly between 0 and 1."""
    return _single(fraction(value, name), name)


def single_non_negative(value: ArrayLike, name: str) -> float:
    """One finite number, not below zero."""
    return _single(non_negative(value, name), name)


def single_positive(value: ArrayLike, name: str) -> float:
    """One finite number above zero."""
    return _single(positive(value, name), name)


def _single(array: FloatArray, name: str) -> float:
    if array.ndim:
        raise ValueError(f"{name} must be a single number, got shape {array.shape}; call once for each")
    return float(array)


def at_most(value: ArrayLike, largest: float, name: str) -> FloatArray:
    """Numbers up to `largest`, beyond which double precision gives no answer."""
    array = real(value, name)
    cure = ": doubles cannot resolve so narrow a distribution; treat such angles as exactly known"
    _refuse(~(array <= largest), array, f"{name} must be at most {largest:g}", cure)
    return array


def moderate_scale(least: FloatArray, most: FloatArray, name: str, reach: float = 1e152) -> None:
    """Refuse columns, given by their smallest and largest numbers, whose squares or variances leave the doubles."""
    size = float(max(np.abs(least).max(), np.abs(most).max()))
    if size > reach:
        raise ValueError(f"{name} holds numbers up to {size:.3g}, whose squares overflow; divide by their scale first")
    spread = float((most - least).max())
    if 0.0 < spread < 1.0 / reach:
        raise ValueError(f"the columns of {name} vary by {spread:.3g} at most, whose square underflows; scale them up")


def observed(value: ArrayLike, name: str) -> FloatArray:
    """Observed angles that may be none: finite, with a warning where they look like degrees."""
    array = angles(value, name)
    if array.size:
        _check_data(array, name)
    return array


def observed_or_nan(value: ArrayLike, name: str) -> FloatArray:
    """The same where NaN marks a missing one."""
    array = finite_or_nan(value, name)
    if array.size:
        _check_data(np.where(np.isnan(array), 0.0, array), name)
    return array


def angles(value: ArrayLike, name: str = "angles") -> FloatArray:
    """Angles in radians: any finite real number."""
    array = real(value, name)
    _refuse(~np.isfinite(array), array, f"{name} must be finite radians", "; drop or impute missing angles first")
    return array


def angle_data(value: ArrayLike, name: str = "data") -> FloatArray:
    """Observed angles: finite, at least one, with a warning where they look like degrees."""
    array = angles(value, name)
    _check_data(array, name)
    return array


def angle_data_or_nan(value: ArrayLike, name: str = "data") -> FloatArray:
    """Observed angles where NaN marks a missing one: at least one, with a warning where they look like degrees."""
    array = finite_or_nan(value, name)
    _check_data(np.where(np.isnan(array), 0.0, array), name)
    return array


def _check_data(array: FloatArray, name: str) -> None:
    """Refuse an empty array, and warn where the angles look like degrees."""
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}; at least one angle is needed")
    largest = float(np.abs(array).max())
    # Unwrapped radians rarely go beyond two full turns, degrees nearly always do.
    if 4.0 * np.pi < largest <= 720.0:
        warnings.warn(
            f"{name} reaches {largest:g}, more than two turns in radians: it looks like degrees. "
            "If so, convert it with mgvm.angles.from_degrees (or from_hours, from_compass)",
            DegreesWarning,
            stacklevel=4,
        )
    elif 720.0 < largest <= 1440.0 and (array == np.round(array)).all():
        warnings.warn(
            f"{name} are whole numbers that reach {largest:g}, many turns in radians: they look like minutes of the "
            "day. If so, convert them with mgvm.angles.from_hours(minutes, 1440)",
            DegreesWarning,
            stacklevel=4,
        )


def warn_of_unit(values: FloatArray, unit: str, name: str, fewest: int = 10) -> None:
    """Warn of angles that look like radians where another unit was said, or like degrees where those or hours were."""
    known = values[np.isfinite(values)]
    if known.size < fewest:
        return
    reach = float(np.abs(known).max())
    if unit == "hours" and reach > 48.0:
        found = f"{name} reaches {reach:g}, more than two days of hours: it looks like degrees"
    elif unit == "radians" and reach > 4.0 * np.pi:
        found = f"{name} reaches {reach:g}, more than two turns in radians: it looks like degrees or hours"
    elif unit in ("degrees", "compass") and reach <= 2.0 * np.pi and (known != np.round(known)).any():
        found = f"{name} stays within {reach:.3g}, little for {unit}: it looks like radians"
    else:
        return
    warnings.warn(f"{found}. If so, change the estimator's unit={unit!r}", DegreesWarning, stacklevel=4)


def warn_of_units(rows: FloatArray, unit: str | Sequence[str], X: Any) -> None:
    """The same for columns, each by its name in X; `unit` is that of all or has one for each."""
    for index, column in enumerate(rows.T):
        warn_of_unit(column, unit if isinstance(unit, str) else unit[index], name_columns(X, np.array([index])))


def weights(value: ArrayLike | None, shape: tuple[int, ...], name: str = "weights") -> FloatArray:
    """Non-negative weights of the given shape, ones when None; not all zero."""
    if value is None:
        return np.ones(shape)
    array = non_negative(value, name)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape of the data, {shape}, got {array.shape}")
    if not array.any():
        raise ValueError(f"{name} are all zero; at least one must be positive")
    return array


RELATIVE = "sums to"  # what stands between the name of weights and their total in the warning below


def warn_of_relative(weights: FloatArray, name: str, *, alone: float = 1.5, many: int = 10, level: int = 3) -> None:
    """Warn of counts that are as good as one observation, `alone` in all, over `many` rows: they may be shares."""
    total, rows = float(weights.sum()), int(np.count_nonzero(weights))
    if rows >= many and total < alone:
        warnings.warn(
            f"{name} {RELATIVE} {total:.3g} over {rows:,} rows: it counts copies of rows, so that the fit is as from "
            f"{'one observation' if total > 0.5 else 'less than one observation'}; if the weights are relative, "
            f"multiply them by {rows / total:.3g}, to a mean of 1",
            stacklevel=level,
        )


def weights_like(value: ArrayLike | None, shape: tuple[int, ...]) -> FloatArray:
    """Non-negative weights that broadcast to the given shape, ones when None; not all zero."""
    if value is None:
        return np.ones(shape)
    array = non_negative(value, "weights")
    try:
        return weights(np.broadcast_to(array, shape), shape)
    except ValueError:
        if array.size and not array.any():
            raise
        raise ValueError(f"weights must broadcast to the shape of the data, {shape}, got {array.shape}") from None


def axes(value: int | Iterable[int] | None, dimension: int, name: str = "axis") -> tuple[int, ...]:
    """Distinct axes of an array of the given dimension, counted from 0; all of them when None."""
    if value is None:
        return tuple(range(dimension))
    given = (value,) if isinstance(value, (int, np.integer)) else value
    try:
        numbers = [integer(item, name) for item in given]
    except TypeError:
        raise TypeError(f"{name} must be an integer, a tuple of integers or None, got {_describe(value)}") from None
    for number in numbers:
        if not -dimension <= number < dimension:
            raise ValueError(f"{name} {number} is out of range for data of {dimension} dimensions")
    counted = tuple(number % dimension for number in numbers)
    if len(set(counted)) < len(counted):
        raise ValueError(f"{name} names the same axis twice: {value}")
    return counted


def broadcast(**arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The named arrays broadcast against each other."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"shapes do not broadcast: {shapes}; give equal sizes or add axes of length 1") from None


def covariance(value: ArrayLike, dimension: int, name: str = "cov") -> FloatArray:
    """Symmetric positive definite matrices (..., dimension, dimension)."""
    array = finite(value, name)
    if array.shape[-2:] != (dimension, dimension):
        raise ValueError(f"{name} must have shape (..., {dimension}, {dimension}), got {array.shape}")
    scale = np.abs(array).max(axis=(-2, -1), initial=0.0, keepdims=True)
    if (np.abs(array - np.swapaxes(array, -1, -2)) > 1e-12 * scale).any():
        raise ValueError(f"{name} must be symmetric; symmetrise it as (C + C.T) / 2 if the difference is rounding")
    array = 0.5 * array + 0.5 * np.swapaxes(array, -1, -2)  # whose sum would overflow beyond 9e307
    try:
        np.linalg.cholesky(array)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(array)[..., 0].min())
        raise ValueError(
            f"{name} must be positive definite, its smallest eigenvalue is {smallest:g}; "
            "add a small multiple of the identity if it is only nearly singular"
        ) from None
    return array


def integer(value: Any, name: str, minimum: int | None = None) -> int:
    """A whole number, at least `minimum`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {_describe(value)}") from None
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be >= {minimum}, got {number}")
    return number


def shape(value: int | Iterable[int], name: str = "shape") -> tuple[int, ...]:
    """A tuple of sizes; a bare integer is one axis."""
    sizes = (value,) if isinstance(value, (int, np.integer)) else value
    try:
        return tuple(integer(size, name, minimum=0) for size in sizes)
    except TypeError:
        raise TypeError(f"{name} must be an integer or a tuple of integers, got {_describe(value)}") from None


def choice(value: Any, name: str, allowed: Iterable[str]) -> str:
    """One of the allowed strings."""
    options = list(allowed)
    if not isinstance(value, str) or value not in options:
        got = repr(value) if isinstance(value, str) else _describe(value)
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {got}")
    return str(value)


def generator(state: Seed, name: str = "rng") -> np.random.Generator:
    """Return a NumPy generator from None (fresh), a seed, a generator (used as it is) or a RandomState (one draw)."""
    if isinstance(state, np.random.RandomState):
        return np.random.default_rng(state.randint(2**31))
    try:
        return np.random.default_rng(state)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be None, a seed or a numpy.random.Generator, got {_describe(state)}") from None


def refuse_text(X: Any, cure: str) -> None:
    """Raise where columns hold text, which scikit-learn would name by their first value alone."""
    kinds = getattr(X, "dtypes", None)
    if kinds is None or not hasattr(X, "columns"):
        if getattr(getattr(X, "dtype", None), "kind", "f") not in "US":
            return
        columns = np.arange(1 if X.ndim < 2 else X.shape[1])
    else:
        texts = [name for name in X.columns if X[name].dtype.kind == "O" and X[name].map(type).eq(str).any()]
        columns = np.flatnonzero([name in texts or str(kinds[name]) in ("category", "str") for name in X.columns])
    if columns.size:
        raise ValueError(f"could not convert string to float: X has text in {name_columns(X, columns)}; {cure}")


def name_columns(X: Any, which: np.ndarray) -> str:
    """Columns by name where X has names, else by number."""
    names = getattr(X, "columns", None)
    shown = [repr(names[i]) if names is not None else str(i) for i in which[:5].tolist()]
    more = f" and {which.size - 5} more" if which.size > 5 else ""
    return f"column{'s' if which.size > 1 else ''} {', '.join(shown)}{more}"
