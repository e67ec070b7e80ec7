"""Writes carriers.json.gz: the same values as every type of Arrow, Parquet, Avro and Protobuf, by the libraries that lenders use.

python3 -m venv v; v/bin/pip install -r requirements.txt; PYTHONPATH=clients/python/src v/bin/python test/oracle/types/make.py

Each carrier has a column `x`, and `row` with the numbers of the rows. `values` are what was given to the library, so that no reader of Sluice has a part in them: null;
{"n": digits} for a number, exact, or NaN, Infinity, -Infinity; {"b": true}; {"t": text}; {"o": text} for all other values, as they are
passed through. `kind` is the kind of the type.
"""
import base64
import datetime as dt
import decimal
import gzip
import io
import json
import pathlib
import sys
import tempfile
import uuid

import duckdb
import fastavro
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(tempfile.mkdtemp())
D = decimal.Decimal
UTC = dt.timezone.utc
decimal.getcontext().prec = 100
NAN, INF = float("nan"), float("inf")
carriers = {}


# ---------------------------------------------------------------- values


def digits(value):
    """A number as its exact text: a double as its shortest one, a decimal with the zeros that it has."""
    if isinstance(value, D):
        return "NaN" if value.is_nan() else format(value, "f")
    if isinstance(value, (float, np.floating)):
        value = float(value)
        return "NaN" if value != value else str(value).replace("inf", "Infinity") if abs(value) == INF else repr(value)
    return str(int(value))


def canonical(value, kind):
    if value is None:
        return None
    if kind in ("number", "decimal"):
        return {"n": digits(value)}
    if kind == "boolean":
        return {"b": bool(value)}
    return {"t" if kind == "text" else "o": value}


def add(name, format, kind, values, **more):
    assert name not in carriers, name
    carriers[name] = {"format": format, "kind": kind, "values": [canonical(v, kind) for v in values], **more}


def file(data):
    return base64.b64encode(data).decode()


INTS = [0, 1, 2, 7, 36, 100, -1, -7, -100, 127, 230, -999, 601, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**127 - 1, 2**128 - 1]  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, 36.0, 0.5, 1.5, 0.1, 36.6, -999.0, 601.0, 100.0, 230.0, 7.0, -1.0, 1e22, 5e-324, 1e300, 1e-40, 3.5e38, 65504.0, 2.0**53, 2.0**53 + 2, 2.0**63, 1234567.89, 1.234, 1234.0, NAN, INF, -INF]  # fmt: skip
DECIMALS = ["0", "1", "36", "36.0", "36.60", "0.1", "1.50", "-999", "100", "230", "601", "-7", "-0.05", "9007199254740993", "12345678901234567890.50", "1.234", "1234", "1e30", "1e60", "1e-30"]  # fmt: skip
TEXTS = ["", "A", "NULL", "36.0", " 36 ", "36", "3.6e1", "Zürich", "€ “x”", "007", "0230", "230", "1e2", "true", "false", "True", "1", "0", "1.50", "1.5", "-999", "-999.0", "NA", "NaN", "nan", "Infinity", "9007199254740993", "1,5", "1.234", "12 345", '"', "two\nlines", "日本 😀", "long " * 40, "2024-02-29", "Y", "N"]  # fmt: skip
BOOLEANS = [True, False]


def whole(bits, signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [v for v in INTS if low <= v <= high] + [None]


def floats(kind):
    """The values as the type has them: a float32 is not the double of the same digits."""
    with np.errstate(over="ignore"):
        return [float(kind(v)) for v in FLOATS] + [None]


def decimals(precision, scale):
    """Those that fit."""
    found = []
    for text in DECIMALS:
        value = D(text)
        unscaled = value.scaleb(scale)
        if unscaled == unscaled.to_integral_value() and abs(unscaled) < D(10) ** precision:
            # A negative scale has zeros before the point.
            found.append(value.quantize(D(1).scaleb(-scale)) if scale >= 0 else D(format(value, "f")))
    return found + [None]


DATES = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
MOMENTS = [dt.datetime(2024, 2, 29, 23, 59, 59, 123456), dt.datetime(1969, 12, 31, 0, 0, 0, 1), dt.datetime(1970, 1, 1), None]
TIMES = [dt.time(12, 34, 56, 123456), dt.time(0), dt.time(23, 59, 59, 999999), None]
SPANS = [dt.timedelta(seconds=1.5), dt.timedelta(days=-1), dt.timedelta(0), None]
BYTES = [b"", b"abcd", b"\x00\xff\x80\n", b"36", None]
UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}


