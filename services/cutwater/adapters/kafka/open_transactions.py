"""Open transactions, which hide later records from readers: the texts of errors."""

from __future__ import annotations

Place = tuple[str, int]
"""Topic and partition."""


def how_to_end(place: Place, offset: int) -> str:
    """Return an operator's command to end a hanging transaction."""
    topic, partition = place
    return (
        f"end it: 'kafka-transactions.sh --bootstrap-server … abort --topic {topic} --partition {partition} "
        f"--start-offset {offset}'"
    )


def hidden_records(place: Place, offset: int, count: int) -> str:
    """Return why `count` offsets from `offset` on do not arrive. The transaction may be in progress."""
    return (
        f"{place[0]}/{place[1]}: a transaction is open at offset {offset}, and {count} offsets from there "
        "on cannot be read. Its writer or Kafka's transaction time-out ends it. If it stays open, its end is "
        f"lost: {how_to_end(place, offset)}"
    )
