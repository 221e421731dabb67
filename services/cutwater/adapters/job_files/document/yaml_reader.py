"""YAML files as mappings with line numbers. Every failure becomes a UsageError that names the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cutwater.adapters.job_files.document.yaml_errors import Syntax, syntax
from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import safe, value_text

MAX_BYTES = 1_000_000

Place = tuple[str, ...]
"""The names from the top of the file down to a field."""
_Entry = tuple[yaml.ScalarNode, yaml.Node]

# PyYAML's constructors let these through, from values such as `2013-99-99`, `!!bool x` or 5,000 digits.
_CONSTRUCTOR_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, order=True)
class Mark:
    """A position in the file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class YamlFlaw:
    """A mistake in a file that can be read nevertheless."""

    mark: Mark
    place: Place
    text: str


@dataclass
class Document:
    values: dict[Any, Any]
    flaws: list[YamlFlaw]
    """Repeated keys, whose last value counts, and values that are no valid dates or numbers."""
    _root: yaml.MappingNode
    _spelt: dict[Place, str] = field(default_factory=dict)
    _entries: dict[int, dict[str, _Entry]] = field(default_factory=dict)
    """Entries by the `id` of their mapping, for the mappings that were searched."""

    def mark(self, place: Place) -> Mark:
        """Return the position of a field; for a missing one that of the mapping around it."""
        node: yaml.Node = self._root
        mark = _mark(node)
        for depth, name in enumerate(place, 1):
            if id(node) not in self._entries:
                self._entries[id(node)] = _entries(node)
            entry = self._entries[id(node)].get(self._spelt.get(place[:depth], name))
            if entry is None:
                break
            mark, node = _mark(entry[0]), entry[1]
        return mark

    def respell(self, place: Place, written: str) -> None:
        """Remember that the last name of the field at `place` is spelt `written` in the file."""
        self._spelt[place] = written


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads an invalid scalar as text, and keeps it in `unread`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.unread: list[yaml.ScalarNode] = []

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _CONSTRUCTOR_ERRORS:
            if not isinstance(node, yaml.ScalarNode):
                raise
            self.recursive_objects.pop(node, None)
            self.unread.append(node)
            return node.value


_JOB_FILE = "a job file is a YAML mapping; see deploy/jobs/flights.yaml for an example"


def read_document(path: Path, expected: str = _JOB_FILE) -> Document:
    """Return the mapping of a YAML file; raise UsageError naming the file if there is none.

    `expected`: what such a file holds.
    """
    text = _text(path)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        # Before the construction, which adds merged keys to a mapping.
        flaws, places = _repetitions(root) if root else ([], {})
        values = loader.construct_document(root) if root else None
    except yaml.YAMLError as error:
        raise _refusal(path, syntax(error, text)) from None
    except _CONSTRUCTOR_ERRORS as error:
        raise UsageError(f"{path}: not readable YAML: {safe(repr(error), 300)}") from None
    if not isinstance(values, dict) or not isinstance(root, yaml.MappingNode):
        raise UsageError(f"{path}: {expected}")
    flaws += [_unread(node, places.get(id(node), ())) for node in loader.unread]
    return Document(values, flaws, root)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: larger than {MAX_BYTES:,} bytes: this is no hand-written job file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before.rpartition(b"\n")[2].decode("utf-8")) + 1
        told = f"byte 0x{data[error.start]:02x} is not UTF-8"
        wrong = Syntax(before.count(b"\n") + 1, column, told, "save the file as UTF-8")
        raise _refusal(path, wrong) from None


def _refusal(path: Path, wrong: Syntax) -> UsageError:
    advice = f"; {wrong.cause}" if wrong.cause else ""
    return UsageError(f"{path}:{wrong.line}: not YAML: {wrong.problem} (column {wrong.column}){advice}")


def _repetitions(root: yaml.Node) -> tuple[list[YamlFlaw], dict[int, Place]]:
    """Return every repeated key, and the place of each node by its `id`.

    YAML forbids repeated keys, but PyYAML would silently keep the last one. A node with aliases is visited once.
    """
    flaws: list[YamlFlaw] = []
    places: dict[int, Place] = {}
    waiting: list[tuple[Place, yaml.Node]] = [((), root)]
    while waiting:
        place, node = waiting.pop()
        if id(node) in places:
            continue
        places[id(node)] = place
        if isinstance(node, yaml.MappingNode):
            flaws += _repeated_keys(place, node)
            for key, value in node.value:
                inner = (*place, key.value if isinstance(key, yaml.ScalarNode) else "?")
                places.setdefault(id(key), inner)
                waiting.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            waiting += [((*place, str(number)), one) for number, one in enumerate(node.value)]
    return flaws, places


def _repeated_keys(place: Place, node: yaml.MappingNode) -> list[YamlFlaw]:
    first: dict[str, int] = {}
    flaws = []
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        mark = _mark(key)
        if key.value in first:
            text = f"the key '{safe(key.value)}' is repeated: line {first[key.value]} has it already; keep one"
            flaws.append(YamlFlaw(mark, (*place, key.value), text))
        first.setdefault(key.value, mark.line)
    return flaws


def _unread(node: yaml.ScalarNode, place: Place) -> YamlFlaw:
    kind = node.tag.rpartition(":")[2]
    text = f"YAML cannot read it as {kind} (given: {value_text(node.value)}); if it is a text, put it in quotes"
    return YamlFlaw(_mark(node), place, text)


def _entries(node: yaml.Node) -> dict[str, _Entry]:
    """Return keys and values by name; of a repeated name the last entry, which counts."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    reader = _Loader("")
    return {_name(reader, key): (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _name(reader: _Loader, key: yaml.ScalarNode) -> str:
    # A key such as `on` or `0x10` is not the text in the file.
    return str(key.value) if key.tag.endswith(":str") else word(reader.construct_object(key))


def word(key: Any) -> str:
    try:
        return str(key)
    except ValueError:  # Python does not format an integer of more than 4,300 digits
        return value_text(key)


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)
