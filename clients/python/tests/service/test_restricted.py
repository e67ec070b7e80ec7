"""A key that may only predict, at a service with a low rate limit. Needs SLUICE_URL, SLUICE_API_KEY, SLUICE_CA and FRAMES."""

from __future__ import annotations

import os
import time
import unittest
from pathlib import Path

import polars as pl

import sluice

TABLE = Path(os.environ["FRAMES"]) / "fixtures" / "table.csv"
MODEL = "typed-columns"


class PredictOnly(unittest.TestCase):
    """Without the scope models:read, the service alone checks the columns."""

    def test_the_service_checks_the_columns(self) -> None:
        text = pl.read_csv(TABLE, schema_overrides={"product": pl.String, "purpose": pl.String})
        with sluice.Client(ca=os.environ["SLUICE_CA"]) as client:
            result = client.predict(text, MODEL, passthrough=["id"])
            self.assertEqual(result["error_code"].null_count(), 60)
            cases = {"bad_type": pl.read_csv(TABLE).drop("id"), "header_mismatch": text}
            for code, frame in cases.items():
                with self.assertRaises(sluice.BadRequest) as caught:
                    client.predict(frame, MODEL)
                self.assertEqual(caught.exception.code, code)
                self.assertTrue(caught.exception.details)
            with self.assertRaises(sluice.ColumnNameError):
                client.predict(text, MODEL, passthrough="*")
            for call in (lambda: client.explain(text, MODEL, passthrough=["id"]), lambda: client.models[MODEL].columns):
                with self.assertRaises(sluice.NotPermitted) as refused:
                    call()
                self.assertEqual(refused.exception.code, "forbidden")

    def test_a_rate_limit_is_waited_for(self) -> None:
        frame = pl.read_csv(TABLE, schema_overrides={"product": pl.String, "purpose": pl.String}).drop("id")
        with sluice.Client(ca=os.environ["SLUICE_CA"]) as client:
            began = time.monotonic()
            for _ in range(12):
                self.assertEqual(client.predict(frame, MODEL).height, 60)
            self.assertGreater(time.monotonic() - began, 1)


if __name__ == "__main__":
    unittest.main()
