"""A broker's capabilities, by Kafka's ApiVersions request on a plain socket.

No client library exposes the answer. Brokers answer it before authentication, so this needs no password.
Source: Kafka's protocol guide, ApiVersions version 3 (flexible: compact arrays, tagged fields).
"""

from __future__ import annotations

import socket
import struct

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.cluster import BrokerVersion
from cutwater.core.errors import CutwaterError, UnavailableError

_API_VERSIONS, _VERSION, _CORRELATION = 18, 3, 7
_CLIENT = b"cutwater"
_ANSWER_BYTES_MAX = 1_000_000
_FINALIZED_FEATURES = 2
"""The tag of the finalized features."""
_FEATURE = "metadata.version"


def broker_version(cluster: Cluster, timeout_s: float = 5.0) -> BrokerVersion:
    """Return the version of the first broker that answers. Raises UnavailableError without a valid answer."""
    problem = "no broker is named"
    for place in cluster.bootstrap.split(","):
        host, _, port = place.strip().rpartition(":")
        try:
            return decode(_ask(cluster, host.strip("[]"), int(port), timeout_s))
        except (OSError, ValueError, IndexError, struct.error, CutwaterError) as error:
            problem = f"{place}: {error}"
    raise UnavailableError(f"no broker reports its version ({problem})")


def _ask(cluster: Cluster, host: str, port: int, timeout_s: float) -> bytes:
    # The client's name occurs twice, in two encodings: in the header, and in the body with a version.
    header = struct.pack(f">hhih{len(_CLIENT)}sB", _API_VERSIONS, _VERSION, _CORRELATION, len(_CLIENT), _CLIENT, 0)
    body = bytes([len(_CLIENT) + 1]) + _CLIENT + bytes([2]) + b"1" + b"\x00"
    with socket.create_connection((host, port), timeout=timeout_s) as plain:
        context = cluster.ssl_context() if cluster.security.tls else None
        channel = context.wrap_socket(plain, server_hostname=host) if context else plain
        channel.sendall(struct.pack(">i", len(header + body)) + header + body)
        (size,) = struct.unpack(">i", exactly(channel, 4))
        if not 0 < size <= _ANSWER_BYTES_MAX:
            raise ValueError(f"an answer of {size} bytes is not Kafka's")
        return exactly(channel, size)


def exactly(channel: socket.socket, count: int) -> bytes:
    """Read `count` bytes. Raises OSError if the other side closes before."""
    data = b""
    while len(data) < count:
        part = channel.recv(count - len(data))
        if not part:
            raise OSError("the broker closed the connection")
        data += part
    return data


def decode(answer: bytes) -> BrokerVersion:
    """Decode an answer from its correlation id on; raises ValueError for other data."""
    reader = _Reader(answer)
    correlation, code = reader.number(">i"), reader.number(">h")
    if correlation != _CORRELATION or code != 0:
        raise ValueError(f"answer {correlation} with error {code}: older than Kafka 2.4?")
    apis = []
    for _ in range(reader.varint() - 1):
        apis.append(reader.number(">h"))
        reader.skip(4)  # first and last version
        reader.tags()
    reader.skip(4)  # throttle time
    finalized = reader.tags().get(_FINALIZED_FEATURES, b"")
    return BrokerVersion(frozenset(apis), _features(_Reader(finalized)).get(_FEATURE) if finalized else None)


def _features(reader: _Reader) -> dict[str, int]:
    found = {}
    for _ in range(reader.varint() - 1):
        name = reader.take(reader.varint() - 1).decode()
        found[name] = reader.number(">h")
        reader.skip(2)  # the least level
        reader.tags()
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError("the answer is too short")
        self._at += count
        return self._data[self._at - count : self._at]

    def skip(self, count: int) -> None:
        self.take(count)

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}
