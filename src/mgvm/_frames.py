"""pandas at the door: names of columns that come in, tables that go out; pandas is loaded when a table is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Names = tuple[str, ...] | None


def column_names(data: Any) -> Names:
    """The names of a DataFrame's columns, where all of them are text; None of anything else."""
    columns = list(getattr(data, "columns", ()))
    return tuple(columns) if columns and all(isinstance(name, str) for name in columns) else None


def check_order(data: Any, names: Names, name: str = "x") -> None:
    """Refuse a DataFrame whose columns are not the angles, in their order; arrays and angles without names go by."""
    given = column_names(data)
    if names is not None and given is not None and given != names:
        raise ValueError(
            f"{name} has the columns {', '.join(given)}, and the angles are {', '.join(names)}; give "
            "these columns in this order"
        )


def check_names(names: Sequence[str] | None, count: int) -> list[Any]:
    """One name for each of so many angles; their numbers where there are no names."""
    if names is None:
        return list(range(count))
    if isinstance(names, str) or len(names) != count:
        raise ValueError(f"names must have one for each of the {count} angles, got {names!r}")
    return [str(name) for name in names]


def make_frame(columns: Mapping[Any, Any], index: Any = None) -> Any:
    """A pandas DataFrame of columns, given by name."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas; install it (pip install pandas), or use the arrays") from None
    return pandas.DataFrame(dict(columns), index=index)
