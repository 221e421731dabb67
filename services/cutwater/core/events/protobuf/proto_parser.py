"""One .proto file, proto2 or proto3, parsed into the types that it declares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cutwater.core.events.protobuf.fields import ENUM, KINDS, MAP, MESSAGE, TIMESTAMP, WRAPPER
from cutwater.core.events.protobuf.message_types import REPEATED, REQUIRED, MessageField, MessageType, MessageTypes
from cutwater.core.events.protobuf.proto_defaults import INTEGERS, default_of
from cutwater.core.events.protobuf.proto_tokens import ProtoTokens
from cutwater.core.util.suggestions import value_text

NESTED_MAX = 32
"""Messages inside of messages, as protoc allows."""
_SCALARS = KINDS.keys() - {ENUM, MESSAGE, TIMESTAMP, WRAPPER, MAP}
_KEYS = frozenset({*INTEGERS, "bool", "string"})
_LABELS = {"optional": 1, "required": REQUIRED, "repeated": REPEATED}
_NUMBER_MAX, _OWN_NUMBERS = (1 << 29) - 1, range(19_000, 20_000)
_NOT_READ = "which is not read: remove it from a copy of the .proto"


class ProtoImport(NamedTuple):
    name: str
    line: int
    is_public: bool


class TypeUse(NamedTuple):
    """A field of a message or an enum, whose name is not yet looked up."""

    field: MessageField
    scope: str
    """The message with the field."""
    line: int


@dataclass
class ProtoFile:
    name: str
    is_proto3: bool = False
    package: str = ""
    imports: list[ProtoImport] = field(default_factory=list)
    types: MessageTypes = field(default_factory=MessageTypes)
    names: dict[str, bool] = field(default_factory=dict)
    """What the file declares, in full: is it a message or enum? Others are packages and services."""
    uses: list[TypeUse] = field(default_factory=list)


def parse_proto(text: str, name: str) -> ProtoFile:
    """Parse the text of a .proto file. Raises UsageError with file, line and what was expected."""
    parser = _Parser(text, name)
    parser.parse()
    return parser.file


@dataclass
class _Body:
    """A message while its fields are read."""

    name: str
    level: int
    message: MessageType
    taken: set[str | int] = field(default_factory=set)
    oneofs: int = 0


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.file = ProtoFile(name)
        self._tokens = ProtoTokens(text, name)

    def parse(self) -> None:
        self._syntax()
        while not self._tokens.is_end:
            self._top()

    def _syntax(self) -> None:
        tokens = self._tokens
        line = tokens.line
        if tokens.take("edition"):
            raise tokens.error(
                "editions are not read: use a copy of the .proto with syntax proto2 or proto3", line
            )
        if not tokens.take("syntax"):
            return
        tokens.expect("=", "behind 'syntax'")
        given = tokens.text('"proto2" or "proto3"').decode(errors="replace")
        if given not in ("proto2", "proto3"):
            raise tokens.error(f"syntax {value_text(given)}: proto2 and proto3 are read", line)
        self.file.is_proto3 = given == "proto3"
        tokens.expect(";", "behind the syntax")

    def _top(self) -> None:
        tokens = self._tokens
        line = tokens.line
        if tokens.take(";"):
            return
        if tokens.take("message"):
            self.file.types.top.append(self._message(self.file.package, 1))
        elif tokens.take("enum"):
            self._enum(self.file.package)
        elif tokens.take("import"):
            self._import(line)
        elif tokens.take("package"):
            self._package(line)
        elif tokens.take("option"):
            self._own_option()
        elif tokens.take("service"):
            self._declare(self._full(self.file.package, tokens.word("the service's name")), line, is_type=False)
            self._tokens.skip_braces()
        elif tokens.take("extend"):
            self._extend()
        else:
            raise tokens.unexpected("message, enum, import, package, option, service or extend")

    def _import(self, line: int) -> None:
        tokens = self._tokens
        is_public = tokens.take("public")
        if not is_public:
            tokens.take("weak")
        name = tokens.text("a file's name in quotes").decode(errors="replace")
        tokens.expect(";", "behind the import")
        self.file.imports.append(ProtoImport(name, line, is_public))

    def _package(self, line: int) -> None:
        tokens = self._tokens
        if self.file.package or self.file.names:
            raise tokens.error("expected one package, before all messages and enums", line)
        self.file.package = tokens.path("the package's name")
        tokens.expect(";", "behind the package")
        words = self.file.package.split(".")
        self.file.names |= {".".join(words[:count]): False for count in range(1, len(words) + 1)}

    def _extend(self) -> None:
        self._tokens.take(".")
        self._tokens.path("the name of a message")
        self._tokens.skip_braces()

    def _declare(self, name: str, line: int, is_type: bool = True) -> None:
        if name in self.file.names:
            raise self._tokens.error(f"{value_text(name)} is declared twice", line)
        self.file.names[name] = is_type

    def _message(self, scope: str, level: int) -> str:
        tokens = self._tokens
        line, name = tokens.line, self._full(scope, tokens.word("the message's name"))
        if level > NESTED_MAX:
            raise tokens.error(f"messages may be {NESTED_MAX} levels deep", line)
        self._declare(name, line)
        made = self.file.types.messages[name] = MessageType(self.file.is_proto3, is_map=False)
        body = _Body(name, level, made)
        tokens.expect("{", "behind the message's name")
        while not tokens.take("}"):
            self._member(body)
        return name

    def _member(self, body: _Body) -> None:
        tokens = self._tokens
        if tokens.take(";"):
            return
        if tokens.take("message"):
            self._message(body.name, body.level + 1)
        elif tokens.take("enum"):
            self._enum(body.name)
        elif tokens.take("oneof"):
            self._oneof(body)
        elif tokens.take("extend"):
            self._extend()
        elif tokens.take("option"):
            self._own_option()
        elif tokens.take("reserved") or tokens.take("extensions"):
            tokens.skip_ranges()
        else:
            self._field(body)

    def _oneof(self, body: _Body) -> None:
        tokens = self._tokens
        tokens.word("the name of the oneof")
        tokens.expect("{", "behind the name of the oneof")
        count = len(body.message.fields)
        while not tokens.at("}"):
            if tokens.take("option"):
                self._own_option()
            else:
                self._field(body, body.oneofs)
        if len(body.message.fields) == count:
            raise tokens.unexpected("a field of the oneof")
        tokens.take("}")
        body.oneofs += 1

    def _field(self, body: _Body, oneof: int | None = None) -> None:
        tokens = self._tokens
        line = tokens.line
        label = next((one for one in _LABELS if tokens.take(one)), "")
        made = MessageField("", 0, "", _LABELS.get(label, 1), "", None, oneof, False)
        is_map = tokens.take("map")
        if is_map and tokens.take("<"):
            if label or oneof is not None:
                raise tokens.error("a map has no label, and is in no oneof", line)
            self._map(made, body, line)
            return
        self._require_label(label, oneof, line)
        made.is_optional = label == "optional" and self.file.is_proto3
        made.type = self._type("map" if is_map else "")
        self._name_and_number(made, body, line)
        if tokens.at("{"):
            raise tokens.error(f"a group, {_NOT_READ}", line)
        self._options(made, line)
        if made.type not in _SCALARS:
            self.file.uses.append(TypeUse(made, body.name, line))

    def _require_label(self, label: str, oneof: int | None, line: int) -> None:
        tokens = self._tokens
        if oneof is not None:
            if label:
                raise tokens.error(f"a field of a oneof has no label, found '{label}'", line)
        elif self.file.is_proto3 and label == "required":
            raise tokens.error("proto3 has no 'required' fields", line)
        elif not self.file.is_proto3 and not label:
            raise tokens.unexpected("optional, required or repeated before a field of proto2")

    def _type(self, begun: str) -> str:
        """Return a field's type, as it is written. `begun`: its first word, if that is passed."""
        tokens = self._tokens
        if tokens.at("group"):
            raise tokens.error(f"a group, {_NOT_READ}")
        if begun:
            return f"{begun}.{tokens.path('a type')}" if tokens.take(".") else begun
        if tokens.take("."):
            return f".{tokens.path('a type')}"
        return tokens.path("a field's type")

    def _name_and_number(self, made: MessageField, body: _Body, line: int) -> None:
        tokens = self._tokens
        made.name = tokens.word("the field's name")
        tokens.expect("=", f"and a number behind the field '{made.name}'")
        at = tokens.line
        made.number = tokens.integer("the field's number", 1, _NUMBER_MAX)
        if made.number in _OWN_NUMBERS:
            raise tokens.error(f"the numbers {_OWN_NUMBERS[0]} to {_OWN_NUMBERS[-1]} are Protobuf's own", at)
        for one in (made.name, made.number):
            if one in body.taken:
                raise tokens.error(f"two fields of message {body.name} have {value_text(one)}", line)
        body.taken |= {made.name, made.number}
        body.message.fields.append(made)

    def _map(self, made: MessageField, body: _Body, line: int) -> None:
        tokens = self._tokens
        key = MessageField("key", 1, tokens.word("the type of the map's keys"), 1, "", None, None, False)
        if key.type not in _KEYS:
            raise tokens.error(f"keys of a map are integers, bool or string, not {value_text(key.type)}", line)
        tokens.expect(",", "behind the type of the map's keys")
        value = MessageField("value", 2, self._type(""), 1, "", None, None, False)
        tokens.expect(">", "behind the type of the map's values")
        self._name_and_number(made, body, line)
        entry = self._full(body.name, f"{_camel(made.name)}Entry")
        self._declare(entry, line, is_type=False)
        self.file.types.messages[entry] = MessageType(self.file.is_proto3, True, [key, value])
        made.type, made.label, made.type_name = MESSAGE, REPEATED, entry
        if value.type not in _SCALARS:
            self.file.uses.append(TypeUse(value, body.name, line))
        self._options(made, line)

    def _options(self, made: MessageField | None, line: int) -> None:
        """Read the options of a field, or an enum's value, and its end."""
        tokens = self._tokens
        if tokens.take("["):
            self._option(made, line)
            while tokens.take(","):
                self._option(made, line)
            tokens.expect("]", "behind the options")
        tokens.expect(";", f"behind the field '{made.name}'" if made else "behind the value")

    def _option(self, made: MessageField | None, line: int) -> None:
        tokens = self._tokens
        if made and tokens.take("default"):
            tokens.expect("=", "behind 'default'")
            if self.file.is_proto3 or made.label == REPEATED or made.default is not None:
                raise tokens.error("only a field of proto2 that is not repeated has a default, and one", line)
            made.default = default_of(made.type, tokens)
            return
        tokens.skip_option()

    def _own_option(self) -> None:
        """Pass an option of the file, a message, a oneof or an enum."""
        self._tokens.skip_option()
        self._tokens.expect(";", "behind the option")

    def _enum(self, scope: str) -> None:
        tokens = self._tokens
        line, name = tokens.line, self._full(scope, tokens.word("the enum's name"))
        self._declare(name, line)
        symbols = self.file.types.enums[name] = {}
        aliases = self.file.types.aliases[name] = {}
        taken: set[str] = set()
        twice, has_aliases = 0, False
        tokens.expect("{", "behind the enum's name")
        while not tokens.take("}"):
            at = tokens.line
            if tokens.take(";"):
                continue
            if tokens.take("option"):
                has_aliases |= tokens.at("allow_alias")
                self._own_option()
            elif tokens.take("reserved"):
                tokens.skip_ranges()
            else:
                self._value(name, taken)
                twice = twice or at * bool(aliases)
        if not symbols:
            raise tokens.error(f"enum {value_text(name)} has no values", line)
        if twice and not has_aliases:
            raise tokens.error(
                "two values have one number, and the enum has no 'option allow_alias = true'", twice
            )

    def _value(self, enum: str, taken: set[str]) -> None:
        tokens, types = self._tokens, self.file.types
        line, symbol = tokens.line, tokens.word("a value's name")
        tokens.expect("=", f"and a number behind the value '{symbol}'")
        number = tokens.integer("the value's number", *INTEGERS["int32"])
        self._options(None, line)
        if symbol in taken:
            raise tokens.error(f"two values of enum {enum} have {value_text(symbol)}", line)
        if self.file.is_proto3 and not taken and number:
            raise tokens.error("the first value of an enum of proto3 has the number 0", line)
        taken.add(symbol)
        first = types.enums[enum].setdefault(number, symbol)
        if first != symbol:
            types.aliases[enum][symbol] = first

    @staticmethod
    def _full(scope: str, name: str) -> str:
        return f"{scope}.{name}" if scope else name


def _camel(name: str) -> str:
    return "".join(one[:1].upper() + one[1:] for one in name.split("_"))
