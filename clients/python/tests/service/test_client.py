"""Both clients against the real service: streams, retries, errors, secrets, models and files.

Needs SLUICE_URL, SLUICE_API_KEY, SLUICE_CA, SLUICE_COMMAND and SLUICE_REGISTRY.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import polars as pl
import pyarrow as pa
from relay import Relay

import sluice
from sluice import _duplex, _uploads
from sluice._exchange import seconds_of

MODEL = "credit-default"
CA = os.environ["SLUICE_CA"]
PORT = urlsplit(os.environ["SLUICE_URL"]).port or 443
FOLDER = Path(tempfile.mkdtemp(prefix="sluice-client-"))
CLIENT = sluice.Client(ca=CA)


def tearDownModule() -> None:
    CLIENT.close()


def applications(rows: int) -> pl.DataFrame:
    """Applications with different amounts, of the model's sample."""
    sample = CLIENT.models[MODEL].sample
    frame = pl.DataFrame([sample] * min(rows, 1))
    return pl.concat([frame] * rows).with_columns(amount=pl.int_range(rows) % 5000 + 1000)


def client_through(cuts: list[tuple[int | None, int | None]], **options: Any) -> tuple[sluice.Client, Relay]:
    """A client whose connections are cut."""
    relay = Relay(PORT, cuts)
    return sluice.Client(f"https://localhost:{relay.port}", ca=CA, timeout=180, **options), relay


class Streams(unittest.TestCase):
    """Predictions are read while the frame is sent."""

    def test_the_answer_arrives_while_the_frame_is_sent(self) -> None:
        frame = applications(300_000).select(pl.all().exclude("income"), income=pl.int_range(300_000) * 1.5)
        early: list[int] = []
        write = _duplex.DuplexStream.write

        def counted(stream: Any, buffer: bytes, timeout: float | None = None) -> None:
            write(stream, buffer, timeout)
            early.append(sum(map(len, stream._early)))

        with mock.patch.object(_duplex.DuplexStream, "write", counted):
            result = CLIENT.predict(frame, MODEL)
        self.assertEqual(result.height, frame.height)
        self.assertGreater(max(early), 1_000_000)
        small = CLIENT.predict(frame.slice(299_990), MODEL)
        self.assertTrue(result.slice(299_990).equals(small))

    def test_asyncio_gives_the_same_results_side_by_side(self) -> None:
        frame = applications(120_000)
        wanted = CLIENT.predict(frame, MODEL)

        async def both() -> list[Any]:
            async with sluice.AsyncClient(ca=CA) as client:
                results = await asyncio.gather(client.predict(frame, MODEL), client.predict(frame.head(70_000), MODEL))
                described = await client.models[MODEL].columns
                explained = await client.explain(frame.head(3), MODEL, top=2)
                with self.assertRaises(sluice.NotFound):
                    await client.predict(frame, "missing")
                return [*results, described, explained]

        whole, part, columns, explained = asyncio.run(both())
        self.assertTrue(whole.equals(wanted))
        self.assertTrue(part.equals(wanted.head(70_000)))
        self.assertEqual([c["name"] for c in columns], frame.columns)
        self.assertTrue(explained.equals(CLIENT.explain(frame.head(3), MODEL, top=2)))

    def test_batches_of_a_reader_are_neither_collected_nor_copied(self) -> None:
        table = applications(50_000).to_arrow()
        yielded: list[int] = []

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in table.to_batches(max_chunksize=5_000):
                yielded.append(batch.num_rows)
                yield batch

        reader = pa.RecordBatchReader.from_batches(table.schema, batches())
        result = CLIENT.predict(reader, MODEL)
        self.assertEqual((len(yielded), result.num_rows), (10, 50_000))

    def test_a_failing_frame_raises_its_own_error(self) -> None:
        table = applications(10_000).to_arrow()

        def batches() -> Iterator[pa.RecordBatch]:
            yield from table.to_batches(max_chunksize=2_000)
            raise OSError("the disk is gone")

        reader = pa.RecordBatchReader.from_batches(table.schema, batches())
        with self.assertRaisesRegex(OSError, "the disk is gone"):
            CLIENT.predict(reader, MODEL)
        self.assertEqual(CLIENT.predict(table, MODEL).num_rows, 10_000)


class Explanations(unittest.TestCase):
    """Effects of the columns."""

    def test_base_and_effects_add_up(self) -> None:
        frame = applications(50)
        names = [f"effect.{name}" for name in frame.columns]
        whole = CLIENT.explain(frame, MODEL)
        odds = (whole["probability"] / (1 - whole["probability"])).log()
        total = whole["base"] + whole.select(names).sum_horizontal()
        self.assertLess((odds - total).abs().max(), 1e-5)
        few = CLIENT.explain(frame, MODEL, top=4)
        self.assertEqual(set(few.select(pl.sum_horizontal(pl.col(names).is_not_null())).to_series()), {4})
        rows = CLIENT.explain(frame.to_dicts(), MODEL, top=4)
        self.assertEqual([row["probability"] for row in rows], few["probability"].to_list())
        for effect in rows[7]["effects"]:
            self.assertEqual(few[f"effect.{effect['column']}"][7], effect["effect"])


