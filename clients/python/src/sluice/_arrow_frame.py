"""Tables, batches and streams of Arrow through pyarrow, and relations of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ._frames import (
    BATCH_ROWS,
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
    refuse_duplicates,
)
from ._http_errors import SluiceError


EXTENSIONS = {"arrow.uuid": TEXT, "arrow.json": TEXT, "arrow.bool8": NUMBER}
"""Extension types that the service reads, with the kind of their values."""


def kind_of(kind: Any) -> str:
    """The kind of the values of an Arrow type."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return EXTENSIONS.get(kind.extension_name, OTHER)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return kind_of(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return TEXT
    if types.is_integer(kind) or types.is_floating(kind):
        return NUMBER
    tests = {
        DECIMAL: types.is_decimal,
        BOOLEAN: types.is_boolean,
        NULL: types.is_null,
        DATE: types.is_date,
        TIMESTAMP: types.is_timestamp,
    }
    return next((name for name, test in tests.items() if test(kind)), OTHER)


def size_of(batch: pa.RecordBatch) -> int:
    """Bytes of a batch; for types whose slices this version cannot measure, those of all their buffers."""
    try:
        return int(batch.nbytes)
    except pa.ArrowException:
        return int(batch.get_total_buffer_size())


class Pieces:
    """A file that keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        """Keeps bytes."""
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing waits."""

    def take(self) -> bytes:
        """The bytes since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def stream_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The batches as an Arrow stream, one piece per batch."""
    pieces = Pieces()
    with pa.ipc.new_stream(pa.PythonFile(pieces, mode="w"), schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
            yield pieces.take()
    yield pieces.take()


class ArrowFrame(Frame):
    """Batches of pyarrow. Subclasses say how to read them and what the result is."""

    def __init__(self, schema: pa.Schema, rows: int | None) -> None:
        super().__init__()
        refuse_duplicates(schema.names)
        self._schema = schema
        self.names = list(schema.names)
        self.kinds = {field.name: {kind_of(field.type)} for field in schema}
        self.types = {field.name: str(field.type) for field in schema}
        self.rows = rows
        self._kept_batches: list[pa.RecordBatch] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, with all columns."""
        raise NotImplementedError

    def chunks(self, names: Sequence[str]) -> Iterator[bytes]:
        schema = pa.schema([self._schema.field(name) for name in names])
        self._kept_batches = []

        def sent() -> Iterator[pa.RecordBatch]:
            rows = 0
            for batch in self.batches():
                if self._kept:
                    self._kept_batches.append(batch.select(self._kept))
                rows += batch.num_rows
                # The columns of other libraries may name the same type differently.
                chosen = batch.select(list(names))
                step = batch_rows(batch.num_rows, size_of(chosen))
                for start in range(0, batch.num_rows, step):
                    yield chosen.slice(start, step)
            self.rows = rows

        return stream_of(schema, sent())

    def kept_table(self) -> pa.Table:
        """The columns that are copied to the result."""
        schema = pa.schema([self._schema.field(name) for name in self._kept])
        return pa.Table.from_batches(self._kept_batches, schema)

    def answer(self, faults: Sequence[Fault] | None) -> pa.Table:
        """The answer, without the numbers of the rows."""
        self._answer.seek(0)
        answer = pa.ipc.open_stream(self._answer).read_all()
        if faults is not None:
            errors = dict(zip(ERROR_COLUMNS, zip(*faults)))
            columns = [
                pa.array(errors[field.name], field.type) if field.name in errors else pa.nulls(len(faults), field.type)
                for field in answer.schema
            ]
            answer = pa.table(columns, schema=answer.schema)
        else:
            check_rows(self.rows, answer.num_rows)
        self._table = answer.drop_columns(["row"])
        return self._table

    def with_kept(self, answer: pa.Table) -> pa.Table:
        """The copied columns, followed by the answer."""
        if not self._kept:
            return answer
        kept = self.kept_table()
        return pa.table([*kept.columns, *answer.columns], names=[*kept.column_names, *answer.column_names])

    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> Any:
        return self.with_kept(self.answer(faults))

    def rejections(self, result: Any) -> tuple[int, list[dict[str, Any]]]:
        codes = self._table["error_code"]
        count = len(codes) - codes.null_count
        if count == 0:
            return 0, []
        import pyarrow.compute as pc

        rows = pc.indices_nonzero(pc.is_valid(codes)).slice(0, 100).to_pylist()
        columns = self._table["error_column"]
        return count, [{"row": row, "code": codes[row].as_py(), "column": columns[row].as_py()} for row in rows]

    def fix(self, names: Sequence[str], wanted: str, kind: str) -> str:
        if wanted == TEXT and kind in (DATE, TIMESTAMP):
            name = repr(names[0])
            return (
                f"table = table.set_column(table.column_names.index({name}), {name}, table[{name}].cast(pa.string()))"
            )
        if wanted == TEXT:
            types = quoted(names, "pa.string()")
            return f"table = csv.read_csv(file, convert_options=csv.ConvertOptions(column_types={types}))"
        name = repr(names[0])
        target = "pa.bool_()" if wanted == BOOLEAN else "pa.float64()"
        return f"table = table.set_column(table.column_names.index({name}), {name}, table[{name}].cast({target}))"


class TableFrame(ArrowFrame):
    """A Table or RecordBatch of pyarrow."""

    def __init__(self, table: Any) -> None:
        super().__init__(table.schema, table.num_rows)
        self._source = table

    def batches(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self._source, pa.RecordBatch):
            yield self._source
        else:
            yield from self._source.to_batches(max_chunksize=BATCH_ROWS)

    def kept_table(self) -> pa.Table:
        selected = self._source.select(self._kept)
        return selected if isinstance(selected, pa.Table) else pa.Table.from_batches([selected])

    def slice(self, start: int, rows: int) -> TableFrame:
        return TableFrame(self._source.slice(start, rows))

    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> Any:
        table = super().result(kept, faults)
        if not isinstance(self._source, pa.RecordBatch):
            return table
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


class StreamFrame(ArrowFrame):
    """Any object with `__arrow_c_stream__`, which is read once. The result is a Table of pyarrow."""

    repeatable = False

    def __init__(self, source: Any) -> None:
        self._reader = source if isinstance(source, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(source)
        super().__init__(self._reader.schema, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._reader

    def slice(self, start: int, rows: int) -> Frame:
        if rows > 0:
            raise SluiceError(
                "no row could be scored, and the frame can be read only once: pass a table to get the reasons"
            )
        return TableFrame(self._schema.empty_table())


class DuckFrame(ArrowFrame):
    """A relation of DuckDB. Its query runs for each attempt."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        types = [(name, str(kind)) for name, kind in zip(relation.columns, relation.types)]
        super().__init__(pa.RecordBatchReader.from_stream(relation.limit(0)).schema, None)
        self.types = dict(types)
        self._table_of_slices: pa.Table | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        # A relation of its own each time: in earlier versions of DuckDB a relation can be read once.
        relation = self._relation.select("*")
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from read(BATCH_ROWS)

    def slice(self, start: int, rows: int) -> Frame:
        if self._table_of_slices is None:
            # The query can return its rows in another order each time, so slices and copied columns are of one result.
            batches = list(self.batches())
            self._table_of_slices = pa.Table.from_batches(batches) if batches else self._schema.empty_table()
            self._kept_batches = self._table_of_slices.select(self._kept).to_batches()
        return TableFrame(self._table_of_slices.slice(start, rows))

    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> Any:
        import duckdb

        return duckdb.from_arrow(super().result(kept, faults))

    def fix(self, names: Sequence[str], wanted: str, kind: str) -> str:
        if wanted == TEXT and kind not in (DATE, TIMESTAMP):
            return f"relation = duckdb.read_csv(file, dtype={quoted(names, repr('VARCHAR'))})"
        target = {TEXT: "VARCHAR", BOOLEAN: "BOOLEAN"}.get(wanted, "DOUBLE")
        casts = ", ".join(f'"{name}"::{target} AS "{name}"' for name in names)
        return f"relation = relation.select('* REPLACE ({casts})')"


def arrow_frame(frame: Any) -> ArrowFrame:
    """The adapter for an object of pyarrow, DuckDB or another library that exports Arrow."""
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        return TableFrame(frame)
    if type(frame).__name__ == "DuckDBPyRelation":
        return DuckFrame(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        return StreamFrame(frame)
    return TableFrame(pa.record_batch(frame))
