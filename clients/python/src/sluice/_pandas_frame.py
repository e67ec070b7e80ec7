"""Frames of pandas. Each column is converted in batches, with a type that is fixed before the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import pyarrow as pa

from ._arrow_frame import ArrowFrame
from ._frames import (
    BOOLEAN,
    DATE,
    DECIMAL,
    MIXED,
    NULL,
    NUMBER,
    OTHER,
    TEXT,
    TIMESTAMP,
    Fault,
    batch_rows,
    quoted,
    refuse_duplicates,
)
from ._http_errors import ColumnNameError, ColumnTypeError

# What pandas finds in a column of objects, with the kind and the Arrow type of the values.
OBJECTS: dict[str, tuple[str, pa.DataType]] = {
    "string": (TEXT, pa.string()),
    "integer": (NUMBER, pa.int64()),
    "floating": (NUMBER, pa.float64()),
    "mixed-integer-float": (NUMBER, pa.float64()),
    "boolean": (BOOLEAN, pa.bool_()),
    # Texts keep all digits; the service reads them as numbers.
    "decimal": (DECIMAL, pa.string()),
    "empty": (NULL, pa.null()),
    "date": (DATE, pa.date32()),
    "datetime": (TIMESTAMP, pa.timestamp("us")),
    "datetime64": (TIMESTAMP, pa.timestamp("us")),
    "mixed": (MIXED, pa.null()),
    "mixed-integer": (MIXED, pa.null()),
}
NULLABLE = {pa.bool_(): pd.BooleanDtype(), pa.int32(): pd.Int64Dtype()}


class PandasFrame(ArrowFrame):
    """A pandas DataFrame. The result has its index."""

    def __init__(self, frame: pd.DataFrame) -> None:
        odd = [name for name in frame.columns if not isinstance(name, str)]
        if odd:
            texts = "get_level_values(-1)" if frame.columns.nlevels > 1 else "astype(str)"
            raise ColumnNameError(f"the names of the columns must be texts: frame.columns = frame.columns.{texts}")
        refuse_duplicates(frame.columns)
        self._frame = frame
        found = {name: self._type_of(frame[name]) for name in frame.columns}
        super().__init__(pa.schema([(name, kind) for name, (_, kind) in found.items()]), len(frame))
        own = {name: kind for name, (kind, _) in found.items() if kind is not None}
        self.kinds = {name: {own[name]} if name in own else self.kinds[name] for name in self.names}
        self.types = {name: str(dtype) for name, dtype in frame.dtypes.items()}
        self._decimals = {name for name, kind in own.items() if kind == DECIMAL}

    @staticmethod
    def _type_of(series: pd.Series) -> tuple[str | None, pa.DataType]:
        """The kind, if it does not follow from the type, and the Arrow type of a column."""
        if series.dtype == object:
            return OBJECTS.get(pd.api.types.infer_dtype(series, skipna=True), (OTHER, pa.null()))
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            if len(dtype.categories) == 0:
                return OBJECTS["empty"]
            if dtype.categories.dtype == object:
                inferred = pd.api.types.infer_dtype(dtype.categories, skipna=True)
                if inferred != "string":
                    return OBJECTS.get(inferred, (OTHER, pa.null()))
        elif dtype.kind == "f" and series.isna().all():
            # What pandas reads from an empty column of a file.
            return OBJECTS["empty"]
        try:
            return None, pa.array(series.iloc[:0], from_pandas=True).type
        except (pa.ArrowException, TypeError, ValueError):
            return OTHER, pa.null()

    def chunks(self, names: Sequence[str]) -> Iterator[bytes]:
        from ._arrow_frame import stream_of

        schema = pa.schema([self._schema.field(name) for name in names])
        return stream_of(schema, self._converted(schema))

    def _converted(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        columns = [self._frame[name] for name in schema.names]
        rows = len(self._frame)
        step = batch_rows(rows, sum(int(column.memory_usage(index=False)) for column in columns))
        for start in range(0, rows, step):
            arrays = [self._array(column.iloc[start : start + step], schema.field(column.name)) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(self, values: pd.Series, field: pa.Field) -> pa.Array:
        if not pa.types.is_dictionary(field.type) and isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype(object)
        if pa.types.is_null(field.type) and values.isna().all():
            return pa.nulls(len(values))
        if field.name in self._decimals:
            values = values.map(str, na_action="ignore")
        try:
            array = pa.array(values, type=field.type, from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            raise ColumnTypeError(
                f"column {field.name} has {self._unsent(field.type)}; "
                "read it as text:\n    " + self.fix([field.name], TEXT, MIXED),
                [field.name],
                self.fix([field.name], TEXT, MIXED),
            ) from None
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

    @staticmethod
    def _unsent(kind: pa.DataType) -> str:
        """The values that the type of a column cannot have."""
        if pa.types.is_null(kind):
            return "values of several types, or of a type that no model takes"
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return "texts that are not valid Unicode"
        return f"values that are not {kind}, such as very large whole numbers"

    def slice(self, start: int, rows: int) -> PandasFrame:
        return PandasFrame(self._frame.iloc[start : start + rows])

    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> pd.DataFrame:
        answer = self.answer(faults)
        result = answer.to_pandas(types_mapper=NULLABLE.get)
        result.index = self._frame.index
        for at, name in enumerate(kept):
            result.insert(at, name, self._frame[name].array)
        return result

    def fix(self, names: Sequence[str], wanted: str, kind: str) -> str:
        name = repr(names[0])
        if wanted == TEXT and kind in (DATE, TIMESTAMP):
            return f'frame[{name}] = pd.to_datetime(frame[{name}]).dt.strftime("%Y-%m-%d")'
        if wanted == TEXT:
            return f"frame = pd.read_csv(file, dtype={quoted(names, 'str')})"
        if wanted == BOOLEAN:
            return f'frame[{name}] = frame[{name}].astype("boolean")'
        if kind == BOOLEAN:
            return f'frame[{name}] = frame[{name}].astype("Int64")'
        return f"frame[{name}] = pd.to_numeric(frame[{name}])"