def cut(value, unit):
    """A time with the digits of its unit."""
    keep = {"s": 1_000_000, "ms": 1_000}.get(unit, 1)
    return None if value is None else value.replace(microsecond=value.microsecond // keep * keep)


def iso(value, unit, end=""):
    if value is None:
        return None
    text = value.isoformat(timespec=UNITS.get(unit, "microseconds"))
    return f"{text}{'000' if unit == 'ns' else ''}{end}"


def span(value):
    if value is None:
        return None
    seconds = D(value.days * 86400 + value.seconds) + D(value.microseconds) / 1_000_000
    return f"{'-' if seconds < 0 else ''}PT{abs(seconds).normalize():f}S"


def shown(values, text):
    return [None if v is None else text(v) for v in values]


def rows(count):
    return list(range(count))


b64 = lambda b: base64.b64encode(b).decode()

# ---------------------------------------------------------------- Arrow

ARRAYS = {}
"""By name: the kind, the array and the values of `values`."""


def array(name, kind, values, type, given=None):
    ARRAYS[name] = (kind, pa.array(values if given is None else given, type), values)


for bits in (8, 16, 32, 64):
    array(f"int{bits}", "number", whole(bits, True), getattr(pa, f"int{bits}")())
    array(f"uint{bits}", "number", whole(bits, False), getattr(pa, f"uint{bits}")())
for bits in (16, 32, 64):
    kind = getattr(np, f"float{bits}")
    values = floats(kind)
    array(f"float{bits}", "number", values, getattr(pa, f"float{bits}")(), [None if v is None else kind(v) for v in values])
# A column whose values are all small, or finite, is read on another path than one that has a single other value.
for name, kind in (("int64", pa.int64()), ("uint64", pa.uint64())):
    array(f"{name}, small", "number", [v for v in whole(64, name == "int64") if v is None or abs(v) < 2**53], kind)
    array(f"{name}, largest", "number", [2**64 - 1 if name == "uint64" else -(2**63), None], kind)
for name, kind in (("float32", np.float32), ("float64", np.float64)):
    values = [v for v in floats(kind) if v is None or abs(v) < INF]
    array(f"{name}, finite", "number", values, getattr(pa, name)())
for bits, scales in {32: [(9, 0), (9, 2), (5, -2)], 64: [(18, 0), (18, 4)], 128: [(38, 0), (38, 10), (10, 3), (38, -3)], 256: [(76, 0), (76, 20), (50, 2), (76, -10), (76, 76)]}.items():  # fmt: skip
    for precision, scale in scales:
        type = getattr(pa, f"decimal{bits}")(precision, scale)
        array(f"decimal{bits}({precision},{scale})", "decimal", decimals(precision, scale), type)
for name in ("string", "large_string", "string_view"):
    array(name, "text", [*TEXTS, None], getattr(pa, name)())
array("timestamp[ns], far", "timestamp", ["1969-12-31T23:59:59.999999999", "2262-04-11T23:47:16.854775807", None], pa.timestamp("ns"), [-1, 2**63 - 1, None])
# Their statistics make the page headers of Parquet longer than most are.
array("long texts", "text", ["x" * 3000, "y" * 9000, "", None], pa.large_string())
array("bool", "boolean", [*BOOLEANS, None], pa.bool_())
array("null", "null", [None, None], pa.null())
array("date32", "date", shown(DATES, str), pa.date32(), DATES)
array("date64", "date", shown(DATES, str), pa.date64(), DATES)
for unit in ("s", "ms", "us", "ns"):
    # Nanoseconds reach from 1677 to 2262 only.
    far = [] if unit == "ns" else [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
    moments = [cut(v, unit) for v in [*far, *MOMENTS]]
    array(f"timestamp[{unit}]", "timestamp", [iso(v, unit) for v in moments], pa.timestamp(unit), moments)
    array(f"timestamp[{unit},UTC]", "timestamp", [iso(v, unit, "Z") for v in moments], pa.timestamp(unit, "UTC"), moments)
    array(f"timestamp[{unit},Berlin]", "timestamp", [iso(v, unit, "Z") for v in moments], pa.timestamp(unit, "Europe/Berlin"), [v and v.replace(tzinfo=UTC) for v in moments])
    kept = [v for v in SPANS if v is None or unit != "s" or v.microseconds == 0]
    array(f"duration[{unit}]", "duration", shown(kept, span), pa.duration(unit), kept)
    type = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    array(f"time[{unit}]", "time", [iso(cut(v, unit), unit) for v in TIMES], type, [cut(v, unit) for v in TIMES])
for name in ("binary", "large_binary", "binary_view"):
    array(name, "binary", shown(BYTES, b64), getattr(pa, name)(), BYTES)
array("fixed_size_binary", "binary", shown(BYTES[1:3] + [None], b64), pa.binary(4), BYTES[1:3] + [None])
array("list", "nested", [[36], [1, 2], [], None], pa.list_(pa.int64()))
array("large_list", "nested", [["a"], None], pa.large_list(pa.string()))
array("fixed_size_list", "nested", [[36], [1], None], pa.list_(pa.float64(), 1))
array("struct", "nested", [{"a": 1}, None], pa.struct([("a", pa.int64())]))
array("map", "nested", [[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
uuids = [uuid.UUID(int=7), uuid.UUID(int=2**128 - 1), None]


def extension(name, kind, values, type, storage):
    ARRAYS[name] = (kind, pa.ExtensionArray.from_storage(type, storage), values)


extension("extension<uuid>", "text", shown(uuids, str), pa.uuid(), pa.array(shown(uuids, lambda u: u.bytes), pa.binary(16)))
extension("extension<json>", "text", ['{"a": 1}', "36", None], pa.json_(pa.string()), pa.array(['{"a": 1}', "36", None]))
extension("extension<bool8>", "number", [1, 0, None], pa.bool8(), pa.array([1, 0, None], pa.int8()))

BASES = ["string", "large_string", "string_view", "int8", "int64", "uint64", "float64", "float32", "bool", "decimal128(38,10)", "date32", "binary"]
for base in BASES:
    kind, dense, values = ARRAYS[base]
    # The last value is the null.
    words = dense.slice(0, len(dense) - 1)
    codes = [*range(len(words)), None]
    for index in ("int8", "uint8", "int32", "uint32", "int64") if base in ("string", "int64", "bool") else ("int16",):
        type = pa.dictionary(getattr(pa, index)(), dense.type)
        encoded = pa.DictionaryArray.from_arrays(pa.array(codes, getattr(pa, index)()), words)
        ARRAYS[f"dictionary<{index},{base}>"] = (kind, encoded, values)
    # A null may be in the dictionary instead.
    with_null = pa.DictionaryArray.from_arrays(pa.array(range(len(dense)), pa.int32()), dense)
    ARRAYS[f"dictionary with null<{base}>"] = (kind, with_null, values)
    if base in ("string_view",):
        continue
    for ends in ("int16", "int32", "int64") if base == "string" else ("int32",):
        runs = pa.array([2 * (i + 1) for i in range(len(dense))], getattr(pa, ends)())
        ARRAYS[f"runs<{ends},{base}>"] = (kind, pa.RunEndEncodedArray.from_arrays(runs, dense), [v for v in values for _ in range(2)])


def stream(table, **options):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


for name, (kind, data, values) in ARRAYS.items():
    table = pa.table({"x": data, "row": rows(len(data))})
    add(f"arrow {name}", "arrow", kind, values, file=file(stream(table)))
for name in ("int64", "float32", "decimal128(38,10)", "string", "bool", "dictionary<int32,string>"):
    kind, data, values = ARRAYS[name]
    table = pa.table({"x": data, "row": rows(len(data))})
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=7)
    add(f"arrow file, zstd, batches of 7: {name}", "arrow", kind, values, file=file(out.getvalue()))
    add(f"arrow lz4: {name}", "arrow", kind, values, file=file(stream(table, compression="lz4")))


# ---------------------------------------------------------------- Parquet


def parquet(name, kind, values, table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    add(f"parquet {name}", "parquet", kind, values, file=file(out.getvalue()))


PLAIN = dict(use_dictionary=False, data_page_version="2.0", compression="none")
# What Parquet has no type for is stored as another one: seconds as milliseconds, bytes without an annotation. The type of durations is in
# the Arrow schema of the file.
for name, (kind, data, values) in ARRAYS.items():
    if name in ("timestamp[s]", "timestamp[s,UTC]", "timestamp[s,Berlin]"):
        values = [v and v.rstrip("Z") + ".000" + ("Z" if v.endswith("Z") else "") for v in values]
    if name == "time[s]":
        values = [v and f"{v}.000" for v in values]
    if kind == "binary" and "fixed" not in name:
        # Bytes without an annotation are text.
        kind, values = "text", shown([b for b in BYTES if b is None or b != b"\x00\xff\x80\n"], lambda b: b.decode())
        data = pa.array([b for b in BYTES if b != b"\x00\xff\x80\n"], pa.binary())
        if name != "binary":
            continue
    table = pa.table({"x": data, "row": rows(len(data))})
    try:
        parquet(f"{name}", kind, values, table)
    except (pa.ArrowException, NotImplementedError, OSError) as error:
        print("not in Parquet:", name, str(error)[:80], file=sys.stderr)
        continue
    if not name.startswith(("dictionary", "runs")):
        parquet(f"plain v2: {name}", kind, values, table, **PLAIN)


def encoded(bases, encoding, **options):
    for name in bases:
        kind, data, values = ARRAYS[name]
        parquet(f"{encoding}: {name}", kind, values, pa.table({"x": data, "row": rows(len(data))}), use_dictionary=False, column_encoding={"x": encoding}, **options)


encoded(["int8", "uint8", "int32", "uint32", "int64", "uint64"], "DELTA_BINARY_PACKED")
encoded(["string"], "DELTA_LENGTH_BYTE_ARRAY")
encoded(["string", "decimal128(38,0)", "decimal256(76,20)"], "DELTA_BYTE_ARRAY")
encoded(["float16", "float32", "float64", "int32", "uint32", "int64", "uint64", "decimal128(38,10)", "decimal256(50,2)"], "BYTE_STREAM_SPLIT", compression="zstd")  # fmt: skip
encoded(["bool"], "RLE", data_page_version="2.0")
for precision, scale in ((9, 2), (18, 4)):
    values = decimals(precision, scale)
    table = pa.table({"x": pa.array(values, pa.decimal128(precision, scale)), "row": rows(len(values))})
    parquet(f"decimal({precision},{scale}) as an integer", "decimal", values, table, store_decimal_as_integer=True)
moments = [cut(v, "us") for v in MOMENTS]
parquet("int96", "timestamp", [iso(v, "ns") for v in moments], pa.table({"x": pa.array(moments, pa.timestamp("us")), "row": rows(len(moments))}), use_deprecated_int96_timestamps=True)  # fmt: skip
for name in ("int64", "string", "float64", "bool"):
    kind, data, values = ARRAYS[name]
    dense = data.drop_null()
    schema = pa.schema([pa.field("x", dense.type, nullable=False), pa.field("row", pa.int64(), nullable=False)])
    parquet(f"required: {name}", kind, [v for v in values if v is not None], pa.table({"x": dense, "row": rows(len(dense))}, schema=schema))
    parquet(f"groups of 3: {name}", kind, values, pa.table({"x": data, "row": rows(len(data))}), row_group_size=3, write_statistics=False)

# ---------------------------------------------------------------- polars

PL_FLOATS, PL_FLOATS32 = floats(np.float64), floats(np.float32)
POLARS = {
    **{f"Int{b}": ("number", whole(b, True), None) for b in (8, 16, 32, 64)},
    **{f"UInt{b}": ("number", whole(b, False), None) for b in (8, 16, 32, 64)},
    "Float32": ("number", PL_FLOATS32, None),
    "Float64": ("number", PL_FLOATS, None),
    "Decimal(38,10)": ("decimal", decimals(38, 10), pl.Decimal(38, 10)),
    "Decimal(9,2)": ("decimal", decimals(9, 2), pl.Decimal(9, 2)),
    "String": ("text", [*TEXTS, None], None),
    "Categorical": ("text", [*TEXTS, None], None),
    "Enum": ("text", [*TEXTS, None], pl.Enum(TEXTS)),
    "Boolean": ("boolean", [*BOOLEANS, None], None),
    "Null": ("null", [None, None], None),
    "Binary": ("binary", shown(BYTES, b64), None, BYTES),
    "Date": ("date", shown(DATES[:2] + [None], str), None, DATES[:2] + [None]),
    "Datetime": ("timestamp", [iso(v, "us") for v in MOMENTS], pl.Datetime("us"), MOMENTS),
    "Datetime(UTC)": ("timestamp", [iso(v, "us", "Z") for v in MOMENTS], pl.Datetime("us", "UTC"), [v and v.replace(tzinfo=UTC) for v in MOMENTS]),
    "Time": ("time", [iso(v, "ns") for v in TIMES], None, TIMES),
    "Duration": ("duration", shown(SPANS, span), pl.Duration("us"), SPANS),
    "List": ("nested", [[36], [1, 2], None], pl.List(pl.Int64)),
    "Struct": ("nested", [{"a": 1}, None], pl.Struct({"a": pl.Int64})),
}
for name, (kind, values, dtype, *given) in POLARS.items():
    frame = pl.DataFrame({"x": pl.Series("x", given[0] if given else values, dtype=dtype or getattr(pl, name), strict=False), "row": rows(len(values))})
    for label, options in {"": {}, ", oldest": {"compat_level": pl.CompatLevel.oldest()}}.items():
        out = io.BytesIO()
        frame.write_ipc_stream(out, **options)
        add(f"polars arrow{label} {name}", "arrow", kind, values, file=file(out.getvalue()))
    # Bytes are text in Parquet.
    out = io.BytesIO()
    if name in ("Binary", "Null"):
        continue
    frame.write_parquet(out, use_pyarrow=False)
    add(f"polars parquet {name}", "parquet", kind, values, file=file(out.getvalue()))

# ---------------------------------------------------------------- DuckDB

connection = duckdb.connect()
DUCK = {
    **{name: ("number", [v for v in values if v is not None]) for name, values in {"TINYINT": whole(8, True), "UTINYINT": whole(8, False), "SMALLINT": whole(16, True), "USMALLINT": whole(16, False), "INTEGER": whole(32, True), "UINTEGER": whole(32, False), "BIGINT": whole(64, True), "UBIGINT": whole(64, False)}.items()},  # fmt: skip
    "FLOAT": ("number", PL_FLOATS32[:-1]),
    "DOUBLE": ("number", PL_FLOATS[:-1]),
    "DECIMAL(4,1)": ("decimal", decimals(4, 1)[:-1]),
    "DECIMAL(9,2)": ("decimal", decimals(9, 2)[:-1]),
    "DECIMAL(18,4)": ("decimal", decimals(18, 4)[:-1]),
    "DECIMAL(38,10)": ("decimal", decimals(38, 10)[:-1]),
    "BOOLEAN": ("boolean", BOOLEANS),
    "VARCHAR": ("text", TEXTS),
    "ENUM": ("text", ["36.0", "A", "007", "Zürich", "NULL"]),
    "UUID": ("text", [str(u) for u in uuids[:-1]]),
    "DATE": ("date", [str(d) for d in DATES[:2]]),
    "TIME": ("time", [iso(v, "us") for v in TIMES[:-1]]),
    "TIMESTAMP": ("timestamp", [iso(v, "us") for v in MOMENTS[:-1]]),
    "TIMESTAMPTZ": ("timestamp", [iso(v, "us", "Z") for v in MOMENTS[:-1]]),
    "INTEGER[]": ("nested", ["[36]", "[1, 2]"]),
}
connection.execute("SET TimeZone = 'UTC'")
for name, (kind, values) in DUCK.items():
    type = "ENUM ('36.0', 'A', '007', 'Zürich', 'NULL')" if name == "ENUM" else name
    connection.execute(f"CREATE OR REPLACE TABLE t (x {type}, row BIGINT)")
    for row, value in enumerate([*values, None]):
        connection.execute(f"INSERT INTO t VALUES (CAST(? AS {type}), {row})", [value if value is None or kind not in ("number", "decimal") else digits(value)])
    given = [*values, None]
    path = FOLDER / "duck.parquet"
    connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    add(f"duckdb parquet {name}", "parquet", kind, given, file=file(pathlib.Path(path).read_bytes()))
    reader = connection.sql("SELECT * FROM t").to_arrow_table()
    add(f"duckdb arrow {name}", "arrow", kind, given, file=file(stream(reader)))

# ---------------------------------------------------------------- pandas and fastparquet

PANDAS = {
    "int64": ("number", whole(64, True)[:-1], lambda v: pd.Series(v, dtype="int64")),
    "uint8": ("number", whole(8, False)[:-1], lambda v: pd.Series(v, dtype="uint8")),
    "uint64": ("number", whole(64, False)[:-1], lambda v: pd.Series(v, dtype="uint64")),
    "int64 with gaps": ("number", [None, 1.0, 36.0, -999.0, 230.0], lambda v: pd.Series([np.nan, 1, 36, -999, 230])),
    "float32": ("number", [v if v == v else None for v in PL_FLOATS32], lambda v: pd.Series(v, dtype="float32")),
    "float64": ("number", [v if v == v else None for v in PL_FLOATS], lambda v: pd.Series([None if x is None else x for x in v], dtype="float64")),
    "Int64": ("number", whole(64, True), lambda v: pd.Series(v, dtype="Int64")),
    "UInt8": ("number", whole(8, False), lambda v: pd.Series(v, dtype="UInt8")),
    "Float32": ("number", [0.5, 36.0, 1.0, None], lambda v: pd.Series(v, dtype="Float32")),
    "Float64": ("number", [0.5, 36.6, 36.0, 1.0, None], lambda v: pd.Series(v, dtype="Float64")),
    "bool": ("boolean", BOOLEANS, lambda v: pd.Series(v, dtype="bool")),
    "boolean": ("boolean", [*BOOLEANS, None], lambda v: pd.Series(v, dtype="boolean")),
    "object of booleans": ("boolean", [*BOOLEANS, None], lambda v: pd.Series(v, dtype="object")),
    "object of texts": ("text", [*TEXTS, None], lambda v: pd.Series(v, dtype="object")),
    "object of integers": ("number", [1, 36, -999, None], lambda v: pd.Series(v, dtype="object")),
    "object of integers and floats": ("number", [1, 36.5, 36.0, None], lambda v: pd.Series(v, dtype="object")),
    "object of decimals": ("decimal", [D("36.60"), D("36.00"), D("1.50"), D("-999.00"), None], lambda v: pd.Series(v, dtype="object")),
    "object of dates": ("date", shown(DATES[:2] + [None], str), lambda v: pd.Series(DATES[:2] + [None], dtype="object")),
    "string[python]": ("text", [*TEXTS, None], lambda v: pd.Series(v, dtype="string[python]")),
    "string[pyarrow]": ("text", [*TEXTS, None], lambda v: pd.Series(v, dtype="string[pyarrow]")),
    "str": ("text", [*TEXTS, None], lambda v: pd.Series(v, dtype="str")),
    "category of texts": ("text", [*TEXTS, None], lambda v: pd.Series(v, dtype="category")),
    "category of integers": ("number", [1, 36, -999, None], lambda v: pd.Series(pd.Categorical([1, 36, -999, None], categories=[36, 1, -999]))),
    "category of floats": ("number", [1.0, 36.6, 36.0, None], lambda v: pd.Series(v, dtype="category")),
    "category of booleans": ("boolean", [*BOOLEANS, None], lambda v: pd.Series(pd.Categorical(v, categories=[True, False]))),
    "datetime64[ns]": ("timestamp", [iso(v, "ns") for v in MOMENTS[:3]] + [None], lambda v: pd.Series(MOMENTS, dtype="datetime64[ns]")),
    "datetime64[us, UTC]": ("timestamp", [iso(v, "us", "Z") for v in MOMENTS[:3]] + [None], lambda v: pd.Series(MOMENTS, dtype="datetime64[us, UTC]")),
    # The number of the period is passed through, because a format without periods has no text for it.
    "period": ("date", [649, 0, None], lambda v: pd.Series(pd.PeriodIndex(["2024-02", "1970-01", None], freq="M"))),
    "ArrowDtype(decimal)": ("decimal", decimals(38, 10), lambda v: pd.Series(v, dtype=pd.ArrowDtype(pa.decimal128(38, 10)))),
    "ArrowDtype(dictionary)": ("text", [*TEXTS, None], lambda v: pd.Series(v, dtype=pd.ArrowDtype(pa.string())).astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))),
    "ArrowDtype(bool)": ("boolean", [*BOOLEANS, None], lambda v: pd.Series(v, dtype=pd.ArrowDtype(pa.bool_()))),
    "Sparse": ("number", [0.0, 36.0, 1.0], lambda v: pd.Series(v, dtype="Sparse[float64]")),
}  # fmt: skip
try:
    from sluice._pandas_frame import PandasFrame
    from sluice._polars_frame import PolarsFrame
except ImportError as error:
    raise SystemExit(f"the client is not on PYTHONPATH: {error}")
for name, (kind, values, make) in PANDAS.items():
    frame = pd.DataFrame({"x": make(values), "row": rows(len(values))})
    add(f"pandas arrow {name}", "arrow", kind, values, file=file(stream(pa.Table.from_pandas(frame, preserve_index=False)))) if name != "Sparse" else None
    if name != "Sparse":
        out = io.BytesIO()
        frame.to_parquet(out)
        # Parquet stores a period as a whole number without an annotation.
        add(f"pandas parquet {name}", "parquet", "number" if name == "period" else kind, values, file=file(out.getvalue()))
    sent = PandasFrame(frame)
    try:
        # Decimals are sent as texts, with all digits.
        as_text = kind == "decimal" and "object" in name
        add(f"client pandas {name}", "arrow", "text" if as_text else kind, [v and str(v) for v in values] if as_text else values, file=file(b"".join(sent.chunks(["x", "row"]))), client=sorted(sent.kinds["x"]))
    except Exception as error:
        print("the client refuses:", name, error.__class__.__name__, sent.kinds["x"], file=sys.stderr)
    if kind in ("number", "boolean", "text") and name in ("int64", "uint64", "float32", "float64", "bool", "object of texts", "object of integers", "category of texts", "Int64", "boolean", "category of integers", "str"):
        path = str(FOLDER / "fast.parquet")
        try:
            fastparquet.write(path, frame, compression="SNAPPY")
        except Exception as error:
            print("not in fastparquet:", name, str(error)[:80], file=sys.stderr)
            continue
        add(f"fastparquet {name}", "parquet", kind, values, file=file(pathlib.Path(path).read_bytes()))
for name, (kind, values, dtype, *given) in POLARS.items():
    frame = pl.DataFrame({"x": pl.Series("x", given[0] if given else values, dtype=dtype or getattr(pl, name), strict=False), "row": rows(len(values))})
    sent = PolarsFrame(frame)
    add(f"client polars {name}", "arrow", kind, values, file=file(b"".join(sent.chunks(["x", "row"]))), client=sorted(sent.kinds["x"]))

# ---------------------------------------------------------------- Avro

AVRO = {
    "int": ("number", whole(32, True)[:-1], "int"),
    "long": ("number", whole(64, True)[:-1], "long"),
    "float": ("number", PL_FLOATS32[:-1], "float"),
    "double": ("number", PL_FLOATS[:-1], "double"),
    "boolean": ("boolean", BOOLEANS, "boolean"),
    "string": ("text", TEXTS, "string"),
    "null": ("null", [None], "null"),
    "enum": ("text", ["A", "Y", "true"], {"type": "enum", "name": "E", "symbols": ["A", "Y", "true"]}),
    "null or int": ("number", whole(32, True), ["null", "int"]),
    "null or long": ("number", whole(64, True), ["null", "long"]),
    "double or null": ("number", PL_FLOATS, ["double", "null"]),
    "null or float": ("number", PL_FLOATS32, ["null", "float"]),
    "null or boolean": ("boolean", [*BOOLEANS, None], ["null", "boolean"]),
    "null or string": ("text", [*TEXTS, None], ["null", "string"]),
    "decimal(9,2)": ("decimal", decimals(9, 2)[:-1], {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    "decimal(38,10)": ("decimal", decimals(38, 10)[:-1], {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}),
    "decimal(76,0)": ("decimal", decimals(76, 0)[:-1], {"type": "bytes", "logicalType": "decimal", "precision": 76}),
    "null or decimal of fixed": ("decimal", decimals(18, 4), ["null", {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 4}]),
    "uuid": ("text", [str(u) for u in uuids[:-1]], {"type": "string", "logicalType": "uuid"}),
    "uuid of fixed": ("text", [str(u) for u in uuids[:-1]], {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, [u.bytes for u in uuids[:-1]]),
    "bytes": ("binary", [b64(b) for b in BYTES[:-1]], "bytes", BYTES[:-1]),
    "fixed": ("binary", [b64(b) for b in BYTES[1:3]], {"type": "fixed", "name": "F", "size": 4}, BYTES[1:3]),
    "date": ("date", [str(d) for d in DATES[:2]], {"type": "int", "logicalType": "date"}, DATES[:2]),
    "null or date": ("date", [str(DATES[0]), None], ["null", {"type": "int", "logicalType": "date"}], [DATES[0], None]),
    "time-millis": ("time", [iso(cut(v, "ms"), "ms") for v in TIMES[:-1]], {"type": "int", "logicalType": "time-millis"}, [cut(v, "ms") for v in TIMES[:-1]]),
    "time-micros": ("time", [iso(v, "us") for v in TIMES[:-1]], {"type": "long", "logicalType": "time-micros"}, TIMES[:-1]),
    "timestamp-millis": ("timestamp", [iso(cut(v, "ms"), "ms", "Z") for v in MOMENTS[:-1]], {"type": "long", "logicalType": "timestamp-millis"}, [cut(v, "ms").replace(tzinfo=UTC) for v in MOMENTS[:-1]]),
    "timestamp-micros": ("timestamp", [iso(v, "us", "Z") for v in MOMENTS[:-1]], {"type": "long", "logicalType": "timestamp-micros"}, [v.replace(tzinfo=UTC) for v in MOMENTS[:-1]]),
    "local-timestamp-millis": ("timestamp", [iso(cut(v, "ms"), "ms") for v in MOMENTS[:-1]], {"type": "long", "logicalType": "local-timestamp-millis"}, [cut(v, "ms") for v in MOMENTS[:-1]]),
    "array": ("nested", [[36], []], {"type": "array", "items": "int"}),
    "map": ("nested", [{"a": 1}], {"type": "map", "values": "int"}),
    "record": ("nested", [{"a": 1}], {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "int"}]}),
}  # fmt: skip
for name, (kind, values, type, *given) in AVRO.items():
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": type}, {"name": "row", "type": "long"}]}
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    records = []
    for row, value in enumerate(given[0] if given else values):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"x": value, "row": row})
        records.append(out.getvalue().hex())
    add(f"avro {name}", "avro", kind, values, schema=json.dumps(schema), records=records)
# Unions of several types: each value has the kind of its branch.
several = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "string", "double", "boolean", "long"]}, {"name": "row", "type": "long"}]}
records, values = [], []
for row, (value, canon) in enumerate(((None, None), ("36.0", {"t": "36.0"}), (36.0, {"n": "36.0"}), (True, {"b": True}), (36, {"n": "36"}), (("long", 2**53 + 1), {"n": str(2**53 + 1)}), ("A", {"t": "A"}))):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(several))), {"x": value, "row": row})
    records.append(out.getvalue().hex())
    values.append(canon)
