"""Scores carriers of Arrow as every kind of frame with the Python client, and prints what differs from the rule.

Reads a case per line from standard input: `name`; `model`, whose columns are `x` and `row`; `file`, an Arrow stream or file as base64; `wanted`, the
value or the code of each row, or null if the client has to refuse the column; `frames`, the kinds of frames. Needs SLUICE_URL, SLUICE_API_KEY
and SLUICE_CA, and the client and its tests on the path of Python.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from results import dicts_of

import sluice

CLIENT = sluice.Client(ca=os.environ["SLUICE_CA"])


def arrow_dtypes(table: pa.Table) -> pd.DataFrame:
    """A frame of pandas whose columns have the types of Arrow."""
    return table.to_pandas(types_mapper=pd.ArrowDtype)


FRAMES = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=7),
    "pandas": arrow_dtypes,
    "polars": pl.from_arrow,
    "duckdb": duckdb.from_arrow,
    "dictionaries": lambda table: table.to_pylist(),
}


def shown(row: dict[str, Any]) -> Any:
    """The code of a row that was rejected, or its value."""
    return row["error_code"] if row["error_code"] is not None else row["value"]


def same(have: Any, want: Any) -> bool:
    """Whether both are the same code, or the same double: JSON has whole numbers for some."""
    return have == want if isinstance(want, str) or isinstance(have, str) else float(have) == float(want)


def differences(case: dict[str, Any], kind: str, frame: Any) -> list[str]:
    """What the client answers else than the rule says."""
    wanted = case["wanted"]
    try:
        result = CLIENT.predict(frame, model=case["model"])
    except sluice.ColumnTypeError:
        return [] if wanted is None else ["is refused"]
    except sluice.SluiceError as error:
        return [f"fails: {type(error).__name__} {error}"[:300]]
    got = [shown(row) for row in dicts_of(result)]
    if wanted is None:
        return [f"is not refused: {got}"]
    if len(got) != len(wanted):
        return [f"has {len(got)} rows instead of {len(wanted)}"]
    return [f"row {at}: {have} instead of {want}" for at, (have, want) in enumerate(zip(got, wanted)) if not same(have, want)]


compared = 0
for line in sys.stdin:
    case = json.loads(line)
    data = base64.b64decode(case["file"])
    table = (pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream)(data).read_all()
    for kind in case["frames"]:
        try:
            frame = FRAMES[kind](table)
        except BaseException as error:  # noqa: BLE001 polars panics
            if "--show" in sys.argv:
                print(f"{kind} has no {table.schema.field('x').type}: {type(error).__name__}", file=sys.stderr)
            continue
        compared += 1
        try:
            found = differences(case, kind, frame)
        except Exception as error:  # noqa: BLE001
            found = [f"raises {type(error).__name__}: {error}"[:300]]
        for one in found:
            print(f"{case['name']} as {kind}: {one}")
print(f"{compared} frames", file=sys.stderr)
CLIENT.close()
