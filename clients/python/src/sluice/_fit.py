"""Compares the columns of a frame with those of a model before anything is sent."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ._frames import BOOLEAN, DATE, DECIMAL, MIXED, NULL, NUMBER, OTHER, TEXT, TIMESTAMP, Frame
from ._http_errors import ColumnNameError, ColumnTypeError

CALLED = {
    NUMBER: "numbers",
    DECIMAL: "decimals",
    BOOLEAN: "booleans",
    TEXT: "text",
    DATE: "dates",
    TIMESTAMP: "timestamps",
    MIXED: "values of several types",
    OTHER: "values of a type that no model takes",
}
# The type of JSON as which a kind of values is sent. Dates and mixed values have none.
SENT_AS = {TEXT: "string", NUMBER: "number", DECIMAL: "number", BOOLEAN: "boolean"}
RESERVED = {"row", "prediction", "probability", "value", "points", "decision", "base", "reasons"}
RESERVED_STARTS = ("error_", "effect.", "probability.", "interaction.")


def fit(
    frame: Frame,
    columns: Sequence[Mapping[str, Any]] | None,
    passthrough: Sequence[str] | str,
    reserved: frozenset[str] = frozenset(),
) -> tuple[list[str], list[str]]:
    """The columns to send, and those to copy to the result.

    `columns`: as the service describes them; None: unknown, and the service alone checks them. `reserved`: names of
    the result in addition to those of every frame. Raises ColumnNameError and ColumnTypeError.
    """
    listed = [passthrough] if isinstance(passthrough, str) and passthrough != "*" else passthrough
    present = set(frame.names)
    if columns is None:
        if listed == "*":
            raise ColumnNameError('passthrough="*" needs the scope models:read; list the columns instead')
        kept = list(listed)
        names = [name for name in frame.names if name not in set(kept)]
    else:
        wanted = [str(column["name"]) for column in columns]
        model = set(wanted)
        kept = [name for name in frame.names if name not in model] if listed == "*" else list(listed)
        refuse_names(frame, wanted, kept)
        names = [name for name in wanted if name in present]
    refuse_kept(kept, present, reserved)
    if columns is not None:
        refuse_types(frame, {str(column["name"]): column for column in columns})
    return names, kept


def refuse_kept(kept: Sequence[str], present: set[str], reserved: frozenset[str]) -> None:
    """Raises ColumnNameError for copied columns that are absent, listed twice, or hidden by the answer."""
    absent = [name for name in kept if name not in present]
    if absent:
        raise ColumnNameError(f"passthrough: the frame has no column {', '.join(absent)}", missing=absent)
    twice = sorted({name for name in kept if kept.count(name) > 1})
    if twice:
        raise ColumnNameError(f"passthrough: {', '.join(twice)} is listed more than once", unexpected=twice)
    hidden = [name for name in kept if name in RESERVED or name in reserved or name.startswith(RESERVED_STARTS)]
    if hidden:
        raise ColumnNameError(
            f"passthrough: {', '.join(hidden)} is also a column of the result; rename it", unexpected=hidden
        )


def refuse_names(frame: Frame, wanted: Sequence[str], kept: Sequence[str]) -> None:
    """Raises ColumnNameError with all missing and unexpected columns."""
    missing = [name for name in wanted if name not in set(frame.names)]
    unexpected = [name for name in frame.names if name not in set(wanted) and name not in set(kept)]
    if not missing and not unexpected:
        return
    lines = []
    for name in missing:
        near = difflib.get_close_matches(name, unexpected, 1)
        lines.append(f"- {name} is missing" + (f" (is it {near[0]}?)" if near else ""))
    if unexpected:
        named = ", ".join(repr(name) for name in unexpected)
        lines.append(f"- not columns of the model: {named}; drop them, or copy them with passthrough=[{named}]")
    raise ColumnNameError("the columns do not fit the model:\n" + "\n".join(lines), missing, unexpected)


def refuse_types(frame: Frame, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises ColumnTypeError with all columns in which values may have been lost."""
    faults: list[tuple[str, str, str]] = []
    for name in frame.names:
        column = columns.get(name)
        if column is None:
            continue
        accepts = accepted(column)
        bad = sorted(k for k in frame.kinds[name] if k != NULL and SENT_AS.get(k) not in accepts)
        if bad:
            faults.append((name, bad[0], wanted_kind(column)))
    if not faults:
        return
    lines = []
    fixes: dict[tuple[str, bool], tuple[list[str], str, str]] = {}
    for name, kind, wanted in faults:
        takes = "text" if wanted == TEXT else f"a {wanted}"
        why = "; a number loses leading zeros: 0230 becomes 230" if wanted == TEXT and kind in (NUMBER, DECIMAL) else ""
        lines.append(f"- column {name} contains {CALLED[kind]} ({frame.types[name]}), but the model takes {takes}{why}")
        dated = kind in (DATE, TIMESTAMP)
        # One line reads any number of columns as text; other conversions are a line each.
        key = ("text", False) if wanted == TEXT and not dated else (name, dated)
        fixes.setdefault(key, ([], wanted, kind))[0].append(name)
    fix = "\n".join(fix_of(frame, names, wanted, kind) for names, wanted, kind in fixes.values())
    shown = "\n".join(f"    {line}" for line in fix.split("\n"))
    raise ColumnTypeError(
        "types of columns do not fit the model, and nothing was sent:\n" + "\n".join(lines) + f"\nFix:\n{shown}",
        [name for name, _, _ in faults],
        fix,
    )


def fix_of(frame: Frame, names: Sequence[str], wanted: str, kind: str) -> str:
    """The line of code that gives these columns the kind `wanted`."""
    if wanted != TEXT and kind in (DATE, TIMESTAMP, OTHER):
        # A cast would succeed for many of them, with days or microseconds since 1970.
        return f"# {', '.join(names)}: compute the {wanted}s on which the model was trained; a cast may give others"
    return frame.fix(names, wanted, kind)


def accepted(column: Mapping[str, Any]) -> set[str]:
    """Types in which no value of the column is lost. Services before 0.4 do not list them."""
    listed = column.get("accepts")
    if listed is not None:
        return set(listed)
    return {"string", *{"number": ["number"], "boolean": ["boolean", "number"]}.get(str(column["kind"]), [])}


def wanted_kind(column: Mapping[str, Any]) -> str:
    """The kind to convert a column to."""
    kind = str(column["kind"])
    return kind if kind in (NUMBER, BOOLEAN) else TEXT
