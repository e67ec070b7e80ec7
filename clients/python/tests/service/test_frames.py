"""Every kind of frame scores with the bits of the CSV file, or a ColumnTypeError names the column: nothing in between.

Needs SLUICE_URL, SLUICE_API_KEY and SLUICE_CA of a service with the packages of test/frames, and their folder in FRAMES.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import os
import ssl
import struct
import unittest
import warnings
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
from results import dicts_of

import sluice

FIXTURES = Path(os.environ["FRAMES"]) / "fixtures"
TABLE = FIXTURES / "table.csv"
COLUMNS = {"none": None, "number": "amount", "boolean": "banned", "category": "product", "text": "purpose"}
MODEL = "typed-columns"
MODEL_COLUMNS = ["amount", "banned", "product", "purpose"]
CLIENT = sluice.Client(ca=os.environ["SLUICE_CA"])


def bits(value: float | None) -> str:
    """A score as its bits."""
    return "" if value is None or value != value else struct.pack(">d", value).hex()


def csv_scores(text: str, model: str = MODEL) -> list[tuple[str, str]]:
    """What the service answers to a CSV file: the bits of the score and the code of the error, for each row."""
    answer = httpx2.post(
        f"{os.environ['SLUICE_URL']}/api/v1/scoring/predict.csv",
        params={"modelId": model, "delimiter": "comma", "passthrough": "id"},
        headers={"authorization": f"API-Key {os.environ['SLUICE_API_KEY']}"},
        content=text.encode(),
        verify=ssl.create_default_context(cafile=os.environ["SLUICE_CA"]),
        timeout=180,
    )
    assert answer.status_code == 200, answer.text
    lines = list(csv.DictReader(answer.text.splitlines()))
    return [(bits(float(line["probability"])) if line["probability"] else "", line["error_code"]) for line in lines]


def scores(result: Any) -> list[tuple[str, str]]:
    """The bits of the score and the code of the error, for each row of a result."""
    return [(bits(row["probability"]), row["error_code"] or "") for row in dicts_of(result)]


class Exporter:
    """An object of a library that nobody knows, with __arrow_c_stream__."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def pandas_frame(typed: str | None, strings: bool) -> pd.DataFrame:
    """The table as pandas reads it. `strings`: with the text type of pandas 3; otherwise as pandas 2."""
    dtype = {column: str for column in MODEL_COLUMNS if column != typed}
    with warnings.catch_warnings(record=True), pd.option_context("future.infer_string", strings):
        # pandas 3 can still read texts as pandas 2 did, and warns of it.
        warnings.simplefilter("ignore")
        return pd.read_csv(TABLE, dtype=dtype)


def frames(typed: str | None) -> dict[str, Any]:
    """The table as every kind of frame, with the default type of its library in the column `typed`."""
    kind = next(name for name, column in COLUMNS.items() if column == typed)
    arrow = {name: pa.ipc.open_stream(FIXTURES / f"{name}.{kind}.arrows").read_all() for name in ARROW_KINDS}
    text = ", ".join(f"'{column}': 'VARCHAR'" for column in MODEL_COLUMNS if column != typed)
    options = f", types={{{text}}}" if text else ""
    return {
        **{f"polars-{name}": pl.read_ipc_stream(FIXTURES / f"polars-{name}.{kind}.arrows") for name in POLARS_KINDS},
        **arrow,
        "pandas-2": pandas_frame(typed, False),
        "pandas-3": pandas_frame(typed, True),
        "duckdb": duckdb.sql(f"SELECT * FROM read_csv('{TABLE}'{options})"),
        "record batch": arrow["pyarrow-csv"].combine_chunks().to_batches()[0],
        "reader": arrow["pyarrow-csv"].to_reader(max_chunksize=7),
        "exporter": Exporter(arrow["large-string"]),
        "dictionaries": pl.read_ipc_stream(FIXTURES / f"polars-defaults.{kind}.arrows").to_dicts(),
    }


POLARS_KINDS = ["defaults", "compat-oldest", "categorical", "enum", "zstd", "lz4"]
ARROW_KINDS = ["large-string", "string-view", "pyarrow-csv"]


def tearDownModule() -> None:
    CLIENT.close()


