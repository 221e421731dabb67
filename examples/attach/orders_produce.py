"""Create the topic of the tutorial if it is missing, and produce orders, some of them twice."""

import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")


def main(count: int) -> None:
    brokers = {"bootstrap.servers": os.environ["CUTWATER_BOOTSTRAP_SERVERS"]}
    admin = AdminClient(brokers)
    if TOPIC not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result(10)
    producer, now = Producer(brokers), datetime.now(UTC)
    for number in range(count):
        customer = f"c{random.randrange(20)}"
        at = now - timedelta(minutes=30) * (1 - number / count)
        order = {"event_id": f"{now:%s}-{number}", "customer": customer, "cents": random.randrange(20_000)}
        value = json.dumps({**order, "at": at.isoformat()})
        for _ in range(1 + (number % 5 == 0)):
            producer.produce(TOPIC, value, customer)
            producer.poll(0)
    if left := producer.flush(30):
        sys.exit(f"{left} orders were not delivered")
    print(f"{count} orders produced to {TOPIC}, every fifth of them twice")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
