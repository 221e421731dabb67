"""YAML syntax errors: line, column, and a suggested change if one is known."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import yaml

from cutwater.core.util.suggestions import safe

GLUED = re.compile(r"\s*(?:- +)?[\w-]+:(?![\s/])\S")
"""A name, a colon and no space: YAML reads the whole as a text."""
_PROBLEM_MAX = 200
_QUOTES_MAX = 200
"""Lines that are searched for an unclosed quote."""

_KNOWN = (
    ("expected ',' or", "{context}: it is not closed there, or a comma is missing"),
    ("found undefined alias", "put a value that begins with * in quotes"),
    ("constructor for the tag", "put a value that begins with ! in quotes"),
    ("found another document", "a job file is one document: remove the line that separates them"),
    ("unknown escape character", "in double quotes a backslash begins an escape: use single quotes"),
    ("cannot start any token", "put a value that begins with this character in quotes"),
    ("<block end>, but found '<block mapping start>'", "indent the line as the others of its mapping"),
    ("indentation indicators", "put a value that begins with | or > in quotes"),
)


@dataclass(frozen=True)
class Syntax:
    """A syntax error; line and column count from 1."""

    line: int
    column: int
    problem: str
    cause: str = ""


def syntax(error: yaml.YAMLError, text: str) -> Syntax:
    """Return the error of a parser, without quoting the file: it may hold a password."""
    lines = text.splitlines() or [""]
    if isinstance(error, yaml.reader.ReaderError):
        return _unacceptable(error.position, text)
    told = _marked(error, lines)
    # The end of the stream is after the last line.
    return replace(told, line=min(told.line, len(lines)), problem=safe(told.problem, _PROBLEM_MAX))


def _unacceptable(position: int, text: str) -> Syntax:
    before = text[:position].split("\n")
    problem = f"unacceptable character #x{ord(text[position]):04x}"
    return Syntax(len(before), len(before[-1]) + 1, problem, "remove this character")


def _marked(error: Any, lines: list[str]) -> Syntax:
    mark = error.problem_mark or error.context_mark
    told = Syntax(mark.line + 1, mark.column + 1, str(error.problem or error.context or error))
    for guess in (_tab, _open_quote, _no_colon, _colon_in_value, _depth):
        found = guess(told, error, lines)
        if found is not None:
            return found
    for part, cause in _KNOWN:
        if part in told.problem:
            return replace(told, cause=cause.format(context=_context(error)))
    return told


def _tab(told: Syntax, _error: Any, lines: list[str]) -> Syntax | None:
    line = _line(lines, told.line)
    indent = line[: len(line) - len(line.lstrip())]
    return replace(told, cause="a tab: indent with spaces") if "\t" in indent else None


def _open_quote(told: Syntax, error: Any, lines: list[str]) -> Syntax | None:
    # A quote may run to the end of the file, or to the next quote, which then opens nothing.
    if "quoted scalar" in (error.context or "") and (
        "end of stream" in told.problem or "separator" in told.problem
    ):
        mark = error.context_mark
        return Syntax(mark.line + 1, mark.column + 1, told.problem, "the quote that begins here is not closed")
    if "found '<scalar>'" not in told.problem and "but found '<stream end>'" not in told.problem:
        return None
    for number in range(told.line, max(0, told.line - _QUOTES_MAX), -1):
        for quote in "\"'":
            found = re.search(rf"[:\[{{,-]\s*({quote})[^{quote}]*$", _line(lines, number))
            if found and number < told.line:
                problem = f"{told.problem} on line {told.line}"
                return Syntax(number, found.start(1) + 1, problem, "the quote that begins here is not closed")
    return None


def _no_colon(told: Syntax, error: Any, lines: list[str]) -> Syntax | None:
    if not any(one in told.problem for one in ("could not find expected ':'", "mapping values are not allowed")):
        return None
    mark = error.context_mark
    for number in (mark.line + 1 if mark else told.line, told.line - 1):
        if number > 0 and GLUED.match(_line(lines, number)):
            return replace(told, line=number, column=1, cause="write a space after the colon")
    if mark and "could not find" in told.problem:
        return replace(told, line=mark.line + 1, column=mark.column + 1, cause="write 'name: value'")
    return None


def _colon_in_value(told: Syntax, _error: Any, lines: list[str]) -> Syntax | None:
    before = _line(lines, told.line)[: told.column - 1]
    if "mapping values are not allowed" in told.problem and ": " in before:
        return replace(told, cause="put a value that has a colon and a space in quotes")
    return None


def _depth(told: Syntax, _error: Any, _lines: list[str]) -> Syntax | None:
    if "mapping values are not allowed" in told.problem:
        return replace(told, cause="indent the line as the others of its mapping")
    return None


def _context(error: Any) -> str:
    mark = error.context_mark
    what = str(error.context or "").removeprefix("while parsing a ").removeprefix("while scanning a ")
    return f"the {what} begins on line {mark.line + 1}, column {mark.column + 1}" if mark else what


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""
