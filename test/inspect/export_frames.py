"""Writes a table of applications as pandas users export it: export_frames.py TABLE FOLDER."""

import sys
from pathlib import Path

import pandas as pd

table, folder = Path(sys.argv[1]), Path(sys.argv[2])
WORDS = {name: str for name in pd.read_csv(table, nrows=0).columns if name.endswith(("_type", "_id", "_status"))}
frame = pd.read_csv(table, dtype=WORDS)

frame.to_parquet(folder / "frame.parquet")
indexed = frame.set_axis([f"A{i}" for i in range(len(frame))], axis="index")
indexed.to_parquet(folder / "index.parquet")
frame.convert_dtypes().to_parquet(folder / "nullable.parquet", compression="zstd")
frame.to_feather(folder / "frame.feather")
frame.to_csv(folder / "frame.csv")
frame.to_csv(folder / "local.csv", sep=";", decimal=",", encoding="utf-8-sig", na_rep="NaN", index=False)
frame.to_csv(folder / "tabs.txt.gz", sep="\t", float_format="%.2f", quoting=1)
frame.to_json(folder / "lines.json", orient="records", lines=True)
frame.to_json(folder / "records.json", orient="records", indent=2)
