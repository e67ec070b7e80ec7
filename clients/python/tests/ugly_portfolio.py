"""A synthetic portfolio with the defects of real ones: gaps, unknown categories, leading zeros, several scripts."""

from __future__ import annotations

import numpy as np
import pandas as pd

BRANCHES = ["Köln", "東京", "São Paulo", 'O"Neil, Ltd', "Łódź", "branch 7"]
NEW_BRANCHES = ["Zürich", "unknown", "КИЇВ"]
ZIPS = ["02134", "00501", "10115", "007", "7", "94105"]


def portfolio(rows: int, seed: int, hold_out: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    """Applications and their outcome `ok` (1 is good). The hold-out also has unknown categories, and gaps in columns
    that have none in training."""
    rng = np.random.default_rng([seed, int(hold_out)])
    gap = lambda share: rng.random(rows) < share
    income = np.round(rng.lognormal(10.3, 0.8, rows), 2)
    debt = np.round(rng.lognormal(11.5, 1.2, rows), 2)
    age = rng.integers(18, 90, rows).astype(float)
    branches = [*BRANCHES, *NEW_BRANCHES] if hold_out else BRANCHES
    zips = [*ZIPS, "99999"] if hold_out else ZIPS
    terms = [12, 24, 36, 48, 60, *([72] if hold_out else [])]
    grades = ["A", "B", "C", "D"]
    frame = pd.DataFrame(
        {
            "Einkommen €": income,
            "debt": debt,
            "age": age,
            "term": rng.choice(terms, rows),
            "balance": np.round(rng.normal(0, 2500, rows), 2),
            "zip code": rng.choice(zips, rows),
            "branch": rng.choice(branches, rows),
            "owns_home": rng.random(rows) < 0.4,
            "had arrears": pd.Series(rng.random(rows) < 0.2, dtype=object),
            "grade": pd.Categorical(rng.choice(grades, rows), categories=grades),
            "product": pd.Categorical(rng.choice([101, 102, 205], rows), categories=[101, 102, 205]),
            "credits": pd.array(rng.integers(0, 9, rows), dtype="Int64"),
            "applied": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D"),
            "note": [f"call {i}" for i in range(rows)],
        }
    )
    good = (
        1.2
        + 0.6 * (np.log(income) - 10.3)
        - 0.5 * (np.log(debt) - 11.5)
        + 0.02 * (age - 50)
        - 0.01 * frame["term"]
        + 0.8 * (frame["branch"] == "東京")
        - 0.9 * (frame["zip code"] == "02134")
        - 1.1 * frame["had arrears"].astype(float)
        + 0.4 * frame["grade"].cat.codes
        + rng.normal(0, 1, rows)
    )
    for column, share in {"Einkommen €": 0.08, "age": 0.05, "zip code": 0.04, "branch": 0.03}.items():
        frame.loc[gap(share), column] = np.nan
    frame.loc[gap(0.05), "credits"] = pd.NA
    if hold_out:
        for column in ("term", "debt"):
            frame[column] = frame[column].astype(float).mask(gap(0.03))
    return frame, pd.Series((good > 1.0).astype(int).to_numpy(), name="ok")
