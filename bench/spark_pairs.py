"""A table through Spark, warm, in turn: mapInArrow as it is, and the same through Sluice. Prints seconds of wall time as JSON.

spark_pairs.py TABLE.parquet MODEL ROUNDS COMMAND…
"""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "examples", "spark"))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import score_frame  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

CORES = 2
WARM_UPS = 4
# Of a model without a scorecard.
ANSWER = "row int, prediction boolean, probability double, error_code string, error_column string, error_message string"


def seconds(frame, function, schema):
    began = time.perf_counter()
    frame.mapInArrow(function, schema).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def unchanged(batches):
    yield from batches


def main(table, model, rounds, *command):
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        # As examples/spark has it.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.addPyFile(score_frame.__file__)
    frame = spark.read.parquet(table)
    ways = {"plain": (unchanged, frame.schema), "scored": (score_frame.scorer(model, [], command), ANSWER)}
    pairs = []
    for _ in range(WARM_UPS + int(rounds)):
        pairs.append({name: seconds(frame, *way) for name, way in ways.items()})
    result = {"rows": frame.count(), "partitions": frame.rdd.getNumPartitions(), "pairs": pairs[WARM_UPS:]}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