class RightOrRefused(unittest.TestCase):
    """Default types of twelve kinds of frames and of five further ones."""

    def test_each_frame_is_right_or_refused(self) -> None:
        wanted = csv_scores(TABLE.read_text())
        self.assertGreater(len(set(wanted)), 20)
        right, refused = 0, 0
        for typed in COLUMNS.values():
            for name, frame in frames(typed).items():
                with self.subTest(frame=name, typed=typed):
                    try:
                        result = CLIENT.predict(frame, MODEL, passthrough=["id"])
                    except sluice.ColumnTypeError as error:
                        self.assertEqual(error.columns, [typed])
                        self.assertIn(typed, ("product", "purpose"))
                        self.assertIn(typed, error.fix)
                        refused += 1
                        continue
                    self.assertEqual(scores(result), wanted)
                    self.assertEqual([row["id"] for row in dicts_of(result)], list(range(1000, 1060)))
                    right += 1
        self.assertEqual(right + refused, 5 * 16)
        self.assertGreaterEqual(right, 48)
        self.assertGreaterEqual(refused, 20)
        print(f"{right} right, {refused} refused, 0 silent differences")

    def test_the_line_that_the_error_names_fixes_the_frame(self) -> None:
        wanted = csv_scores(TABLE.read_text())
        names = {"pd": pd, "pl": pl, "pa": pa, "csv": pyarrow.csv, "duckdb": duckdb, "file": str(TABLE)}
        readers = {
            "frame": [pd.read_csv, pl.read_csv],
            "table": [pyarrow.csv.read_csv],
        }
        for variable, reads in readers.items():
            for read in reads:
                with self.subTest(read=read):
                    with self.assertRaises(sluice.ColumnTypeError) as caught:
                        CLIENT.predict(read(TABLE), MODEL, passthrough=["id"])
                    self.assertEqual(caught.exception.columns, ["product", "purpose"])
                    scope = dict(names)
                    exec(caught.exception.fix, scope)
                    self.assertEqual(scores(CLIENT.predict(scope[variable], MODEL, passthrough=["id"])), wanted)