class Retries(unittest.TestCase):
    """What is repeated, and what is not."""

    def test_cut_connections_are_repeated(self) -> None:
        frame = applications(100_000)
        wanted = CLIENT.predict(frame, MODEL)
        # The first one is for the columns; then the request is cut, then the response.
        client, relay = client_through([(None, 3_000), (500_000, None), (None, 700_000), (None, None)])
        with client, contextlib.closing(relay):
            self.assertTrue(client.predict(frame, MODEL).equals(wanted))
            self.assertGreaterEqual(relay.connections, 3)

    def test_a_cut_answer_is_an_error(self) -> None:
        frame = applications(100_000)
        client, relay = client_through([(None, 700_000)] * 9, max_retries=1)
        with client, contextlib.closing(relay), self.assertRaises(sluice.ConnectionFailed):
            client.predict(frame, MODEL)
        self.assertEqual(relay.connections, 2)

    def test_what_can_be_read_once_is_not_repeated(self) -> None:
        frame = applications(100_000)
        client, relay = client_through([(None, 700_000)] * 9)
        with client, contextlib.closing(relay), self.assertRaises(sluice.ConnectionFailed):
            client.predict(pa.RecordBatchReader.from_stream(frame), MODEL)
        self.assertEqual(relay.connections, 1)

    def test_statuses_and_retry_after(self) -> None:
        answers: list[tuple[int, dict[str, str]]] = []
        times: list[float] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                times.append(time.monotonic())
                status, headers = answers.pop(0) if answers else (200, {})
                body = b'{"models": []}' if status == 200 else b'{"code": "overloaded", "requestId": "r-1"}'
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            client = sluice.Client(f"http://127.0.0.1:{server.server_port}", "key")
            cases: list[tuple[list[tuple[int, dict[str, str]]], int, type | None]] = [
                ([(503, {"retry-after": "1"})], 2, None),
                ([(429, {}), (500, {})], 3, None),
                ([(502, {}), (504, {}), (503, {})], 3, sluice.Unavailable),
                ([(503, {"retry-after": "3600"})], 1, sluice.Unavailable),
                ([(400, {"retry-after": "0"})], 2, None),
                ([(400, {})], 1, sluice.BadRequest),
                ([(401, {})], 1, sluice.NotAuthenticated),
                ([(403, {})], 1, sluice.NotPermitted),
                ([(404, {})], 1, sluice.NotFound),
                ([(409, {})], 1, sluice.Conflict),
                ([(413, {})], 1, sluice.TooLarge),
                ([(423, {})], 1, sluice.Locked),
                ([(429, {})] * 3, 3, sluice.TooManyRequests),
                ([(500, {})] * 3, 3, sluice.ServerFault),
                ([(502, {})] * 3, 3, sluice.BadGateway),
                ([(504, {})] * 3, 3, sluice.GatewayTimeout),
                ([(418, {})], 1, sluice.ApiError),
            ]
            for answered, requests, error in cases:
                with self.subTest(answered=answered):
                    answers[:] = answered
                    times.clear()
                    if error is None:
                        self.assertEqual(client.models.list(), [])
                    else:
                        with self.assertRaises(error) as caught:
                            client.models.list()
                        self.assertIs(type(caught.exception), error)
                        self.assertEqual((caught.exception.code, caught.exception.request_id), ("overloaded", "r-1"))
                    self.assertEqual(len(times), requests)
                    if answered[0][1].get("retry-after") == "1":
                        self.assertGreaterEqual(times[1] - times[0], 1)
            client.close()
            server.shutdown()
        self.assertEqual(seconds_of("7"), 7)
        self.assertEqual(seconds_of("Thu, 01 Jan 1970 00:00:00 GMT"), 0)
        self.assertIsNone(seconds_of("soon"))

    def test_errors_of_the_service(self) -> None:
        frame = applications(3)
        with self.assertRaises(sluice.NotFound) as caught:
            CLIENT.predict(frame, "missing@champion")
        error = caught.exception
        self.assertEqual((error.status, error.code), (404, "model_not_found"))
        self.assertTrue(error.request_id)
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        self.assertEqual(pickle.loads(pickle.dumps(error)).request_id, error.request_id)
        with self.assertRaises(sluice.NotAuthenticated):
            sluice.Client(api_key="sluice_" + "x" * 43, ca=CA).models.list()
        # An untrusted certificate, and no service at all.
        for url, options in ((os.environ["SLUICE_URL"], {}), ("https://localhost:1", {"ca": CA})):
            with self.assertRaises(sluice.ConnectionFailed):
                sluice.Client(url, max_retries=0, **options).models.list()


