"""Frames of polars, which writes and reads Arrow streams itself."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from ._frames import (
    BOOLEAN,
    DATE,
    DECIMAL,
    ERROR_COLUMNS,
    NULL,
    NUMBER,
    OTHER,
    TEXT,
    TIMESTAMP,
    Fault,
    Frame,
    batch_rows,
    check_rows,
    quoted,
)

END_OF_STREAM = 8
"""Bytes of the marker that ends an Arrow stream."""
SAMPLE_ROWS = 10_000
FEW_TEXTS = 1_000
"""Texts of a column among SAMPLE_ROWS that are sent as a dictionary: half the bytes, and less work for both sides."""

CODES = tuple(int(part) for part in pl.__version__.split(".")[:2]) >= (1, 32)
"""Whether conversion to categories is safe: earlier versions of polars can hang in it."""


def kind_of(dtype: Any) -> str:
    """The kind of the values of a column."""
    # A type with named categories is not equal to pl.Categorical.
    if dtype in (pl.String, pl.Categorical) or isinstance(dtype, (pl.Categorical, pl.Enum)):
        return TEXT
    if dtype.is_decimal():
        return DECIMAL
    if dtype.is_numeric():
        return NUMBER
    named = {pl.Boolean: BOOLEAN, pl.Null: NULL, pl.Date: DATE, pl.Datetime: TIMESTAMP}
    return next((kind for known, kind in named.items() if dtype == known), OTHER)


class PolarsFrame(Frame):
    """A polars DataFrame."""

    def __init__(self, frame: pl.DataFrame) -> None:
        super().__init__()
        self._frame = frame
        self.names = frame.columns
        self.kinds = {name: {kind_of(dtype)} for name, dtype in frame.schema.items()}
        self.types = {name: str(dtype) for name, dtype in frame.schema.items()}
        self.rows = frame.height

    def chunks(self, names: Sequence[str]) -> Iterator[bytes]:
        sent = self._frame.select(names)
        step = batch_rows(sent.height, int(sent.estimated_size()))
        head = sent.head(SAMPLE_ROWS)
        repeated = [
            column.name
            for column in head.iter_columns()
            if CODES and column.dtype == pl.String and head.height == SAMPLE_ROWS and column.n_unique() <= FEW_TEXTS
        ]
        for start in range(0, max(sent.height, 1), step):
            buffer = io.BytesIO()
            part = sent.slice(start, step)
            part.with_columns([part[name].cast(pl.Categorical) for name in repeated]).write_ipc_stream(buffer)
            stream = buffer.getbuffer()
            # Each part is a stream of its own; only the first one contributes the description of the columns.
            schema = 8 + int.from_bytes(stream[4:8], "little")
            yield bytes(stream[schema if start > 0 else 0 : len(stream) - END_OF_STREAM])
        yield b"\xff\xff\xff\xff\x00\x00\x00\x00"

    def slice(self, start: int, rows: int) -> PolarsFrame:
        return PolarsFrame(self._frame.slice(start, rows))

    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> pl.DataFrame:
        self._answer.seek(0)
        answer = pl.read_ipc_stream(self._answer)
        if faults is not None:
            errors = dict(zip(ERROR_COLUMNS, zip(*faults)))
            answer = pl.DataFrame(
                [
                    pl.Series(name, errors.get(name, [None] * len(faults)), dtype=dtype)
                    for name, dtype in answer.schema.items()
                ]
            )
        else:
            check_rows(self.rows, answer.height)
        answer = answer.drop("row")
        return self._frame.select(kept).hstack(answer) if kept else answer

    def rejections(self, result: pl.DataFrame) -> tuple[int, list[dict[str, Any]]]:
        bad = (
            result.select("error_code", "error_column").with_row_index("row").filter(pl.col("error_code").is_not_null())
        )
        first = bad.head(100).rename({"error_code": "code", "error_column": "column"})
        return bad.height, first.to_dicts()

    def fix(self, names: Sequence[str], wanted: str, kind: str) -> str:
        if wanted == TEXT and kind in (DATE, TIMESTAMP):
            return f"frame = frame.with_columns(pl.col({', '.join(map(repr, names))}).dt.to_string())"
        if wanted == TEXT:
            return f"frame = pl.read_csv(file, schema_overrides={quoted(names, 'pl.String')})"
        return f"frame = frame.cast({quoted(names, 'pl.Boolean' if wanted == BOOLEAN else 'pl.Float64')})"
