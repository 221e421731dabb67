"""The tokens of a .proto file, each with its line, and what is expected of the next one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import value_text

_TOKEN = re.compile(
    r"(?P<space>\s++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)"
    r"|(?P<word>[A-Za-z_]\w*+)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]++|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)(?!\w))"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+')"
    r"|(?P<mark>(?!/\*)[^\s\w\"'\\\x00-\x1f\x7f])",
    re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9a-fA-F]{1,2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<other>.))"
)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INTEGER = re.compile(r"0[xX](?P<hex>[0-9a-fA-F]+)|0(?P<octal>[0-7]*)|(?P<decimal>[1-9][0-9]*)")
INTEGER_DIGITS_MAX = 30
"""More than any type has."""


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class ProtoTokens:
    """Reads the tokens of one file in their order, one ahead."""

    def __init__(self, text: str, origin: str) -> None:
        """`text`: bytes that are not UTF-8 are surrogates, which only texts and comments may hold."""
        self._origin = origin
        self._tokens = self._all(text)
        self._next = next(self._tokens)

    @property
    def line(self) -> int:
        """The line of the next token."""
        return self._next.line

    @property
    def is_end(self) -> bool:
        return self._next.kind == "end"

    def at(self, text: str) -> bool:
        """Return whether the next token is this word or mark."""
        return self._next.text == text and self._next.kind in ("word", "mark")

    def take(self, text: str) -> bool:
        """Pass the next token if it is this word or mark, and return whether it is."""
        found = self.at(text)
        if found:
            self._pass()
        return found

    def expect(self, text: str, where: str) -> None:
        if not self.take(text):
            raise self.unexpected(f"'{text}' {where}".strip())

    def word(self, what: str) -> str:
        return self._expected("word", what)

    def number(self, what: str) -> str:
        return self._expected("number", what)

    def path(self, what: str) -> str:
        """Return words with dots between them."""
        words = [self.word(what)]
        while self.take("."):
            words.append(self.word(f"{what} behind '.'"))
        return ".".join(words)

    def integer(self, what: str, least: int, most: int) -> int:
        """Return a number, maybe with a minus."""
        line, sign = self.line, -1 if self.take("-") else 1
        text = self.number(what)
        value = integer_value(text)
        if value is None:
            raise self.error(f"expected {what}, which is an integer, found {value_text(text)}", line)
        value *= sign
        if not least <= value <= most:
            raise self.error(f"{what} must be from {least} to {most}, not {value}", line)
        return value

    def text(self, what: str) -> bytes:
        """Return a text in quotes; adjacent ones are one."""
        if self._next.kind != "text":
            raise self.unexpected(what)
        made = b""
        while self._next.kind == "text":
            made += self._unescaped(self._next)
            self._pass()
        return made

    def skip_option(self) -> None:
        """Pass the name of an option and its value."""
        while True:
            if self.take("("):
                self.take(".")
                self.path("the option's name")
                self.expect(")", "behind the option's name")
            else:
                self.word("the option's name")
            if not self.take("."):
                break
        self.expect("=", "behind the option's name")
        if self.at("{"):
            self.skip_braces()
        elif self._next.kind == "text":
            self.text("the option's value")
        else:
            self.take("-")
            if self._next.kind not in ("word", "number"):
                raise self.unexpected("the option's value")
            self._pass()

    def skip_ranges(self) -> None:
        """Pass numbers and names, as those that are reserved, and their end."""
        while not self.take(";"):
            if self.take("["):
                self.skip_option()
                while self.take(","):
                    self.skip_option()
                self.expect("]", "behind the options")
            elif self._next.kind in ("number", "text") or any(map(self.at, ("to", "max", "-", ","))):
                self._pass()
            else:
                raise self.unexpected("';'")

    def skip_braces(self) -> None:
        """Pass all tokens from an opening brace to its closing one."""
        self.expect("{", "")
        depth = 1
        while depth:
            depth += self.at("{") - self.at("}")
            if self.is_end:
                raise self.unexpected("'}'")
            self._pass()

    def unexpected(self, wanted: str) -> UsageError:
        found = "the end of the file" if self.is_end else value_text(self._next.text)
        return self.error(f"expected {wanted}, found {found}")

    def error(self, text: str, line: int | None = None) -> UsageError:
        """Return an error at a line; None: that of the next token."""
        return UsageError(f"{self._origin}:{line or self.line}: {text}")

    def _expected(self, kind: str, what: str) -> str:
        if self._next.kind != kind:
            raise self.unexpected(what)
        text = self._next.text
        self._pass()
        return text

    def _pass(self) -> None:
        self._next = next(self._tokens, self._next)

    def _all(self, text: str) -> Iterator[_Token]:
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.error(_no_token(text[at : at + 2]), line)
            if found.lastgroup != "space":
                yield _Token(str(found.lastgroup), found[0], line)
            line += text.count("\n", at, found.end())
            at = found.end()
        yield _Token("end", "", line)

    def _unescaped(self, token: _Token) -> bytes:
        at, inner, parts = 0, token.text[1:-1], []
        for found in _ESCAPE.finditer(inner):
            parts.append(_encoded(inner[at : found.start()]))
            parts.append(self._escape(found, token.line))
            at = found.end()
        parts.append(_encoded(inner[at:]))
        return b"".join(parts)

    def _escape(self, found: re.Match[str], line: int) -> bytes:
        kind, text = found.lastgroup, found[str(found.lastgroup)]
        if kind == "plain":
            return _PLAIN.get(text, text).encode()
        number = int(text, 8 if kind == "octal" else 16) if kind != "other" else -1
        if kind in ("octal", "hex") and number < 256:
            return bytes([number])
        if kind in ("short", "long") and number < 0x110000 and not 0xD800 <= number < 0xE000:
            return chr(number).encode()
        raise self.error(f"the escape {value_text(found[0])} in a text is not known", line)


def integer_value(text: str) -> int | None:
    """Return the value of a number in decimal, octal or hexadecimal; None for another."""
    found = _INTEGER.fullmatch(text)
    if found is None or len(text) > INTEGER_DIGITS_MAX:
        return None
    base = {"hex": 16, "octal": 8, "decimal": 10}[str(found.lastgroup)]
    return int(found[str(found.lastgroup)] or "0", base)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _no_token(text: str) -> str:
    if text == "/*":
        return "expected '*/' behind the comment that begins here, found the end of the file"
    if text[0] in "\"'":
        return f"expected {text[0]} at the end of the text on its line"
    if text[0] in ".0123456789":
        return "expected a number"
    return f"expected a name, a number, a text or a mark, found {value_text(text[0])}"
