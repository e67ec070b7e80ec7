"""A plain loop as one writes it: consume, score with onnxruntime, produce, commit.

Arguments: broker, source, target, group, model, "transactions" or "plain", maximum ms of a poll. With transactions, each poll is one of them:
exactly once. Otherwise at least once.
"""
import json
import signal
import sys

import numpy as np
import onnxruntime as ort
from confluent_kafka import Consumer, Producer

broker, source, target, group, model, delivery, poll_ms = sys.argv[1:8]
transactional = delivery == "transactions"
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(model, options)
inputs = [(i.name, "string" in i.type) for i in session.get_inputs()]
consumer = Consumer({
    "bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
producer = Producer({
    "bootstrap.servers": broker, "enable.idempotence": True,
    **({"transactional.id": group} if transactional else {}),
})
if transactional:
    producer.init_transactions()
consumer.subscribe([source])
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))


def number(value):
    if value is None or value == "":
        return float("nan")
    return {"true": 1.0, "false": 0.0}.get(value) if value in ("true", "false") else float(value)


while not ended:
    records = [r for r in consumer.consume(500, int(poll_ms) / 1000) if not r.error()]
    if not records:
        continue
    rows = [json.loads(r.value()) for r in records]
    feed = {
        name: np.array([[row.get(name) or ""] for row in rows], dtype=object) if is_text
        else np.array([[number(row.get(name))] for row in rows], dtype=np.float32)
        for name, is_text in inputs
    }
    labels, probabilities = session.run(None, feed)
    if transactional:
        producer.begin_transaction()
    for record, row, label, p in zip(records, rows, labels, probabilities):
        row["prediction"], row["probability"] = int(label), float(p[1])
        producer.produce(target, json.dumps(row), record.key(), headers=record.headers(), partition=record.partition())
    producer.poll(0)
    if transactional:
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
    else:
        producer.flush()
        consumer.commit(asynchronous=True)
consumer.close()
