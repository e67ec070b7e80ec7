"""Reads the columns of a training frame: their kinds, the texts of their values in a CSV file, and their problems."""

from __future__ import annotations

import csv
import datetime
import io
import numbers
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from ._errors import Problem

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def is_missing(value: Any) -> bool:
    """Whether a scalar is None, NaN, NaT or pandas.NA."""
    return value is None or bool(pd.isna(value))


def text_of(value: Any) -> str:
    """The text of a category in files and in the encoding. A number has one text, whatever its type: `36` for 36.0."""
    if isinstance(value, (bool, np.bool_)):
        return "True" if value else "False"
    if isinstance(value, str):
        return value
    if isinstance(value, (numbers.Real, np.number)):
        return number_text(value)
    raise TypeError(f"a category of type {type(value).__name__}")


def number_text(value: Any) -> str:
    """The number as JavaScript writes it: `36`, `0.1`, `1e+21`.

    Sluice takes every notation of a number for a category only if all known values have this form. Integers keep all
    their digits, because above 2^53 several of them are the same number in JavaScript.
    """
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    sign, digits, exponent = Decimal(str(value if isinstance(value, np.floating) else float(value))).as_tuple()
    assert isinstance(exponent, int), value
    whole = "".join(map(str, digits)).lstrip("0")
    figures = whole.rstrip("0")
    if not figures:
        return "0"
    # The position of the decimal point, relative to the first figure.
    point = exponent + len(whole)
    if len(figures) <= point <= 21:
        text = figures + "0" * (point - len(figures))
    elif 0 < point <= 21:
        text = f"{figures[:point]}.{figures[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{figures}"
    else:
        text = f"{figures[0]}{'.' if len(figures) > 1 else ''}{figures[1:]}e{point - 1:+d}"
    return f"-{text}" if sign else text


def base_of(dtype: Any) -> Any:
    """The numpy type of a column's values: of its categories, and of the types that pandas and pyarrow add."""
    base = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    return getattr(base, "numpy_dtype", base)


def narrow_float(dtype: Any) -> Any:
    """float16 or float32 if a column has such numbers; files have them with fewer digits than a float64. Else None."""
    base = base_of(dtype)
    return base.type if isinstance(base, np.dtype) and base.kind == "f" and base.itemsize < 8 else None


def with_category_texts(values: pd.Series) -> pd.Series:
    """The column with the texts of the encoding instead of numbers."""
    listed = values.tolist()
    if not any(kind_of(v) == "number" for v in listed):
        return values
    narrow = narrow_float(values.dtype)
    absent = values.isna().tolist()
    texts = [None if a else text_of(v if narrow is None else narrow(v)) for v, a in zip(listed, absent)]
    return pd.Series(texts, index=values.index, dtype=object)


def csv_of(frame: pd.DataFrame) -> str:
    """The frame as CSV, as `to_csv(index=False)` writes it."""
    text: str = frame.to_csv(index=False)
    return text


def as_files(frame: pd.DataFrame, flags: Collection[str], categories: Collection[str] = ()) -> pd.DataFrame:
    """The frame as files have it: true and false in the columns `flags`, which have 1 and 0, and the texts of the
    encoding in the columns `categories`."""
    out = frame.copy()
    for name in out.columns:
        if name in flags and not pd.api.types.is_bool_dtype(out[name].dtype):
            out[name] = pd.Series(
                [None if is_missing(v) else bool(v) for v in out[name]], index=out.index, dtype=object
            )
        elif name in categories:
            out[name] = with_category_texts(out[name])
    return out


def cells_of(frame: pd.DataFrame) -> list[list[str]]:
    """The cells of the frame, row by row, as a reader of its CSV file gets them."""
    rows = list(csv.reader(io.StringIO(csv_of(frame), newline="")))
    # A row of one empty cell is an empty line.
    return [row or [""] for row in rows[1:]]


