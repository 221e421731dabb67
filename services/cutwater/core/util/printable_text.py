r"""Untrusted text made safe for a terminal, and its width in columns.

Keys, topic names, error texts and process names are data. A control sequence in them must not move the cursor, set
the title or hide a line, so each character that is not printable is escaped as in Python: `\x1b`, `\n`, `\u202e`.
"""

from __future__ import annotations

import unicodedata

_WIDE = frozenset("WF")
_NO_WIDTH = frozenset(("Mn", "Me"))


def printable(text: str) -> str:
    """Return the text as one line: every character that is not printable is escaped, a line's end too."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def printable_lines(text: str) -> str:
    """Return the text with its line ends; every other character that is not printable is escaped."""
    return "\n".join(map(printable, text.split("\n")))


def width(text: str) -> int:
    """Return how many columns of a terminal the text takes: wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(one: str) -> int:
    if unicodedata.category(one) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(one) in _WIDE else 1


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
