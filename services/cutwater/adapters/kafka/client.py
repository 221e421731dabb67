"""Kafka through confluent-kafka: offsets, bounded reads. `admin` creates topics, `writers` write.

Kafka's errors become Cutwater's own, which name the cause and the remedy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import ask, create_client
from cutwater.adapters.kafka.open_transactions import hidden_records
from cutwater.core.errors import (
    CutwaterError,
    FencedError,
    ProtocolError,
    UnavailableError,
    UsageError,
)

T = TypeVar("T")
TIMEOUT_S = 20.0
_NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
PASSING = _UNKNOWN | {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,  # a newly elected leader, until it knows the committed offsets
    KafkaError.KAFKA_STORAGE_ERROR,  # a leader with a failing disk, until another one is elected
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError._NOENT,  # "no leaders found", from an admin client
}
"""Temporary errors after creation of a topic or a broker's restart, until the next leader is known. Until then
brokers may report an existing partition as missing."""
_FIRST_AND_END = (OFFSET_BEGINNING, OFFSET_END)
_PAUSE_S, _PAUSE_S_MAX = 0.1, 0.4
_LOOK_S, _ANEW_S = 1.0, 5.0
ANSWER_S = 4.0
"""Time-out of one answer if another client or leader may give it: a broker that has died never answers."""


_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


def explain(error: KafkaException | KafkaError, doing: str) -> CutwaterError:
    """Return the Cutwater error for a Kafka error. `doing`: the failed action with its object."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    if cause.code() in _FENCED:
        return FencedError(f"{doing}: a newer process has taken over this transactional id; this one exits")
    if cause.code() in _NOT_ALLOWED:
        return UsageError(f"{doing}: this user may not ({cause.str()}); docs/SECURITY.md lists the ACLs")
    if cause.code() in _UNKNOWN:
        return UsageError(f"{doing}: the topic does not exist; create it, or start with 'cutwater up'")
    if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return UsageError(f"{doing}: a record is larger than the topic or the producer allows ({cause.str()})")
    return UnavailableError(f"{doing}: {cause.str()}; check that the brokers run and can be reached")


def failure(asked: Future[Any], doing: str, timeout_s: float) -> KafkaException | None:
    """Return the Kafka error of an admin client's request.

    If the future raised it, the error would keep the caller's frame and the client alive until a garbage
    collection. Raises UnavailableError without an answer in `timeout_s`, also if this process was suspended.
    """
    try:
        error = asked.exception(timeout_s)
    except TimeoutError:
        raise UnavailableError(f"{doing}: no answer in {timeout_s:g} s; check that the brokers run") from None
    if error is not None and not isinstance(error, KafkaException):
        raise error
    return error


def retry_unknown_leader(
    doing: str, ask: Callable[[], T], look: Callable[[], Any], patience_s: float = TIMEOUT_S
) -> T:
    """Return the answer of `ask`; retry it for a bounded time while a partition's leader is unknown.

    `look`: refreshes the client's metadata, since librdkafka keeps outdated metadata for minutes. Raises as
    `explain` does: UsageError for a topic that is unknown for all that time. If `look` fails too, its error is
    raised: a client without brokers knows no topic.
    """
    deadline, pause_s = time.monotonic() + patience_s, _PAUSE_S
    unheard: KafkaException | None = None
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise explain(unheard or error, doing) from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            unheard = _refresh_metadata(look)


def _refresh_metadata(ask: Callable[[], Any]) -> KafkaException | None:
    """Refresh the client's metadata of a topic. Return the error if brokers are unreachable."""
    try:
        ask()
    except KafkaException as error:
        return error
    return None


def wait_for_broker(cluster: Cluster, timeout_s: float) -> None:
    """Return once a broker answers and accepts this client.

    Raises UnavailableError after `timeout_s`; UsageError at once if a security setting is wrong.
    """
    ask(cluster, timeout_s)


def partition_count(cluster: Cluster, topic: str) -> int:
    """Return the number of partitions of a topic; raises UsageError if it does not exist."""
    found = ask(cluster, TIMEOUT_S, topic).topics[topic]
    if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise explain(found.error, f"looking up topic {topic} at {cluster.bootstrap}")
    if found.error is not None or not found.partitions:
        raise UsageError(f"topic {topic} does not exist at {cluster.bootstrap}; create it, or run 'cutwater up'")
    return len(found.partitions)


def make_consumer(cluster: Cluster, **extra: Any) -> Consumer:
    """Return a consumer without group management. An offset out of range is an error, never a silent jump."""
    consumer: Consumer = create_client(
        cluster,
        Consumer,
        {
            "group.id": "cutwater",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "fetch.queue.backoff.ms": 5,
            "fetch.wait.max.ms": 50,
            "queued.max.messages.kbytes": 16_384,
            **extra,
        },
    )
    return consumer