class Pandas(unittest.TestCase):
    """Types of pandas in which values change without notice."""

    base: pd.DataFrame

    def setUp(self) -> None:
        self.base = pandas_frame(None, True)
        # Codes without leading zeros and with gaps.
        self.base["product"] = [["230", "12", "1000", None][i % 4] for i in range(len(self.base))]

    def wanted(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        return csv_scores(frame.to_csv(index=False), "numeric-codes")

    def test_whole_numbers_with_gaps_score_like_the_file(self) -> None:
        wanted = self.wanted(self.base)
        self.assertGreater(len(set(wanted)), 10)
        numbers = self.base["product"].astype(float)
        variants = {
            "float64": numbers,
            "float32": numbers.astype("float32"),
            "Int64": numbers.astype("Int64"),
            "Float64": numbers.astype("Float64"),
            "objects": pd.Series([None if v != v else int(v) for v in numbers], dtype=object),
            "objects with NaN": pd.Series([float("nan") if v != v else int(v) for v in numbers], dtype=object),
            "Arrow": numbers.astype("Int64").astype("int64[pyarrow]"),
            "categories of floats": numbers.astype("category"),
            "categories of texts": self.base["product"].astype("category"),
            "string": self.base["product"].astype("string"),
            "text objects": self.base["product"].astype(object),
        }
        for name, column in variants.items():
            with self.subTest(name):
                frame = self.base.assign(product=column.array)
                self.assertEqual(scores(CLIENT.predict(frame, "numeric-codes", passthrough=["id"])), wanted)
                with self.subTest(f"{name}, refused where zeros may be lost"):
                    if name in ("categories of texts", "string", "text objects"):
                        continue
                    with self.assertRaises(sluice.ColumnTypeError) as caught:
                        CLIENT.predict(frame, MODEL, passthrough=["id"])
                    self.assertEqual(caught.exception.columns, ["product"])

    def test_decimals_are_sent_with_all_digits(self) -> None:
        frame = pandas_frame(None, True)
        wanted = csv_scores(frame.to_csv(index=False))
        decimals = [None if v != v else decimal.Decimal(v) for v in frame["amount"]]
        result = CLIENT.predict(frame.assign(amount=pd.Series(decimals, dtype=object)), MODEL, passthrough=["id"])
        self.assertEqual(scores(result), wanted)

    def test_booleans_of_every_type(self) -> None:
        frame = pandas_frame(None, True)
        frame.loc[3, "banned"] = None
        wanted = csv_scores(frame.to_csv(index=False))
        flags = [None if v is None or v != v else v == "true" for v in frame["banned"]]
        for dtype in (object, "boolean", "bool[pyarrow]"):
            with self.subTest(dtype=dtype):
                column = pd.Series(flags, dtype=dtype)
                self.assertEqual(scores(CLIENT.predict(frame.assign(banned=column), MODEL, passthrough="*")), wanted)

    def test_mixed_values_and_other_types_are_refused(self) -> None:
        frame = pandas_frame(None, True)
        rows = len(frame)
        day = datetime.date(2024, 2, 29)
        columns: dict[str, tuple[str, Any]] = {
            "text and numbers": ("product", ["0230", 230] * (rows // 2)),
            "text and booleans": ("product", ["0230", True] * (rows // 2)),
            "categories of several types": ("product", pd.Categorical(["0230", 230] * (rows // 2))),
            "booleans for text": ("purpose", [True] * rows),
            "booleans for a number": ("amount", [True] * rows),
            "dates": ("purpose", [day] * rows),
            "timestamps": ("purpose", pd.to_datetime(["2024-02-29"] * rows)),
            "durations": ("amount", pd.to_timedelta(["1 day"] * rows)),
            "complex numbers": ("amount", np.ones(rows, dtype=complex)),
            "periods": ("purpose", pd.period_range("2024-01", periods=rows, freq="M")),
            "bytes": ("purpose", [b"car"] * rows),
            "lists": ("purpose", [["car"]] * rows),
        }
        for name, (column, values) in columns.items():
            with self.subTest(name):
                data = values if isinstance(values, (pd.Categorical, pd.PeriodIndex)) else pd.Series(values).array
                if isinstance(values, list):
                    data = pd.Series(values, dtype=object).array
                with self.assertRaises(sluice.ColumnTypeError) as caught:
                    CLIENT.predict(frame.assign(**{column: data}), MODEL, passthrough=["id"])
                self.assertEqual(caught.exception.columns, [column])
        with self.assertRaises(sluice.ColumnTypeError):
            CLIENT.predict(frame.assign(amount=pd.Series([2**70] * rows, dtype=object)), MODEL, passthrough=["id"])

    def test_dates_score_like_the_file_after_the_fix(self) -> None:
        frame = pandas_frame(None, True).assign(purpose="2024-02-29")
        wanted = csv_scores(frame.to_csv(index=False))
        dated = frame.assign(purpose=pd.to_datetime(frame["purpose"]))
        with self.assertRaises(sluice.ColumnTypeError) as caught:
            CLIENT.predict(dated, MODEL, passthrough=["id"])
        scope = {"frame": dated, "pd": pd}
        exec(caught.exception.fix, scope)
        self.assertEqual(scores(CLIENT.predict(scope["frame"], MODEL, passthrough=["id"])), wanted)
        polars = pl.DataFrame(frame).with_columns(pl.col("purpose").str.to_date())
        with self.assertRaises(sluice.ColumnTypeError) as caught:
            CLIENT.predict(polars, MODEL, passthrough=["id"])
        scope = {"frame": polars, "pl": pl}
        exec(caught.exception.fix, scope)
        self.assertEqual(scores(CLIENT.predict(scope["frame"], MODEL, passthrough=["id"])), wanted)

    def test_no_line_casts_dates_or_durations_to_numbers(self) -> None:
        frame = pandas_frame(None, True)
        rows = len(frame)
        day = datetime.date(2024, 2, 29)
        days = pd.Series([day] * rows, dtype=object)
        table = pa.table({name: pa.array(frame[name], pa.string()) for name in MODEL_COLUMNS})
        frames = {
            "pandas dates": frame.assign(amount=days),
            "pandas timestamps": frame.assign(amount=pd.to_datetime(days)),
            "pandas durations": frame.assign(amount=pd.to_timedelta([1] * rows, unit="D")),
            "polars dates": pl.DataFrame(frame).with_columns(amount=day),
            "polars timestamps": pl.DataFrame(frame).with_columns(amount=datetime.datetime(2024, 2, 29)),
            "polars durations": pl.DataFrame(frame).with_columns(amount=pl.duration(days=1)),
            "Arrow dates": table.set_column(0, "amount", pa.array([day] * rows)),
            "DuckDB dates": duckdb.sql("SELECT DATE '2024-02-29' amount, true banned, '12' product, '' purpose"),
            "dictionaries": [{"amount": day, "banned": True, "product": "0230", "purpose": "car"}],
        }
        for name, dated in frames.items():
            kept = [] if name in ("Arrow dates", "DuckDB dates", "dictionaries") else ["id"]
            with self.subTest(name):
                with self.assertRaises(sluice.ColumnTypeError) as caught:
                    CLIENT.predict(dated, MODEL, passthrough=kept)
                self.assertEqual(caught.exception.columns, ["amount"])
                self.assertRegex(caught.exception.fix, "^# amount: compute the numbers")

    def test_columns_without_values(self) -> None:
        frame = pandas_frame(None, True)
        for column in MODEL_COLUMNS:
            wanted = csv_scores(frame.assign(**{column: None}).to_csv(index=False))
            gaps = pd.Series([float("nan")] * len(frame))
            for values in (gaps, gaps.astype("float32"), gaps.astype("category"), gaps.astype("Float64")):
                with self.subTest(column=column, dtype=values.dtype):
                    result = CLIENT.predict(frame.assign(**{column: values}), MODEL, passthrough=["id"])
                    self.assertEqual(scores(result), wanted)

    def test_categories_of_objects(self) -> None:
        frame = pandas_frame(None, True)
        flags = pd.Series([[True, False][i % 2] for i in range(len(frame))], dtype=object)
        amounts = pd.Series([decimal.Decimal(["1.10", "-2"][i % 2]) for i in range(len(frame))], dtype=object)
        plain = frame.assign(banned=flags, amount=amounts)
        wanted = csv_scores(plain.to_csv(index=False))
        chosen = plain.assign(
            banned=pd.Categorical(flags, categories=pd.Index([True, False], dtype=object)),
            amount=pd.Categorical(amounts),
        )
        self.assertEqual(scores(CLIENT.predict(chosen, MODEL, passthrough=["id"])), wanted)

    @unittest.skipUnless(hasattr(pl, "Categories"), "this version of polars has no named categories")
    def test_named_categories_of_polars(self) -> None:
        frame = pandas_frame("category", True)
        wanted = csv_scores(frame.to_csv(index=False))
        for physical in (pl.UInt8, pl.UInt16, pl.UInt32):
            named = pl.Categorical(pl.Categories("products", physical=physical))
            chosen = pl.DataFrame(frame).with_columns(pl.col("product").cast(named))
            self.assertEqual(scores(CLIENT.predict(chosen, MODEL, passthrough=["id"])), wanted)

    def test_index_and_order_are_those_of_the_frame(self) -> None:
        frame = pandas_frame(None, True).set_index("id").sort_values("product")
        frame.index = frame.index.where(frame.index != 1003, 1004)
        result = CLIENT.predict(frame, MODEL)
        pd.testing.assert_index_equal(result.index, frame.index)
        self.assertEqual(
            list(result.columns), ["prediction", "probability", "error_code", "error_column", "error_message"]
        )
        self.assertEqual(str(result["prediction"].dtype), "boolean")

    def test_names_of_columns(self) -> None:
        frame = pandas_frame(None, True)
        with self.assertRaises(sluice.ColumnNameError) as caught:
            CLIENT.predict(frame.rename(columns={"product": "prodct"}), MODEL, passthrough=["id"])
        self.assertEqual((caught.exception.missing, caught.exception.unexpected), (["product"], ["prodct"]))
        self.assertIn("is it prodct?", str(caught.exception))
        for wrong in (
            frame.rename(columns={"id": 7}),
            frame.set_axis(pd.MultiIndex.from_product([["all"], frame.columns]), axis=1),
            pd.concat([frame, frame[["id"]]], axis=1),
            frame.rename(columns={"id": "prediction"}),
        ):
            with self.assertRaises(sluice.ColumnNameError):
                CLIENT.predict(wrong, MODEL, passthrough="*")
        with self.assertRaisesRegex(sluice.ColumnNameError, "id is listed more than once"):
            CLIENT.predict(frame, MODEL, passthrough=["id", "id"])


class Arrow(unittest.TestCase):
    """Tables of pyarrow."""

    def test_columns_of_the_same_name_are_refused(self) -> None:
        values = [pa.array([1.0]), pa.array([True]), pa.array(["0230"]), pa.array(["car"]), pa.array([2.0])]
        table = pa.table(values, names=[*MODEL_COLUMNS, "amount"])
        for frame in (table, table.to_batches()[0], table.to_reader(), Exporter(table)):
            with self.subTest(type(frame).__name__):
                with self.assertRaisesRegex(sluice.ColumnNameError, "the frame has columns twice: amount"):
                    CLIENT.predict(frame, MODEL)


class Dictionaries(unittest.TestCase):
    """Lists of dictionaries, whose values may differ by row."""

    def test_copied_columns_are_never_hidden_by_the_answer(self) -> None:
        model = "credit-default"
        row = CLIENT.models[model].sample
        for call in (CLIENT.predict, CLIENT.explain):
            (plain,) = call([row], model)
            names = [*plain, "method", "space", "class", "effects", "probabilities", "channel"]
            for name in dict.fromkeys(names):
                with self.subTest(call=call.__name__, name=name):
                    try:
                        (result,) = call([{**row, name: "own"}], model, passthrough=[name])
                    except sluice.ColumnNameError as error:
                        self.assertIn(f"{name} is also a column of the result", str(error))
                    else:
                        self.assertEqual(result, {name: "own", **plain})
        self.assertEqual(CLIENT.predict([{**row, "method": "own"}], model, passthrough=["method"])[0]["method"], "own")

    def test_values_of_python_and_numpy(self) -> None:
        rows = [
            {"amount": np.float64(100), "banned": np.bool_(True), "product": "0230", "purpose": "car"},
            {"amount": decimal.Decimal("-0.5"), "banned": None, "product": "12", "purpose": "007"},
            {"amount": float("nan"), "banned": False, "product": "A7", "purpose": "home"},
            {"amount": np.int32(7), "banned": pd.NA, "product": "1000", "purpose": "7"},
            {"amount": np.float32("nan"), "banned": False, "product": "A7", "purpose": "home"},
            {"amount": decimal.Decimal("NaN"), "banned": False, "product": "A7", "purpose": "home"},
        ]
        text = (
            "id,amount,banned,product,purpose\n1,100,true,0230,car\n2,-0.5,,12,007\n3,,false,A7,home\n4,7,,1000,7\n"
            "5,,false,A7,home\n6,,false,A7,home\n"
        )
        self.assertEqual(scores(CLIENT.predict(rows, MODEL)), csv_scores(text))

    def test_a_single_wrong_value_is_refused(self) -> None:
        row = {"amount": 1, "banned": True, "product": "0230", "purpose": "car"}
        for name, value in {
            "product": 230,
            "purpose": 7.0,
            "amount": True,
            "banned": datetime.date(2024, 1, 1),
        }.items():
            with self.assertRaises(sluice.ColumnTypeError) as caught:
                CLIENT.predict([row, {**row, name: value}], MODEL)
            self.assertEqual(caught.exception.columns, [name])

    def test_no_application(self) -> None:
        self.assertEqual(CLIENT.predict([], MODEL), [])


class Rejected(unittest.TestCase):
    """Rows without a prediction."""

    def test_rejected_rows_keep_their_place_in_every_frame(self) -> None:
        for rows_with in ({1, 5, 59}, set(range(60))):
            text = TABLE.read_text().splitlines()
            cells = [line.split(",") for line in text[1:]]
            for row in rows_with:
                cells[row][3] = "nothing"
            table = pa.table({name: [c[i] for c in cells] for i, name in enumerate(text[0].split(","))})
            kinds = (table, pl.from_arrow(table), table.to_pandas(), table.to_pylist(), duckdb.from_arrow(table))
            for frame in kinds:
                with self.subTest(type(frame), rejected=len(rows_with)):
                    result = dicts_of(CLIENT.predict(frame, MODEL, passthrough=["id"]))
                    found = {at for at, row in enumerate(result) if row["error_code"] == "unseen_category"}
                    self.assertEqual(found, rows_with)
                    self.assertEqual({result[at]["error_column"] for at in found}, {"product"})
                    self.assertEqual([row["id"] for row in result], [str(n) for n in range(1000, 1060)])
                    with self.assertRaises(sluice.RowsRejected) as caught:
                        CLIENT.predict(frame, MODEL, passthrough=["id"], on_invalid="raise")
                    self.assertEqual(caught.exception.rejected, len(rows_with))
                    self.assertEqual(caught.exception.details[0]["row"], min(rows_with))
                    self.assertEqual(len(dicts_of(caught.exception.result)), 60)

    def test_a_query_without_an_order_gets_the_reasons_of_its_rows(self) -> None:
        lines = [line.split(",") for line in TABLE.read_text().splitlines()]
        wrong = {"product": "nothing", "amount": "much"}
        names = list(wrong) * 30
        rows = [dict(zip(lines[0], line)) | {name: wrong[name], "id": name} for name, line in zip(names, lines[1:])]
        applications = pa.Table.from_pylist(rows)
        relation = duckdb.sql("SELECT * FROM applications ORDER BY random()")
        result = dicts_of(CLIENT.predict(relation, MODEL, passthrough=["id"]))
        self.assertEqual([row["error_column"] for row in result], [row["id"] for row in result])
        self.assertEqual(len(result), len(applications))

    def test_objects_that_are_no_frames(self) -> None:
        for wrong in (pd.Series([1]), pl.LazyFrame({"a": [1]}), {"a": 1}, 7, "text", [1, 2]):
            with self.assertRaises(TypeError):
                CLIENT.predict(wrong, MODEL)


if __name__ == "__main__":
    unittest.main()