class Secrets(unittest.TestCase):
    """The key is in no repr, pickle or traceback."""

    def test_repr_and_pickle(self) -> None:
        client = sluice.Client("https://localhost:9", SECRET)
        self.assertNotIn(SECRET, repr(client) + repr(vars(client)) + str(vars(client._http)))
        stored = pickle.dumps(client)
        self.assertNotIn(SECRET.encode(), stored)
        self.assertEqual(repr(pickle.loads(stored)), repr(client))

    def test_tracebacks_with_local_variables(self) -> None:
        frame = applications(200_000)
        relay = Relay(PORT, [(None, None)])
        failing = [
            lambda: make("ftp://localhost"),
            lambda: make("http://scores.example"),
            lambda: make("https://localhost:1").models.list(),
            lambda: make(os.environ["SLUICE_URL"]).models.list(),
            lambda: make(os.environ["SLUICE_URL"], ca=CA).models.list(),
            lambda: make(os.environ["SLUICE_URL"], ca=CA).predict(frame, MODEL),
            lambda: asyncio.run(make(os.environ["SLUICE_URL"], kind=sluice.AsyncClient, ca=CA).models.list()),
            lambda: asyncio.run(make("https://localhost:1", kind=sluice.AsyncClient).models.list()),
        ]
        for call in failing:
            text = "no error"
            try:
                call()
            except Exception as error:
                lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
                text = "".join(lines).replace(f"SECRET = {SECRET!r}", "")
            self.assertRegex(text, "_(async_)?client.py")
            self.assertNotIn(SECRET, text)
        relay.close()

    def test_the_key_is_sent_over_tls_or_to_this_machine_only(self) -> None:
        for url in ("http://scores.example", "ftp://localhost", "https://me:secret@localhost", "localhost:8443"):
            with self.assertRaises(ValueError):
                sluice.Client(url, SECRET)
        with mock.patch.dict(os.environ):
            del os.environ["SLUICE_API_KEY"]
            with self.assertRaisesRegex(ValueError, "SLUICE_API_KEY"):
                sluice.Client("https://localhost")
            del os.environ["SLUICE_URL"]
            with self.assertRaisesRegex(ValueError, "SLUICE_URL"):
                sluice.Client(api_key=SECRET)


SECRET = "sluice_" + "s3cret" * 7


def make(url: str, kind: Any = None, **options: Any) -> Any:
    """A client with the secret key and without retries."""
    return (kind or sluice.Client)(url, SECRET, max_retries=0, **options)


class ModelsAndFiles(unittest.TestCase):
    """Descriptions of models, drift, and files as jobs."""

    def test_description(self) -> None:
        model = CLIENT.models[f"{MODEL}@champion"]
        self.assertEqual(model.version, "1")
        names = [column["name"] for column in model.columns]
        self.assertEqual(list(model.sample), names)
        self.assertEqual(CLIENT.predict([model.sample], MODEL)[0]["error_code"], None)
        self.assertIn(MODEL, [entry["id"] for entry in CLIENT.models.list()])
        drift = model.drift()
        self.assertEqual((drift["modelId"], drift["baseline"]), (MODEL, True))
        with self.assertRaises(sluice.BadRequest):
            model.drift("century")

    def test_files_of_every_format(self) -> None:
        frame = applications(2_000)
        wanted = CLIENT.predict(frame, MODEL)
        for ending, write in {
            "csv": lambda path: frame.write_csv(path),
            "tsv": lambda path: frame.write_csv(path, separator="\t"),
            "ndjson": lambda path: frame.write_ndjson(path),
            "json": lambda path: frame.write_json(path),
        }.items():
            with self.subTest(ending):
                source, target = FOLDER / f"in.{ending}", FOLDER / f"out.{ending}"
                write(source)
                counts = CLIENT.predict_file(source, target, MODEL)
                self.assertEqual(counts, {"rows": 2000, "scored": 2000, "rejected": 0})
                if ending in ("csv", "tsv"):
                    found = pl.read_csv(target, separator="," if ending == "csv" else "\t")["probability"].to_list()
                elif ending == "ndjson":
                    found = [json.loads(line)["probability"] for line in target.read_text().splitlines()]
                else:
                    found = [row["probability"] for row in json.loads(target.read_text())["predictions"]]
                self.assertEqual(found, wanted["probability"].to_list())
        left = [name for name in os.listdir(FOLDER) if name.endswith(".partial")]
        self.assertEqual(left, [])
        jobs = CLIENT._run(CLIENT._json("/api/v1/scoring/jobs", {"state": "done"}))["jobs"]
        self.assertEqual(jobs, [])

    def test_an_interrupted_upload_and_download_are_continued(self) -> None:
        source, target = FOLDER / "long.ndjson", FOLDER / "long.out.ndjson"
        frame = applications(20_000)
        frame.write_ndjson(source)
        wanted = FOLDER / "whole.ndjson"
        CLIENT.predict_file(source, wanted, MODEL, progress=False)
        with mock.patch.object(_uploads, "PART_BYTES", 3_000_000), mock.patch.object(_uploads, "READ_BYTES", 100_000):
            client, relay = client_through([(4_000_000, None), (2_000_000, None), (None, 600_000), (None, 300_000)])
            with client, contextlib.closing(relay):
                counts = client.predict_file(source, target, MODEL, progress=False)
        self.assertEqual(counts["scored"], 20_000)
        self.assertGreaterEqual(relay.connections, 4)
        self.assertEqual(target.read_bytes(), wanted.read_bytes())

    def test_files_that_fail(self) -> None:
        source, target = FOLDER / "bad.csv", FOLDER / "bad.out.csv"
        applications(3).with_columns(amount=pl.lit("much")).write_csv(source)
        with self.assertRaises(sluice.JobFailed) as caught:
            CLIENT.predict_file(source, target, MODEL)
        self.assertEqual(caught.exception.code, "nothing_scored")
        self.assertFalse(target.exists())
        for wrong in (("in.parquet", "out.parquet"), ("bad.csv", "out.json")):
            with self.assertRaises(ValueError):
                CLIENT.predict_file(FOLDER / wrong[0], FOLDER / wrong[1], MODEL)