def bounds(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return (first kept offset, end offset) of one partition.

    With `read_committed` the end is the last stable offset: an open transaction hides what follows it. Raises
    UnavailableError without an answer in time.

    Both are requested as special values of offsets by time: librdkafka's own request for them has no time-out, and
    never returns if librdkafka drops a broker meanwhile.
    """
    low, high = retry_unknown_leader(
        f"reading the offsets of {topic}/{partition}",
        lambda: [_offset(consumer, TopicPartition(topic, partition, moment)) for moment in _FIRST_AND_END],
        lambda: consumer.list_topics(topic, timeout=_ANEW_S),
    )
    return low, high


def _offset(consumer: Consumer, place: TopicPartition) -> int:
    # One time-out to find the leader, and one to query it.
    (found,) = consumer.offsets_for_times([place], timeout=TIMEOUT_S / 2)
    if found.error is not None:
        raise KafkaException(found.error)
    return int(found.offset)


def first_since(consumer: Consumer, topic: str, partition: int, at_ms: int) -> int:
    """Return the offset of the first record of that time or later; without one, the end of the partition."""
    found = retry_unknown_leader(
        f"reading the offsets of {topic}/{partition}",
        lambda: _offset(consumer, TopicPartition(topic, partition, at_ms)),
        lambda: consumer.list_topics(topic, timeout=_ANEW_S),
    )
    return found if found >= 0 else bounds(consumer, topic, partition)[1]


def topic_error(consumer: Consumer, topic: str, timeout_s: float) -> KafkaError | None:
    """Query the brokers for a topic; return None if they know it, else the error.

    For readers without new records. It does not query offsets: librdkafka may wait forever for them if it drops a
    broker meanwhile (seen in a container). A restarted broker knows no topic at first, and the client keeps that
    answer until its metadata are refreshed.
    """
    try:
        error: KafkaError | None = consumer.list_topics(topic, timeout=timeout_s).topics[topic].error
    except KafkaException as failed:
        error = failed.args[0]
    return error


def assign(consumer: Consumer, topic: str, firsts: Mapping[int, int]) -> None:
    """Read a topic's partitions from these offsets on.

    The topic is looked up first. Otherwise a timer of librdkafka starts reading an unknown topic 0.7 s later: at
    every restart, and once within an epoch.
    """
    _refresh_metadata(lambda: consumer.list_topics(topic, timeout=_LOOK_S))
    consumer.assign([TopicPartition(topic, number, first) for number, first in firsts.items()])


def read_range(
    consumer: Consumer, topic: str, partition: int, first: int, end: int | None = None
) -> Iterator[Message]:
    """Yield every record from `first` up to `end`, or to the partition's end if `end` is None.

    It ends by end-of-partition, not by counting: markers and compaction leave gaps. If the partition ends below
    `end`, it waits for more. Raises UnavailableError if nothing arrives in time, ProtocolError if `first` is no
    longer kept.
    """
    assign(consumer, topic, {partition: first})
    ended: int | None = None
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                if ended is not None and end is not None:
                    raise UnavailableError(hidden_records((topic, partition), ended, end - ended))
                raise UnavailableError(
                    f"{topic}/{partition}: no answer within {TIMEOUT_S:.0f} s; check the broker and the "
                    "permissions"
                )
            if message.error() is not None:
                if message.error().code() != KafkaError._PARTITION_EOF:
                    raise_read_error(message.error(), topic, partition)
                elif end is None or message.offset() >= end:
                    return
                ended = message.offset()
                continue
            if end is not None and message.offset() >= end:
                return
            yield message
            if end is not None and message.offset() >= end - 1:
                return
    finally:
        consumer.unassign()


def read_tail(
    consumer: Consumer, topic: str, partition: int, enough: Callable[[list[bytes]], bool], step: int = 256
) -> list[bytes]:
    """Return the values at the end of a partition, in log order: back in doubling steps until `enough` is true."""
    values: list[bytes] = []

    def find(messages: Iterator[Message]) -> list[bytes] | None:
        values[:] = [bytes(one.value()) for one in messages]
        return values if enough(values) else None

    search_backwards(consumer, topic, partition, find, step)
    return values


def search_backwards(
    consumer: Consumer,
    topic: str,
    partition: int,
    find: Callable[[Iterator[Message]], T | None],
    step: int = 256,
) -> T | None:
    """Return what `find` returns for the last records: of ever more, in doubling steps, while it is None."""
    low, high = bounds(consumer, topic, partition)
    while True:
        first = max(low, high - step)
        found = find(read_range(consumer, topic, partition, first, high)) if first < high else None
        if found is not None or first == low:
            return found
        step *= 2


def raise_read_error(error: KafkaError, topic: str | None, partition: int | None) -> None:
    """Raise for errors that librdkafka does not retry itself.

    ProtocolError and UsageError are final; after UnavailableError a retry may succeed.
    """
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise ProtocolError(
            f"{topic}/{partition}: the position is outside the log ({error.str()}): records that were not read "
            "yet have been deleted. Restart the reader from the start: a view without its folder, a client "
            "without token."
        )
    if error.code() in _UNKNOWN:
        raise UnavailableError(
            f"reading {topic}/{partition}: {error.str()}; is the topic deleted, or has its broker just restarted?"
        )
    # A missing permission on the group alone is ignored: nothing is committed to it.
    if error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise explain(error, f"reading {topic}/{partition}")


def headers_of(message: Message) -> Mapping[str, bytes]:
    """Return a record's headers; of a repeated name the last one."""
    return dict(message.headers() or [])
