"""Feeds applications at a steady rate and measures, as a reader of committed records, how long each answer took.

Arguments: broker, source, target, file of applications (JSON lines), records a second, seconds.
Prints JSON: answers, milliseconds from produce() to the answer at the reader (p50, p99, max).
"""
import json
import sys
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

broker, source, target, file, rate, seconds = sys.argv[1:7]
rate, seconds = int(rate), float(seconds)
applications = [line for line in open(file).read().splitlines() if line]
producer = Producer({"bootstrap.servers": broker, "linger.ms": 0})
consumer = Consumer({
    "bootstrap.servers": broker, "group.id": "drive", "isolation.level": "read_committed", "fetch.wait.max.ms": 20,
})
partitions = sorted(consumer.list_topics(target, 10).topics[target].partitions)
consumer.assign([
    TopicPartition(target, p, consumer.get_watermark_offsets(TopicPartition(target, p), 10)[1]) for p in partitions
])
total = int(rate * seconds)
sent = [0.0] * total
took = {}


def feed():
    began = time.monotonic()
    for i in range(total):
        left = began + i / rate - time.monotonic()
        if left > 0:
            producer.poll(0)
            time.sleep(left)
        sent[i] = time.monotonic()
        producer.produce(source, applications[i % len(applications)], str(i), partition=i % len(partitions),
                         headers={"n": str(i)})
    producer.flush()


feeding = threading.Thread(target=feed)
feeding.start()
patience = time.monotonic() + seconds + 60
doubled = 0
while len(took) < total and time.monotonic() < patience:
    record = consumer.poll(0.1)
    if record is None or record.error():
        continue
    now = time.monotonic()
    n = int(dict(record.headers())["n"])
    doubled += n in took
    took.setdefault(n, now - sent[n])
feeding.join()
counted = sorted(s * 1000 for s in took.values())
at = lambda share: round(counted[min(len(counted) - 1, int(len(counted) * share))], 1)
print(json.dumps({
    "answers": len(took), "lost": total - len(took), "doubled": doubled,
    "p50": at(0.5), "p99": at(0.99), "max": round(counted[-1], 1),
}))
consumer.close()
