"""A query of DuckDB, scored: python3 with_duckdb.py portfolio.csv credit-default [command of sluice ...]"""

import subprocess
import sys
import threading

import duckdb
import pyarrow as pa

file, model, *command = sys.argv[1:]
# Codes keep their zeros.
batches = duckdb.sql(f"FROM read_csv('{file}', all_varchar = true)").fetch_arrow_reader(50_000)
arguments = [*(command or ["sluice"]), "score", "-", "--model", model, "--input-format", "arrow", "--format", "arrow"]
process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def feed():
    with process.stdin, pa.ipc.new_stream(process.stdin, batches.schema) as stream:
        for batch in batches:
            stream.write_batch(batch)


threading.Thread(target=feed).start()
scored = pa.ipc.open_stream(process.stdout).read_all()
print(scored.to_pandas().to_json(orient="records", lines=True, double_precision=15))