@dataclass(frozen=True)
class Column:
    """A column of the frame. `kind`: number, boolean or text. `flag`: files have true and false for its 1 and 0."""

    name: str
    kind: str
    values: pd.Series
    flag: bool = False

    @property
    def is_boolean(self) -> bool:
        """Whether files have true and false."""
        return self.flag or self.kind == "boolean"

    def texts(self, value: Any) -> list[str]:
        """The texts of a value in files, the one in `as_files` first."""
        if self.flag:
            return [text_of(bool(value))]
        narrow = narrow_float(self.values.dtype)
        if narrow is None or kind_of(value) != "number":
            return [text_of(value)]
        # CSV files have the shorter text of a float32, and binary files its exact value.
        return list(dict.fromkeys([text_of(narrow(value)), text_of(float(value))]))

    def distinct(self) -> list[Any]:
        """The values that occur, without missing ones, in the order of first appearance."""
        present = self.values[~self.values.isna()]
        return list(dict.fromkeys(present.tolist()))

    def series(self, values: Iterable[Any]) -> pd.Series:
        """A column with these values, of the type that pandas gives the training column with them."""
        listed = list(values)
        if self.kind == "text":
            if isinstance(self.values.dtype, pd.CategoricalDtype):
                return pd.Series(listed, dtype=object)
            return pd.Series(listed, dtype=self.values.dtype)
        absent = [is_missing(v) for v in listed]
        if pd.api.types.is_extension_array_dtype(self.values.dtype) and not isinstance(
            self.values.dtype, pd.CategoricalDtype
        ):
            return pd.Series([pd.NA if a else v for v, a in zip(listed, absent)], dtype=self.values.dtype)
        if self.kind == "boolean":
            if any(absent):
                return pd.Series([np.nan if a else bool(v) for v, a in zip(listed, absent)], dtype=object)
            return pd.Series([bool(v) for v in listed], dtype=bool)
        if self.values.dtype == object:
            # Encoders that were fitted on objects fail on numbers of another type.
            return pd.Series([np.nan if a else v for v, a in zip(listed, absent)], dtype=object)
        if self.values.dtype.kind == "f":
            return pd.Series([np.nan if a else v for v, a in zip(listed, absent)], dtype=self.values.dtype)
        return pd.Series([np.nan if a else v for v, a in zip(listed, absent)])


def large_float(column: Column, categories: Iterable[Any]) -> Problem | None:
    """The problem of a float of 2^53 or more as a category: files may write it in ways that Sluice cannot tell from
    those of other numbers."""
    large = [v for v in categories if isinstance(v, (float, np.floating)) and abs(v) >= 2**53]
    if not large:
        return None
    return Problem(f"column {column.name}", f"its category {float(large[0])!r} is a float above 2^53, where floats are not exact", 'Convert the column to texts before fitting, such as X["…"].astype(str).')  # fmt: skip


def read_column(frame: pd.DataFrame, name: str, flags: Collection[str] = ()) -> Column | Problem:
    """The column, or why its values cannot be carried over. `flags`: columns for whose 1 and 0 files have true and false."""
    values = frame[name]
    if isinstance(values.dtype, pd.SparseDtype):
        values = values.sparse.to_dense()
    dtype = values.dtype
    base = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    what = f"column {name}"
    if base.kind in "mM" or isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype, pd.IntervalDtype)):
        return Problem(what, f"its type is {dtype}", "Convert it to a number, such as days before the application.")
    if base.kind == "c":
        return Problem(what, "its numbers are complex", "Use its real and imaginary parts as two columns.")
    present = values[~values.isna()]
    if base.kind == "b" or str(base) == "boolean":
        return Column(name, "boolean", values)
    if base.kind == "f" and np.isinf(present.to_numpy(dtype=np.float64)).any():
        return Problem(what, "it has infinite numbers", "Replace them by a number, or by NaN.")
    if base.kind in "iuf":
        if name in flags and not set(present.unique().tolist()) <= {0, 1}:
            return Problem(what, "booleans= names it, and it has other numbers than 0 and 1", "Omit it from booleans=.")
        return Column(name, "number", values, flag=name in flags)
    kinds = {kind_of(v) for v in present.tolist()}
    if kinds - {"number", "boolean", "text"}:
        odd = sorted(kinds - {"number", "boolean", "text"})
        if "time" in odd:
            return Problem(
                what, "it has dates or times", "Convert it to a number, such as days before the application."
            )
        return Problem(what, f"it has values of type {', '.join(odd)}", "Use numbers, booleans or texts.")
    if len(kinds) > 1:
        return Problem(
            what,
            f"it mixes {' and '.join(sorted(kinds))} values",
            'Convert it to one type before fitting, such as X["…"].astype(str).',
        )
    kind = kinds.pop() if kinds else "text"
    if kind == "number" and any(isinstance(v, (float, np.floating)) and np.isinf(v) for v in present.tolist()):
        return Problem(what, "it has infinite numbers", "Replace them by a number, or by NaN.")
    if kind == "text" and any("\0" in v for v in present.unique().tolist()):
        return Problem(what, "a text contains a NUL character", "Remove the character before fitting.")
    return Column(name, kind, values)


def kind_of(value: Any) -> str:
    """The kind of a scalar: number, boolean, text, time, or the name of its type."""
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)):
        return "time"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return "number"
    return type(value).__name__
