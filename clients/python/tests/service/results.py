"""Reads what the client returns, whatever kind of frame it is."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa


def dicts_of(result: Any) -> list[dict[str, Any]]:
    """Any result as dictionaries."""
    if isinstance(result, list):
        return result
    if isinstance(result, pl.DataFrame):
        return result.to_dicts()
    if isinstance(result, pd.DataFrame):
        return result.astype(object).where(result.notna(), None).to_dict("records")
    if isinstance(result, (pa.Table, pa.RecordBatch)):
        return result.to_pylist()
    return (getattr(result, "to_arrow_table", None) or result.fetch_arrow_table)().to_pylist()
