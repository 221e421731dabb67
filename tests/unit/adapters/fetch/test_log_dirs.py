"""The request for the space of brokers' disks: its bytes, and what is made of an answer."""

from __future__ import annotations

import struct
from io import BytesIO

import pytest

from cutwater.adapters.fetch.log_dirs import DescribeLogDirs, LogDirsAnswer, LogFolder, _folders
from cutwater.core.errors import UnavailableError


def folder(path: str, total: int, usable: int, code: int = 0) -> bytes:
    """A result without topics: a code, a text with its length, no array, two numbers, no tags."""
    name = bytes([len(path) + 1]) + path.encode()
    return struct.pack(">h", code) + name + b"\x01" + struct.pack(">qq", total, usable) + b"\x00"


def answer(*folders: bytes, code: int = 0) -> LogDirsAnswer:
    head = struct.pack(">ih", 0, code) + bytes([len(folders) + 1])
    return LogDirsAnswer.decode(BytesIO(head + b"".join(folders) + b"\x00"))


def test_the_question_names_no_topic() -> None:
    """An empty array, where none would be all topics, and no tags."""
    question = DescribeLogDirs().prepare({35: (1, 4)})
    assert question.encode() == b"\x01\x00"


def test_an_older_broker_is_not_asked() -> None:
    with pytest.raises(UnavailableError, match=r"3\.3"):
        DescribeLogDirs().prepare({35: (0, 3)})


def test_each_folder_has_its_space() -> None:
    """One that is offline, or whose space is unknown, has none."""
    found = answer(folder("/a", 100, 40), folder("/b", 0, 0, code=56), folder("/c", -1, -1), folder("/d", 10, 0))
    assert _folders(3, found) == [LogFolder(3, "/a", 40, 100), LogFolder(3, "/d", 0, 10)]


def test_a_refusal_is_no_space() -> None:
    found = answer(code=31)
    assert (found.error_code, _folders(1, found)) == (31, [])