class LocalCommand(unittest.TestCase):
    """The same calls without a service."""

    def test_results_are_those_of_the_service(self) -> None:
        frame = applications(1_000)
        local = sluice.local(MODEL, registry=os.environ["SLUICE_REGISTRY"])
        self.assertTrue(local.predict(frame).equals(CLIENT.predict(frame, MODEL)))
        self.assertTrue(local.explain(frame, top=3).equals(CLIENT.explain(frame, MODEL, top=3)))
        self.assertEqual(local.predict(frame.head(5).to_dicts()), CLIENT.predict(frame.head(5).to_dicts(), MODEL))
        self.assertEqual(local.columns, CLIENT.models[MODEL].columns)
        source, target = FOLDER / "local.csv", FOLDER / "local.out.csv"
        frame.write_csv(source)
        self.assertEqual(local.predict_file(source, target)["scored"], 1_000)
        self.assertEqual(pl.read_csv(target)["probability"].to_list(), local.predict(frame)["probability"].to_list())

    def test_errors(self) -> None:
        local = sluice.local(MODEL, registry=os.environ["SLUICE_REGISTRY"])
        bad = applications(3).with_columns(amount=pl.lit("much"))
        self.assertEqual(set(local.predict(bad)["error_code"]), {"bad_number"})
        with self.assertRaises(sluice.ColumnTypeError):
            local.predict(applications(3).with_columns(credit_product_id=pl.lit(230)))
        with self.assertRaises(sluice.CommandFailed) as caught:
            local.predict(bad, "missing")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(sluice.CommandFailed) as caught:
            sluice.local(MODEL, command=["this command does not exist"]).predict(bad)
        self.assertEqual(caught.exception.code, "command_not_found")


class Imports(unittest.TestCase):
    """What an import loads."""

    def test_import_loads_the_standard_library_only(self) -> None:
        code = "import sys; before = set(sys.modules); import sluice; print(*sorted(set(sys.modules) - before))"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        self.assertIn("sluice", loaded)
        self.assertEqual({"httpx2", "pandas", "polars", "pyarrow", "numpy", "asyncio"} & set(loaded), set())

    def test_polars_and_dictionaries_need_no_other_library(self) -> None:
        code = """
import sys
for name in ("pyarrow", "pandas", "numpy"):
    sys.modules[name] = None
import os, sluice, polars as pl
client = sluice.Client(ca=os.environ["SLUICE_CA"])
sample = client.models["credit-default"].sample
frame = client.predict(pl.DataFrame([sample]), "credit-default", on_invalid="raise")
assert frame["probability"][0] == client.predict([sample], "credit-default")[0]["probability"]
client.explain(pl.DataFrame([sample]), "credit-default", top=1)
client.close()
print(frame.height)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout.strip()), (0, "1"), run.stderr)

    def test_every_name_exists_and_is_documented(self) -> None:
        for name in sluice.__all__:
            self.assertTrue(getattr(sluice, name).__doc__, name)
        with self.assertRaises(AttributeError):
            sluice.nothing  # noqa: B018


if __name__ == "__main__":
    unittest.main()
