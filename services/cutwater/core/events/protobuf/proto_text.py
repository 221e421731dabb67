"""The text of a .proto and of all files that it imports, made into the event schema of one of its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.protobuf.fields import ENUM, MESSAGE
from cutwater.core.events.protobuf.message_schema import message_schema
from cutwater.core.events.protobuf.message_types import MessageTypes
from cutwater.core.events.protobuf.proto_parser import ProtoFile, TypeUse, parse_proto
from cutwater.core.events.protobuf.well_known import WELL_KNOWN
from cutwater.core.events.registry_ids import REFERENCED_MAX
from cutwater.core.util.suggestions import closest, value_text

PROTO_BYTES_MAX, CHARACTERS_MAX = 1_000_000, 4_000_000
"""Of one file, and of a file with all that it imports."""
ReadProto = Callable[[str], str | None]
"""Returns the text of an imported file; None if there is none."""


def proto_schema(text: str, message: str, name: str, read: ReadProto) -> dict[str, Any]:
    """Return the event schema of a message of a .proto: equal to that of protoc's descriptor of it.

    `name`: the file's. Raises UsageError with file, line and what was expected, or as `message_schema` does.
    """
    files = _read_all(text, name, read)
    types, declared = MessageTypes(), dict[str, str]()
    for one in files.values():
        for full, is_type in one.names.items():
            if full in declared and (is_type or declared[full] in files):
                other = declared[full] or "another file, as a package,"
                raise UsageError(f"{one.name}: {value_text(full)} is declared in {other} too")
            declared[full] = one.name if is_type else declared.get(full, "")
        types.messages |= one.types.messages
        types.enums |= one.types.enums
        types.aliases |= one.types.aliases
        types.top += one.types.top
    for one in files.values():
        _Names(one, files, declared).look_up_all(types)
    return message_schema(types, message, name)


def imported_files(text: str, name: str, read: ReadProto) -> list[str]:
    """Return the names of all files that a .proto imports, directly or by others, and that `read` has. Raises
    UsageError as `proto_schema`."""
    return [one for one in _read_all(text, name, read) if one != name and read(one) is not None]


def leaves_folder(name: str) -> bool:
    """Return whether the name in an import is no path below the folder of the .proto files."""
    return not name.isprintable() or "\\" in name or not {"", ".", ".."}.isdisjoint(name.split("/"))


def _read_all(text: str, name: str, read: ReadProto) -> dict[str, ProtoFile]:
    """Parse a file and all that it imports, each once."""
    files = {name: parse_proto(text, name)}
    characters, waiting = len(text), [name]
    while waiting:
        importing = files[waiting.pop()]
        for one in importing.imports:
            at = f"{importing.name}:{one.line}"
            if leaves_folder(one.name):
                raise UsageError(
                    f"{at}: an import names a file below the folder of {name}, not {value_text(one.name)}"
                )
            if one.name in files:
                continue
            found = read(one.name)
            imported = WELL_KNOWN.get(one.name) if found is None else found
            if imported is None:
                raise UsageError(f"{at}: imports {value_text(one.name)}, which is not there: put it beside {name}")
            characters += len(imported)
            if len(files) > REFERENCED_MAX or characters > CHARACTERS_MAX:
                raise UsageError(
                    f"{at}: imports {value_text(one.name)}: {name} may import {REFERENCED_MAX} files, and have "
                    f"{CHARACTERS_MAX:,} characters with them"
                )
            files[one.name] = parse_proto(imported, one.name)
            waiting.append(one.name)
    return files


class _Names:
    """The names that one file sees: its own, those of its imports, and of what these import publicly."""

    def __init__(self, file: ProtoFile, files: dict[str, ProtoFile], declared: dict[str, str]) -> None:
        """`declared`: the file of each type of all files."""
        self._file, self._declared = file, declared
        self._seen: dict[str, bool] = {}
        for one in (file, *_visible(file, files)):
            for name, is_type in one.names.items():
                self._seen[name] = is_type or self._seen.get(name, False)

    def look_up_all(self, types: MessageTypes) -> None:
        """Set the types of the file's fields. Raises UsageError for one that is not declared."""
        for use in self._file.uses:
            field = use.field
            written = field.type
            found = self._find(written, use.scope)
            if found is None:
                raise self._error(use, f"is of type {value_text(written)}, {self._why(written)}")
            field.type, field.type_name = (ENUM if found in types.enums else MESSAGE), found
            if field.default is None:
                continue
            if field.type == MESSAGE:
                raise self._error(use, "is a message, and has a default")
            if field.default not in (*types.enums[found].values(), *types.aliases[found]):
                raise self._error(use, f"has the default {value_text(field.default)}, which {found} has not")

    def _find(self, written: str, scope: str) -> str | None:
        """Return a type's full name, by protoc's rule: the innermost scope that has its first word counts."""
        if written.startswith("."):
            return written[1:] if self._seen.get(written[1:]) else None
        first, dot, rest = written.partition(".")
        while True:
            begin = f"{scope}.{first}" if scope else first
            if dot and begin in self._seen:
                whole = f"{begin}.{rest}"
                return whole if self._seen.get(whole) else None
            if self._seen.get(begin):
                return begin
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def _why(self, written: str) -> str:
        elsewhere = {one: file for one, file in self._declared.items() if file and one not in self._seen}
        named = [one for one in elsewhere if f".{one}".endswith(f".{written.removeprefix('.')}")]
        if named:
            return f"which {elsewhere[named[0]]} declares: import that file here"
        short = {one.rpartition(".")[2]: one for one, is_type in self._seen.items() if is_type}
        meant = short.get(closest(written.rpartition(".")[2], short))
        return "which neither the file nor its imports declare" + (f"; did you mean '{meant}'?" if meant else "")

    def _error(self, use: TypeUse, text: str) -> UsageError:
        return UsageError(f"{self._file.name}:{use.line}: the field '{use.field.name}' {text}")


def _visible(file: ProtoFile, files: dict[str, ProtoFile]) -> Iterator[ProtoFile]:
    seen, waiting = {file.name}, [one.name for one in file.imports]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield files[name]
            waiting += [one.name for one in files[name].imports if one.is_public]
