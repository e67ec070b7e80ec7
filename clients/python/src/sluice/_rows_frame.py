"""Lists of dictionaries, sent as lines of JSON."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._frames import BOOLEAN, DATE, DECIMAL, NULL, NUMBER, OTHER, TEXT, TIMESTAMP, Fault, Frame, check_rows

PIECE = 1 << 20
INTERPRETATION = frozenset(("space", "method", "class", "classes", "effects", "standard_error"))
"""Keys that an explained row may have in addition to the columns of other frames."""
ERRORS: dict[str, Any] = {"error_code": None, "error_column": None, "error_message": None}


def kind_of(value: Any) -> str:
    """The kind of a value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return NULL
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return BOOLEAN
    if isinstance(value, decimal.Decimal):
        return NULL if value.is_nan() else DECIMAL
    if isinstance(value, numbers.Real):
        # Other floats than those of Python have NaN as well, such as numpy.float32.
        return NULL if value != value else NUMBER
    if isinstance(value, datetime.datetime):
        return TIMESTAMP
    return DATE if isinstance(value, datetime.date) else OTHER


def native(value: Any) -> Any:
    """The value as JSON has it. NaN is missing; other numbers keep all their digits."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    kind = kind_of(value)
    if kind == NULL:
        return None
    if kind == DECIMAL:
        return str(value)
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and math.isinf(item):
        return "Infinity" if item > 0 else "-Infinity"
    return item


class RowsFrame(Frame):
    """A list of dictionaries, one per application."""

    suffix = "ndjson"
    media_type = "application/x-ndjson"

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        if not all(isinstance(row, Mapping) for row in rows):
            raise TypeError("the list must contain dictionaries, one per application")
        self._rows = rows
        kinds: dict[str, set[str]] = {}
        types: dict[str, str] = {}
        for row in rows:
            for name, value in row.items():
                kind = kind_of(value)
                kinds.setdefault(name, set()).add(kind)
                if kind != NULL:
                    types.setdefault(name, type(value).__name__)
        self.names = list(kinds)
        self.kinds = kinds
        self.types = {name: types.get(name, "None") for name in kinds}
        self.rows = len(rows)
        self.has_columns = len(rows) > 0

    def reserved(self, explain: bool) -> frozenset[str]:
        return frozenset(("probabilities",)) | (INTERPRETATION if explain else frozenset())

    def chunks(self, names: Sequence[str]) -> Iterator[bytes]:
        chosen = set(names)
        parts: list[str] = []
        size = 0
        for row in self._rows:
            line = json.dumps(
                {name: native(value) for name, value in row.items() if name in chosen},
                ensure_ascii=False,
                allow_nan=False,
            )
            parts.append(line)
            size += len(line)
            if size > PIECE:
                yield ("\n".join(parts) + "\n").encode()
                parts, size = [], 0
        if parts:
            yield ("\n".join(parts) + "\n").encode()

    def slice(self, start: int, rows: int) -> RowsFrame:
        return RowsFrame(self._rows[start : start + rows])

    def adopt(self, other: Frame) -> None:
        self._answer = type(self._answer)()

    def result(self, kept: Sequence[str], faults: Sequence[Fault] | None = None) -> list[dict[str, Any]]:
        if faults is not None:
            found = [{"prediction": None, **dict(zip(ERRORS, fault))} for fault in faults]
        else:
            found = [flat(json.loads(line)) for line in self._answer.getvalue().splitlines()]
            check_rows(self.rows, len(found))
            scored = next((row for row in found if row["error_code"] is None), None)
            empty = dict.fromkeys(scored or {"prediction": None})
            found = [row if row["error_code"] is None else {**empty, **row} for row in found]
        return [{**{name: row.get(name) for name in kept}, **answer} for row, answer in zip(self._rows, found)]

    def rejections(self, result: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
        bad = [
            {"row": at, "code": row["error_code"], "column": row["error_column"]}
            for at, row in enumerate(result)
            if row["error_code"] is not None
        ]
        return len(bad), bad[:100]

    def fix(self, names: Sequence[str], wanted: str, kind: str) -> str:
        name = json.dumps(names[0], ensure_ascii=False)
        if wanted == TEXT:
            return f"row[{name}] = line[{name}]  # the text as csv.DictReader returns it, without int() or float()"
        target = "bool" if wanted == BOOLEAN else "float"
        return f"row[{name}] = {target}(row[{name}])"


def flat(prediction: dict[str, Any]) -> dict[str, Any]:
    """A line of the answer as one dictionary, with the names that frames have."""
    prediction.pop("row", None)
    error = prediction.pop("error", None)
    interpretation = prediction.pop("interpretation", None) or {}
    error = error or interpretation.pop("error", None) or {}
    faults = {name: error.get(name[len("error_") :]) for name in ERRORS}
    return {**prediction, **interpretation, **faults}
