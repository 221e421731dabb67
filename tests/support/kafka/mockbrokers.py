"""librdkafka's own mock of a broker, which answers with the errors that it is told to.

confluent-kafka does not offer it; its wheel's library has it all the same (rdkafka_mock.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from cutwater.adapters.kafka.client_config import Cluster

PRODUCE = 0
"""The key of Kafka's produce requests."""
_PRODUCER = 0
_CODE, _HANDLE, _SIZE = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t


class MockBroker:
    """One broker."""

    def __init__(self, library: ctypes.CDLL, mock: int) -> None:
        self._library, self._mock = library, mock
        self.cluster = Cluster(library.rd_kafka_mock_cluster_bootstraps(mock).decode())

    def create(self, topic: str, partitions: int = 1) -> None:
        assert self._library.rd_kafka_mock_topic_create(self._mock, topic.encode(), partitions, 1) == 0

    def answer(self, api_key: int, *codes: int) -> None:
        """The next requests of this kind with these errors, one each."""
        self._library.rd_kafka_mock_push_request_errors_array(
            self._mock, api_key, len(codes), (_CODE * len(codes))(*codes)
        )


@contextmanager
def mock_broker() -> Iterator[MockBroker]:
    library = _library()
    text = ctypes.create_string_buffer(256)
    # Whose client has the mock does not matter: any other one can connect.
    owner = library.rd_kafka_new(_PRODUCER, library.rd_kafka_conf_new(), text, len(text))
    assert owner, text.value
    mock = library.rd_kafka_mock_cluster_new(owner, 1)
    try:
        yield MockBroker(library, mock)
    finally:
        library.rd_kafka_mock_cluster_destroy(mock)
        library.rd_kafka_destroy(owner)


def _library() -> ctypes.CDLL:
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = sorted(beside.glob("librdkafka*"))
    if not found:
        pytest.skip("this confluent-kafka has librdkafka elsewhere")
    library = ctypes.CDLL(str(found[0]))
    library.rd_kafka_conf_new.restype = _HANDLE
    library.rd_kafka_new.restype = _HANDLE
    library.rd_kafka_new.argtypes = [_CODE, _HANDLE, ctypes.c_char_p, _SIZE]
    library.rd_kafka_destroy.argtypes = [_HANDLE]
    library.rd_kafka_mock_cluster_new.restype = _HANDLE
    library.rd_kafka_mock_cluster_new.argtypes = [_HANDLE, _CODE]
    library.rd_kafka_mock_cluster_destroy.argtypes = [_HANDLE]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [_HANDLE]
    library.rd_kafka_mock_topic_create.argtypes = [_HANDLE, ctypes.c_char_p, _CODE, _CODE]
    library.rd_kafka_mock_push_request_errors_array.argtypes = [
        _HANDLE,
        ctypes.c_int16,
        _SIZE,
        ctypes.POINTER(_CODE),
    ]
    return library
