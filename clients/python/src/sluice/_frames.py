"""What every kind of frame can do: name its columns and their kinds, become bytes in batches, and take the answer."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ._http_errors import ColumnNameError, SluiceError

BATCH_ROWS = 65_536
BATCH_BYTES = 8 << 20
"""Rows and bytes of a batch. The service accepts 64 MiB."""

TEXT, NUMBER, DECIMAL, BOOLEAN, NULL = "text", "number", "decimal", "boolean", "null"
DATE, TIMESTAMP, MIXED, OTHER = "date", "timestamp", "mixed", "other"

ERROR_COLUMNS = ("error_code", "error_column", "error_message")


class Fault(NamedTuple):
    """Why a row was rejected."""

    code: str
    column: str | None
    message: str


class Frame(ABC):
    """A frame of one library.

    `names`: its columns. `kinds`: what each holds; `types`: the same as the library calls it. `rows`: None if it is
    not known before the end. `repeatable`: whether its rows can be read again.
    """

    suffix = "arrow"
    media_type = "application/vnd.apache.arrow.stream"
    has_columns = True
    repeatable = True
    names: list[str]
    kinds: Mapping[str, set[str]]
    types: Mapping[str, str]
    rows: int | None

    def __init__(self) -> None:
        self._answer = io.BytesIO()
        self._kept: list[str] = []

    def reserved(self, explain: bool) -> frozenset[str]:
        """Names that only this kind of frame gives to parts of the answer."""
        return frozenset()

    def keep(self, kept: Sequence[str]) -> None:
        """Columns that are copied to the result."""
        self._kept = list(kept)

    def begin_answer(self) -> Callable[[bytes], Any]:
        """Discards the answer to an earlier attempt. Returns what takes the bytes of the next one."""
        self._answer = io.BytesIO()
        return self._answer.write

    def adopt(self, other: Frame) -> None:
        """Takes the answer to another frame, for its columns."""
        self._answer = other._answer

    @abstractmethod
    def chunks(self, names: Sequence[str]) -> Iterator[bytes]:
        """The rows of these columns in the format `suffix`."""

    @abstractmethod
    def slice(self, start: int, rows: int) -> Frame:
        """Some rows as a frame of their own."""

    @abstractmethod
    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> Any:
        """The answer as the same kind of frame. `faults`: one per row; the answer then gives only the columns."""

    @abstractmethod
    def rejections(self, result: Any) -> tuple[int, list[dict[str, Any]]]:
        """The number of rejected rows, and the first 100 of them with `row` (from 0), `code` and `column`."""

    @abstractmethod
    def fix(self, names: Sequence[str], wanted: str, kind: str) -> str:
        """The line of code that gives these columns the kind `wanted`: text, number or boolean."""


def batch_rows(rows: int, size: int) -> int:
    """Rows of a batch, for a frame of `size` bytes."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))


def check_rows(expected: int | None, got: int) -> None:
    """Raises SluiceError if the answer lacks rows."""
    if expected is not None and expected != got:
        raise SluiceError(f"the answer has {got} rows instead of {expected}")


def refuse_duplicates(names: Sequence[str]) -> None:
    """Raises ColumnNameError if two columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ColumnNameError(f"the frame has columns twice: {', '.join(twice)}", unexpected=twice)


def quoted(names: Sequence[str], value: str) -> str:
    """The names as a dictionary of Python with this value."""
    import json

    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name in names) + "}"


def frame_of(frame: Any) -> Frame:
    """The adapter for a frame. Raises TypeError for other objects, and ImportError if pyarrow is missing for it."""
    library = type(frame).__module__.split(".")[0]
    if library == "pandas":
        if type(frame).__name__ == "Series" or not hasattr(frame, "columns"):
            raise TypeError("pass a DataFrame, such as frame[[name, …]] instead of a Series")
        need_pyarrow("a pandas DataFrame", "pandas")
        from ._pandas_frame import PandasFrame

        return PandasFrame(frame)
    if library == "polars":
        if type(frame).__name__ == "LazyFrame":
            raise TypeError("pass a DataFrame: call .collect() on the LazyFrame")
        if type(frame).__name__ != "DataFrame":
            raise TypeError("pass a polars DataFrame")
        from ._polars_frame import PolarsFrame

        return PolarsFrame(frame)
    if isinstance(frame, Sequence) and not isinstance(frame, (str, bytes)):
        from ._rows_frame import RowsFrame

        return RowsFrame(frame)
    if isinstance(frame, Mapping):
        raise TypeError("pass a list of dictionaries: [application]")
    if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        need_pyarrow(f"a {type(frame).__name__}", "pyarrow")
        from ._arrow_frame import arrow_frame

        return arrow_frame(frame)
    raise TypeError(
        f"{type(frame).__name__} is not a frame: pass a DataFrame of pandas or polars, a table of pyarrow, a relation "
        "of DuckDB, an object with __arrow_c_stream__, or a list of dictionaries"
    )


def need_pyarrow(what: str, extra: str) -> None:
    """Raises ImportError with the command that installs pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        wanted = "'sluice-client[pandas]'" if extra == "pandas" else "pyarrow"
        raise ImportError(f"{what} needs pyarrow: pip install {wanted}") from None
