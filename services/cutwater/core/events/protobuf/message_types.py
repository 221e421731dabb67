"""The types of Protobuf files, as a descriptor or the text of a .proto declares them."""

from __future__ import annotations

from dataclasses import dataclass, field

REQUIRED, REPEATED = 2, 3
"""Labels of fields, by their number in a descriptor; that of others is 1."""


@dataclass
class MessageField:
    name: str
    number: int
    type: str
    label: int
    type_name: str
    default: str | None
    oneof: int | None
    """None without one; that of a proto3 `optional` is none."""
    is_optional: bool


@dataclass
class MessageType:
    is_proto3: bool
    is_map: bool
    fields: list[MessageField] = field(default_factory=list)


@dataclass
class MessageTypes:
    messages: dict[str, MessageType] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)
    """By number the name of each value: of several names the first."""
    aliases: dict[str, dict[str, str]] = field(default_factory=dict)
    """The other names of each enum's values, and the first names of those."""
    top: list[str] = field(default_factory=list)
    """The messages that are not inside of another."""