carriers["avro union of several types"] = {"format": "avro", "kind": "mixed", "values": values, "schema": json.dumps(several), "records": records}

# ---------------------------------------------------------------- Protobuf


def messages(text):
    """The classes of a .proto file."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "m.proto").write_text(text)
    import grpc_tools

    common = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    assert protoc.main(["protoc", f"-I{folder}", f"-I{common}", "--include_imports", f"--descriptor_set_out={folder / 'm.bin'}", "m.proto"]) == 0
    found = descriptor_pb2.FileDescriptorSet.FromString((folder / "m.bin").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for one in found.file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


def protobuf(name, kind, values, text, given=None):
    M = messages(text)
    records = []
    for row, value in enumerate(values if given is None else given):
        message = M(row=row)
        if value is None:
            pass
        elif isinstance(value, dict):
            for key, part in value.items():
                setattr(message.x, key, part)
            message.x.SetInParent()
        elif isinstance(value, list):
            message.x.extend(value)
        else:
            message.x = value
        records.append(message.SerializeToString().hex())
    add(f"protobuf {name}", "protobuf", kind, values, schema=text, records=records)


SCALARS = {"int32": whole(32, True), "sint32": whole(32, True), "sfixed32": whole(32, True), "uint32": whole(32, False), "fixed32": whole(32, False), "int64": whole(64, True), "sint64": whole(64, True), "sfixed64": whole(64, True), "uint64": whole(64, False), "fixed64": whole(64, False), "float": PL_FLOATS32, "double": PL_FLOATS, "bool": [*BOOLEANS, None], "string": [*TEXTS, None]}  # fmt: skip
# `row` is written in proto2 as well, where it needs a label.
THREE, TWO = 'syntax = "proto3";\n', 'syntax = "proto2";\n'
for name, values in SCALARS.items():
    kind = {"bool": "boolean", "string": "text"}.get(name, "number")
    # Without presence an absent value is a zero.
    protobuf(f"proto3 {name}", kind, values[:-1], f"{THREE}message M {{ int64 row = 15; {name} x = 1; }}")
    protobuf(f"proto3 optional {name}", kind, values, f"{THREE}message M {{ int64 row = 15; optional {name} x = 1; }}")
    protobuf(f"proto2 optional {name}", kind, values, f"{TWO}message M {{ optional int64 row = 15; optional {name} x = 1; }}")
    protobuf(f"proto3 oneof {name}", kind, values, f"{THREE}message M {{ int64 row = 15; oneof o {{ {name} x = 1; int32 y = 2; }} }}") if name in ("int64", "double", "bool", "string") else None
for name, scalar in {"Int32Value": "int32", "UInt32Value": "uint32", "Int64Value": "int64", "UInt64Value": "uint64", "FloatValue": "float", "DoubleValue": "double", "BoolValue": "bool", "StringValue": "string"}.items():  # fmt: skip
    kind = {"bool": "boolean", "string": "text"}.get(scalar, "number")
    text = f'{THREE}import "google/protobuf/wrappers.proto";\nmessage M {{ int64 row = 15; google.protobuf.{name} x = 1; }}'
    given = [v for v in SCALARS[scalar]]
    M = messages(text)
    records = []
    for row, value in enumerate(given):
        message = M(row=row)
        if value is not None:
            message.x.value = value
            message.x.SetInParent()
        records.append(message.SerializeToString().hex())
    add(f"protobuf {name}", "protobuf", kind, given, schema=text, records=records)
protobuf("proto3 enum", "text", ["A", "Y"], f"{THREE}enum E {{ A = 0; Y = 1; }}\nmessage M {{ int64 row = 15; E x = 1; }}", [0, 1])
protobuf("proto2 optional enum", "text", ["A", "Y", None], f"{TWO}enum E {{ A = 0; Y = 1; }}\nmessage M {{ optional int64 row = 15; optional E x = 1; }}", [0, 1, None])
protobuf("proto3 bytes", "binary", [b64(b) for b in BYTES[:-1]], f"{THREE}message M {{ int64 row = 15; bytes x = 1; }}", BYTES[:-1])
TIMESTAMP = f'{THREE}import "google/protobuf/timestamp.proto";\nmessage M {{ int64 row = 15; google.protobuf.Timestamp x = 1; }}'
protobuf("Timestamp", "timestamp", ["2024-02-29T00:00:00.500Z", None], TIMESTAMP, [{"seconds": 1709164800, "nanos": 500000000}, None])
protobuf("repeated int32", "nested", [[36], [1, 2]], f"{THREE}message M {{ int64 row = 15; repeated int32 x = 1; }}")
protobuf("message", "nested", [{"a": 1}], f"{THREE}message N {{ int32 a = 1; }}\nmessage M {{ int64 row = 15; N x = 1; }}", [{"a": 1}])

out = json.dumps(carriers, ensure_ascii=False, indent=0).encode()
(HERE / "carriers.json.gz").write_bytes(gzip.compress(out, mtime=0))
print(len(carriers), "carriers,", len(out), "bytes,", (HERE / "carriers.json.gz").stat().st_size, "compressed")
