"""`source.schema` as a .proto file, with the files that it imports."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.protobuf.proto_text import PROTO_BYTES_MAX
from cutwater.core.job.job import Job
from support.events import messages
from support.events.proto_printer import proto_text
from support.events.wide import job_text

ORDER = """\
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "common/money.proto";
message Order { string key = 1; google.protobuf.Timestamp at = 2; common.Money price = 3; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { int64 cents = 1; }'


def job(folder: Path, name: str = "event.proto") -> Job:
    text = job_text("wide", f"format: confluent-protobuf, message: {messages.NAME}").replace("event.avsc", name)
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return load_job(folder / "job.yaml")


def put(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.proto"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_proto_and_its_descriptor_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "proto").mkdir()
    put(tmp_path / "proto", event=proto_text(messages.file(), random.Random(1)))
    proto, desc = job(tmp_path / "proto"), messages.job(tmp_path / "desc")
    assert (proto.event_schema, proto.format, proto.state_schema) == (
        desc.event_schema,
        desc.format,
        desc.state_schema,
    )


def test_imports_are_beside_the_proto(tmp_path: Path) -> None:
    """Which may be in a folder below the job file's. A comment may have other bytes than those of UTF-8."""
    (tmp_path / "protos").mkdir()
    put(tmp_path / "protos", event=ORDER, common__money=MONEY)
    (tmp_path / "protos" / "event.proto").write_bytes(b"\xef\xbb\xbf// caf\xe9\n" + ORDER.encode())
    names = [one["name"] for one in job(tmp_path, "protos/event.proto").event_schema["fields"]]
    assert names == ["key", "at", "price"]


def test_mistakes_are_told_with_the_lines_of_both_files(tmp_path: Path) -> None:
    put(tmp_path, event=ORDER)
    said = {
        "": "event.proto:2: imports 'common/money.proto', which is not there: put it beside event.proto",
        "message Money {": "common/money.proto:1: expected",
        " " * PROTO_BYTES_MAX: "money.proto: a .proto file may have 1,000,000 bytes",
    }
    for text, mistake in said.items():
        if text:
            put(tmp_path, common__money=f"{text} ")
        with pytest.raises(UsageError) as caught:
            job(tmp_path)
        (line,) = str(caught.value).splitlines()
        assert line.startswith(f"{tmp_path / 'job.yaml'}:")
        assert "source.schema: " in line
        assert mistake in line
    with pytest.raises(UsageError, match=r"'evnt\.proto' is neither .* did you mean 'event\.proto'"):
        job(tmp_path, "evnt.proto")
