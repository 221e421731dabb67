"""Values as `--json` prints them. A kind of value that is not listed here is a bug in the verb (TypeError)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from cutwater.core.events.json_events import float_plain
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token

_TEXTS = (Generation, Token, Path)


def json_text(value: Any, indent: int | None = None, ascii_only: bool = True) -> str:
    """Return a value as JSON. Raises TypeError for a kind of value that is not listed here."""
    text = json.dumps(to_plain(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)
    return text if ascii_only else "\n".join(map(_printable, text.split("\n")))


def to_plain(value: Any) -> Any:
    """Return a value as dicts, lists, texts, numbers, booleans and None. Raises TypeError as `json_text`.

    A cut becomes an object from `topic/partition` to offset. Generation, token and path become texts, bytes
    hexadecimal. NaN and the infinities become "NaN", "Infinity" and "-Infinity", since JSON has no such numbers.
    """
    if isinstance(value, Enum):
        return to_plain(value.value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float_plain(value)
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return _composed(value)


def _composed(value: Any) -> Any:
    if isinstance(value, Cut):
        return {_name(place): offset for place, offset in value}
    if isinstance(value, Mapping):
        return {_name(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON: add it to {__name__}")


def _name(name: Any) -> str:
    if isinstance(name, TopicPartition):
        return f"{name.topic}/{name.partition}"
    text = to_plain(name)
    if isinstance(text, str):
        return text
    if type(text) is int:
        return str(text)
    raise TypeError(f"{type(name).__name__} cannot be a field name in JSON")


def _printable(line: str) -> str:
    """Return the line with control characters and other unprintable characters as JSON escapes."""
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)
