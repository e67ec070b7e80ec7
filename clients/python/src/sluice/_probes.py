"""Applications on which a conversion is compared with its model: a sample, boundary values, missing and unknown values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ._frame import Column, narrow_float
from ._tables import nothing, unknown_value

#: Rows of the frame that are compared.
SAMPLE_ROWS = 2000
#: Boundary values per column.
VALUES = 120
SEED = 9171


def sample_of(frame: pd.DataFrame, rows: int = SAMPLE_ROWS) -> pd.DataFrame:
    """A seeded sample of at most `rows` rows, in their order."""
    if len(frame) <= rows:
        return frame.reset_index(drop=True)
    chosen = np.sort(np.random.default_rng(SEED).choice(len(frame), rows, replace=False))
    return frame.iloc[chosen].reset_index(drop=True)


def fullest_row(frame: pd.DataFrame) -> int:
    """Position of the first row with the fewest missing values."""
    return int(np.argmin(frame.isna().to_numpy().sum(axis=1)))


def with_value(frame: pd.DataFrame, rows: Sequence[int], column: Column, value: Any) -> pd.DataFrame:
    """Rows of the frame with another value in one column."""
    out = frame.iloc[list(rows)].reset_index(drop=True)
    out[column.name] = column.series([value] * len(rows))
    return out


def some_rows(frame: pd.DataFrame, count: int, salt: int = 0) -> list[int]:
    """Positions of random rows."""
    chosen: list[int] = np.random.default_rng([SEED, salt]).integers(0, len(frame), count).tolist()
    return chosen


def missing_value(column: Column) -> Any:
    """What the frame has where a file has an empty cell: an empty text if the column has no other missing value."""
    if column.kind != "text":
        return np.nan
    return nothing(column) if column.values.isna().any() or "" not in column.distinct() else ""


def unseen_value(column: Column) -> Any:
    """A value that neither training nor the categories of the column have; None for booleans."""
    dtype = column.values.dtype
    categories = dtype.categories.tolist() if isinstance(dtype, pd.CategoricalDtype) else []
    return unknown_value(column, [*column.distinct(), *categories])


def neighbours(value: float) -> Iterator[float]:
    """A number, and the nearest float64 and float32 numbers on both sides."""
    yield value
    with np.errstate(all="ignore"):
        for direction in (-np.inf, np.inf):
            yield float(np.nextafter(value, direction))
            yield float(np.nextafter(np.float32(value), np.float32(direction)))


def boundary_values(column: Column, thresholds: Sequence[float]) -> list[float]:
    """Numbers around the thresholds of the model, around values and midpoints of the column, and beyond its range."""
    rng = np.random.default_rng(SEED)
    present = np.unique(np.asarray([float(v) for v in column.distinct()], dtype=np.float64))
    if len(present) == 0:
        return []

    def some(values: np.ndarray, count: int) -> list[float]:
        return rng.choice(values, min(count, len(values)), replace=False).tolist() if len(values) > 0 else []

    centres = [*some(np.unique(thresholds), 16), *some(present, 5), *some((present[1:] + present[:-1]) / 2, 5)]
    width = float(present[-1] - present[0]) or 1.0
    values = [0.0, float(present[0]) - width, float(present[-1]) + width, float(present[0]), float(present[-1])]
    for centre in centres:
        values += neighbours(centre)
    limit = float(np.finfo(np.float32).max)
    return [v for v in dict.fromkeys(values) if abs(v) < limit][:VALUES]


def boundary_frame(frame: pd.DataFrame, number: Column, values: Sequence[float]) -> pd.DataFrame:
    """Rows of the frame with other numbers in one column."""
    rows = np.random.default_rng(SEED).integers(0, len(frame), len(values))
    out = frame.iloc[rows].reset_index(drop=True)
    out[number.name] = np.asarray(values, dtype=narrow_float(number.values.dtype) or np.float64)
    return out
