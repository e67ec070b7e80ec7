"""A plain loop as one writes it: consume, score with onnxruntime, produce, commit. No transactions: at least once."""
import json
import signal
import sys

import numpy as np
import onnxruntime as ort
from confluent_kafka import Consumer, Producer

broker, source, target, group, model = sys.argv[1:6]
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(model, options)
inputs = [(i.name, "string" in i.type) for i in session.get_inputs()]
consumer = Consumer({
    "bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
consumer.subscribe([source])
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))


def number(value):
    if value is None or value == "":
        return float("nan")
    return {"true": 1.0, "false": 0.0}.get(value) if value in ("true", "false") else float(value)


while not ended:
    records = [r for r in consumer.consume(500, 0.05) if not r.error()]
    if not records:
        continue
    rows = [json.loads(r.value()) for r in records]
    feed = {
        name: np.array([[row.get(name) or ""] for row in rows], dtype=object) if is_text
        else np.array([[number(row.get(name))] for row in rows], dtype=np.float32)
        for name, is_text in inputs
    }
    labels, probabilities = session.run(None, feed)
    for record, row, label, p in zip(records, rows, labels, probabilities):
        row["prediction"], row["probability"] = int(label), float(p[1])
        producer.produce(target, json.dumps(row), record.key(), headers=record.headers(), partition=record.partition())
    producer.poll(0)
    producer.flush()
    consumer.commit(asynchronous=True)
consumer.close()
