"""A frame of polars, scored: python3 with_polars.py portfolio.csv credit-default [command of sluice ...]"""

import io
import subprocess
import sys

import polars as pl

file, model, *command = sys.argv[1:]
frame = pl.read_csv(file, infer_schema=False)  # codes keep their zeros
frame.write_ipc_stream(buffer := io.BytesIO())
arguments = [*(command or ["sluice"]), "score", "-", "--model", model, "--input-format", "arrow", "--format", "arrow"]
answer = subprocess.run(arguments, input=buffer.getvalue(), stdout=subprocess.PIPE).stdout
scored = pl.read_ipc_stream(answer)
print(scored.write_ndjson(), end="")
