"""Tabulates fitted encoders: the output for every category, for a missing value and for an unknown category."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ._encoding import MISSING_KEYS
from ._errors import Problem
from ._frame import Column, base_of, is_missing, large_float

#: Encodes a frame with the columns of a branch. Returns float64 [rows, features].
Encode = Callable[[pd.DataFrame], np.ndarray]


@dataclass
class Table:
    """Output of an encoder for one column. `rows`: text of a category → features.

    `missing`, `unseen`: features, or None if the encoder fails on such a value.
    """

    column: str
    boolean: bool
    rows: dict[str, tuple[float, ...]]
    missing: tuple[float, ...] | None
    unseen: tuple[float, ...] | None
    width: int


def unknown_value(column: Column, known: Sequence[Any]) -> Any:
    """A value of the column's type that is not known; None for booleans, and if every value of the type is known."""
    if column.is_boolean:
        return None
    present = [v for v in known if not is_missing(v)]
    if column.kind == "number":
        return unknown_number(base_of(column.values.dtype), present)
    text = "unknown to the encoder"
    while text in present:
        text += "*"
    return text


def unknown_number(base: Any, known: Sequence[Any]) -> Any:
    """A number of the numpy type `base` that is not known; None if there is none."""
    if base.kind in "iu" or all(isinstance(v, (int, np.integer)) for v in known):
        # In Python integers: a float cannot tell numbers above 2^53 apart.
        bounds = np.iinfo(base if base.kind in "iu" else np.int64)
        seen = {int(v) for v in known}
        after = max(seen, default=0) + 1017
        tried = [after, *range(int(bounds.max), int(bounds.max) - len(seen) - 1, -1)]
        return next((n for n in tried if bounds.min <= n <= bounds.max and n not in seen), None)
    cast = base.type if base.kind == "f" else float
    numbers = {float(v) for v in known}
    largest = max(numbers)
    for n in (
        largest + 1017.0,
        largest * 2 + 1017.0,
        largest / 2 - 1017.0,
        *(k + 0.5 for k in range(len(numbers) + 1)),
    ):
        with np.errstate(over="ignore"):
            value = float(cast(n))
        if np.isfinite(value) and value not in numbers:
            return value
    return None


def tabulate(
    columns: Sequence[Column], categories: Sequence[Sequence[Any]], slices: Sequence[slice], encode: Encode
) -> list[Table] | Problem:
    """Tabulates each column of a branch whose features depend on one column each.

    `categories`: known values of each column. `slices`: the features of each column.
    """
    tables: list[Table] = []
    base = {c.name: next((v for v in known if not is_missing(v)), None) for c, known in zip(columns, categories)}
    lost = [c.name for c in columns if base[c.name] is None]
    if lost:
        return Problem(f"column {lost[0]}", "it has no value at all", "Remove it and fit again.")

    def run(column: Column, values: list[Any]) -> np.ndarray:
        frame = pd.DataFrame(
            {c.name: c.series(values if c is column else [base[c.name]] * len(values)) for c in columns}
        )
        return encode(frame)

    def one(column: Column, value: Any, part: slice) -> tuple[float, ...] | None:
        try:
            return tuple(run(column, [value])[0, part].tolist())
        except Exception:
            return None

    for column, known, part in zip(columns, categories, slices):
        values = list(dict.fromkeys([v for v in known if not is_missing(v)] + column.distinct()))
        problem = large_float(column, column.series(values).tolist())
        if problem is not None:
            return problem
        table: dict[str, tuple[float, ...]] = {}
        own = column.series(values)
        try:
            outputs = [tuple(row) for row in run(column, values)[:, part].tolist()]
        except Exception:
            outputs = [one(column, v, part) for v in values]  # type: ignore[misc]
        missing = one(column, np.nan if column.kind != "text" else nothing(column), part)
        unknown = unknown_value(column, values)
        unseen = None if unknown is None else one(column, unknown, part)
        for value, output in zip(own.tolist(), outputs):
            if output is None:
                continue
            for text in column.texts(value):
                if text in MISSING_KEYS:
                    if text == "" and not column.values.isna().any() and missing != output:
                        missing = output
                    if missing == output:
                        continue
                    return Problem(
                        f"column {column.name}",
                        f"a file does not distinguish its category {text!r} from a missing value, and the encoder treats them differently",
                        'Replace the category by another text, such as "no value", and fit again.',
                    )
                table[text] = output
        tables.append(Table(column.name, column.is_boolean, table, missing, unseen, part.stop - part.start))
    return tables


def nothing(column: Column) -> Any:
    """The missing value of a text column."""
    if isinstance(column.values.dtype, pd.StringDtype):
        return column.values.dtype.na_value
    absent = column.values[column.values.isna()]
    return absent.iloc[0] if len(absent) > 0 else np.nan
