"""Scores a DataFrame of Spark: each partition goes through a `sluice score` of its own, as Arrow.

    PYSPARK_PYTHON=$(which python3) spark-submit examples/spark/score_frame.py portfolio.parquet scored.parquet credit-default

A process a partition costs its start each time, so a few large partitions (`coalesce`) are better than many small ones.
"""

import subprocess
import sys
import tempfile
import threading

import pyarrow as pa

# What `sluice score --format arrow` writes for a model with decisions, in the types of Spark.
PREDICTION = (
    "row int, prediction boolean, probability double, points int, decision string, "
    "error_code string, error_column string, error_message string"
)
# Rows were rejected: they are in the answer, with the reason.
SOME_REJECTED = 3


def scorer(model, passthrough=(), command=("sluice",)):
    """The function for `mapInArrow`. `passthrough`: columns of the frame that stand in front of the predictions; they become texts.

    `row` counts from 1 in each partition: pass a key through to know which application a prediction belongs to.
    """
    arguments = [*command, "score", "-", "--model", model, "--input-format", "arrow", "--format", "arrow", "--quiet"]
    # All rows of a partition may be rejected: they are in the answer like those of other partitions.
    arguments += ["--allow-empty"]
    if passthrough:
        arguments += ["--passthrough", ",".join(passthrough)]

    def score(batches):
        # An empty partition has no batch, and so no schema that could be sent.
        first = next(batches, None)
        if first is None:
            return
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            feeding = threading.Thread(target=feed, args=(process.stdin, first, batches, faults := []))
            # Reading and writing at the same time: with one after the other both ends would wait for a full pipe.
            feeding.start()
            try:
                yield from pa.ipc.open_stream(process.stdout)
            except pa.ArrowInvalid as error:
                faults.append(error)
            process.stdout.close()
            code = process.wait()
            feeding.join()
            # Only now is it known that nothing is missing.
            if code not in (0, SOME_REJECTED):
                log.seek(0)
                raise RuntimeError(f"sluice ended with {code}: {log.read().decode(errors='replace')[-2000:]}")
            if faults:
                raise faults[0]

    return score


def feed(stdin, first, batches, faults):
    try:
        with stdin, pa.ipc.new_stream(stdin, first.schema) as stream:
            stream.write_batch(first)
            for batch in batches:
                stream.write_batch(batch)
    except BrokenPipeError:
        # It ended before it had read everything: its exit code says why.
        pass
    except Exception as error:  # noqa: BLE001: told by the thread that waits
        faults.append(error)


def main(source, target, model, *command):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    # The workers import this file, too.
    spark.sparkContext.addPyFile(__file__)
    # Larger batches cost less than Spark's 10,000 rows.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50000")
    frame = spark.read.parquet(source)
    key = frame.columns[0]
    partitions = min(frame.rdd.getNumPartitions(), spark.sparkContext.defaultParallelism)
    scored = frame.coalesce(partitions).mapInArrow(
        scorer(model, [key], command or ("sluice",)), f"`{key}` string, {PREDICTION}"
    )
    scored.write.mode("overwrite").parquet(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
