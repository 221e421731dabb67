"""Read whole milestones from a job's output, with confluent-kafka and fastavro only.

usage: python python_consumer.py BROKERS TOPIC OUTPUT_SCHEMA.avsc END_SCHEMA.avsc [SEQUENCE]

Prints one line of JSON per milestone. SEQUENCE: start after that milestone. Ends after 5 s without a new record.
"""

import io
import json
import sys
from collections import deque

import fastavro
from confluent_kafka import Consumer, TopicPartition

HEADER_BYTES = 10  # c3 01 and the schema's fingerprint: docs/FORMAT.md, "Single-object encoding"
IDLE_S = 5.0


def main(brokers, topic, output_schema, end_schema, after=0):
    rows_schema, ends_schema = fastavro.schema.load_schema(output_schema), fastavro.schema.load_schema(end_schema)
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "unused",
            "isolation.level": "read_committed",  # the default of librdkafka, and needed
            "enable.auto.commit": False,  # a partition's offset does not identify the milestone: keep the sequence
        }
    )
    partitions = range(len(consumer.list_topics(topic, timeout=20).topics[topic].partitions))
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    open_rows = [[] for _ in partitions]  # rows whose end marker has not arrived yet
    ended = [deque() for _ in partitions]  # milestones that this partition has ended, oldest first
    while (message := consumer.poll(IDLE_S)) is not None:
        if message.error():
            raise SystemExit(f"cannot read {topic}: {message.error()}")
        number, body = message.partition(), io.BytesIO(message.value()[HEADER_BYTES:])
        if message.key() is not None:
            open_rows[number].append(fastavro.schemaless_reader(body, rows_schema))
            continue
        end = fastavro.schemaless_reader(body, ends_schema)
        if not end["last"]:  # a milestone too large for one transaction continues
            continue
        rows, open_rows[number] = open_rows[number], []
        if len(rows) != end["rows"]:
            raise SystemExit(f"partition {number}: {len(rows)} rows, and the end marker says {end['rows']}")
        ended[number].append((end, rows))
        while all(ended):  # every partition has ended its oldest milestone: it is whole
            take(ended, after)
    consumer.close()


def take(ended, after):
    parts = [one.popleft() for one in ended]
    end = parts[0][0]
    if end["sequence"] <= after:
        return
    rows = {(row["key"], row["window_start"]): row for _, part in parts for row in part}
    token = f"{end['generation']}:{end['sequence']}"
    print(json.dumps({"token": token, "rows": list(rows.values())}, default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(int, sys.argv[5:6]))
