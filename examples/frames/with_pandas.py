"""A frame of pandas, scored: python3 with_pandas.py portfolio.csv credit-default [command of sluice ...]"""

import io
import subprocess
import sys

import pandas as pd
import pyarrow as pa

file, model, *command = sys.argv[1:]
frame = pd.read_csv(file, dtype=str)  # codes keep their zeros
buffer = io.BytesIO()
with pa.ipc.new_stream(buffer, (table := pa.Table.from_pandas(frame)).schema) as stream:
    stream.write_table(table, max_chunksize=50_000)
arguments = [*(command or ["sluice"]), "score", "-", "--model", model, "--input-format", "arrow", "--format", "arrow"]
answer = subprocess.run(arguments, input=buffer.getvalue(), stdout=subprocess.PIPE).stdout
scored = pa.ipc.open_stream(answer).read_pandas()
print(scored.to_json(orient="records", lines=True, double_precision=15))
