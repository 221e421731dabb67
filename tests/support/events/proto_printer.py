"""Files of Google's library as the text of a .proto: with comments, odd spaces, and names in any valid form."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf import descriptor_pb2

_D = descriptor_pb2.FieldDescriptorProto
_SPACES = (
    " ",
    "\n",
    "\t",
    "  ",
    " // message Ghost {\n",
    '/* " } */',
    " /* a **\n * b **/ ",
    "\r\n",
    "\n\n// 'x\n",
)
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_NO_CONTENT = (
    ["reserved", "5000", "to", "5010", ",", "5020", ";"],
    ["reserved", '"old"', ",", "'older'", ";"],
    [
        "option",
        "(",
        "my",
        ".",
        "own",
        ")",
        ".",
        "part",
        "=",
        "{",
        "a",
        ":",
        '"}"',
        "b",
        "{",
        "c",
        ":",
        "1",
        "}",
        "}",
        ";",
    ],
    [";"],
)


def nested(file: descriptor_pb2.FileDescriptorProto, rng: random.Random) -> descriptor_pb2.FileDescriptorProto:
    """The file with some messages, and the enum, inside of others, and fields in the order of a text."""
    made = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    order, moved = made.message_type[-1], {}
    for one in [one for one in made.message_type[:-1] if rng.random() < 0.5]:
        order.nested_type.add().CopyFrom(one)
        made.message_type.remove(one)
        moved[f".shop.{one.name}"] = f".shop.Order.{one.name}"
    if rng.random() < 0.5:
        order.enum_type.add().CopyFrom(made.enum_type[0])
        del made.enum_type[:]
        moved[".shop.Color"] = ".shop.Order.Color"
    for one in _messages(made.message_type):
        for field in one.field:
            before, _, entry = field.type_name.rpartition(".")
            field.type_name = moved.get(field.type_name) or f"{moved.get(before, before)}.{entry}".lstrip()
            field.type_name = field.type_name if field.type_name != "." else ""
        first = [
            field.oneof_index if field.HasField("oneof_index") else -1 - at for at, field in enumerate(one.field)
        ]
        fields = [
            field
            for _, field in sorted(zip(map(first.index, first), one.field, strict=True), key=lambda of: of[0])
        ]
        fields = [_D.FromString(field.SerializeToString()) for field in fields]
        del one.field[:]
        one.field.extend(fields)
    return made


def _messages(inside: Any) -> list[Any]:
    return [each for one in inside for each in (one, *_messages(one.nested_type))]


def proto_text(file: descriptor_pb2.FileDescriptorProto, rng: random.Random) -> str:
    """The text of a file."""
    tokens = ["syntax", "=", f'"{file.syntax}"', ";", "package", *_path(file.package), ";"]
    for one in file.dependency:
        tokens += ["import", f"'{one}'", ";"]
    parts = [_message(one, f".{file.package}", file.syntax, rng) for one in file.message_type]
    parts += [_enum(one) for one in file.enum_type]
    parts.append(["service", "S", "{", "rpc", "R", "(", "Order", ")", "returns", "(", "Order", ")", "{", "}", "}"])
    rng.shuffle(parts)
    return _joined([*tokens, *(token for part in parts for token in part)], rng)


def _joined(tokens: list[str], rng: random.Random) -> str:
    return "".join(f"{token}{rng.choice(_SPACES) if rng.random() < 0.2 else ' '}" for token in tokens)


def _path(name: str) -> list[str]:
    words = name.split(".")
    return [part for word in words for part in (word, ".")][:-1]


def _message(one: Any, scope: str, syntax: str, rng: random.Random) -> list[str]:
    full = f"{scope}.{one.name}"
    maps = {f"{full}.{inner.name}": inner for inner in one.nested_type if inner.options.map_entry}
    parts: list[list[str]] = []
    choices: dict[int, list[str]] = {}
    for field in one.field:
        in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        text = _field(field, full, syntax, maps, in_oneof, rng)
        if not in_oneof:
            parts.append(text)
        elif field.oneof_index in choices:
            choices[field.oneof_index] += text
        else:
            choices[field.oneof_index] = ["oneof", one.oneof_decl[field.oneof_index].name, "{", *text]
            parts.append(choices[field.oneof_index])
    for choice in choices.values():
        choice.append("}")
    others = [_message(inner, full, syntax, rng) for inner in one.nested_type if not inner.options.map_entry]
    others += [_enum(inner) for inner in one.enum_type]
    others += [list(rng.choice(_NO_CONTENT)) for _ in range(rng.randrange(3))]
    for other in others:
        parts.insert(rng.randrange(len(parts) + 1), other)
    return ["message", one.name, "{", *(token for part in parts for token in part), "}"]


def _field(
    one: Any, scope: str, syntax: str, maps: dict[str, Any], in_oneof: bool, rng: random.Random
) -> list[str]:
    end = [
        one.name,
        "=",
        rng.choice([str(one.number), hex(one.number), f"0{one.number:o}"]),
        *_options(one, rng),
        ";",
    ]
    if one.type_name in maps:
        key, value = maps[one.type_name].field
        return ["map", "<", *_type(key, scope, rng), ",", *_type(value, scope, rng), ">", *end]
    label = [_LABELS[one.label]]
    if in_oneof or (syntax == "proto3" and one.label == 1 and not one.proto3_optional):
        label = []
    return [*label, *_type(one, scope, rng), *end]


def _type(one: Any, scope: str, rng: random.Random) -> list[str]:
    if not one.type_name:
        return [_D.Type.Name(one.type).removeprefix("TYPE_").lower()]
    outer, _, short = one.type_name.rpartition(".")
    forms = [[".", *_path(one.type_name[1:])], _path(one.type_name[1:])]
    if f"{scope}.".startswith(f"{outer}."):
        forms += [[short]] * 2
    return rng.choice(forms)


def _options(one: Any, rng: random.Random) -> list[str]:
    options = [
        ["deprecated", "=", "true"],
        ["(", "own", ")", ".", "x", "=", "{", "a", ":", '"]"', "}"],
        ["json_name", "=", '"x"'],
    ]
    chosen = rng.sample(options, rng.choice([0, 0, 0, 1, 2]))
    if one.HasField("default_value"):
        chosen.insert(rng.randrange(len(chosen) + 1), ["default", "=", *_default(one, rng)])
    inside = [token for option in chosen for token in (*option, ",")][:-1]
    return ["[", *inside, "]"] if chosen else []


def _default(one: Any, rng: random.Random) -> list[str]:
    text = one.default_value
    if one.type == _D.TYPE_BYTES:
        return [f'"{text}"']
    if one.type != _D.TYPE_STRING:
        return ["-", text[1:]] if text.startswith("-") else [text]
    forms = (lambda byte: f"\\{byte:03o}", lambda byte: f"\\x{byte:02x}")
    cut = rng.randrange(len(text) + 1)
    parts = ["".join(rng.choice(forms)(byte) for byte in part.encode()) for part in (text[:cut], text[cut:])]
    return [f'"{parts[0]}"', f"'{parts[1]}'"]


def _enum(one: Any) -> list[str]:
    tokens = ["enum", one.name, "{", "reserved", "-", "100", "to", "-", "90", ";"]
    if one.options.allow_alias:
        tokens += ["option", "allow_alias", "=", "true", ";"]
    for value in one.value:
        number = ["-", str(-value.number)] if value.number < 0 else [str(value.number)]
        tokens += [value.name, "=", *number, "[", "deprecated", "=", "true", "]", ";"]
    return [*tokens, "}"]
