"""Errors of Spark as short texts, without codes, positions and advice of its own."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError

TEXT_CHARS_MAX = 400
_ADVICE = re.compile(r" *(Did you mean .*|SQLSTATE: .*|== SQL .*|; line [0-9]+ pos [0-9]+.*)", re.DOTALL)
_CODE = re.compile(r"^.*?\[[A-Z_.0-9]+\] *", re.DOTALL)


def text_of(error: Any) -> str:
    """Return the message of a Java exception's first cause."""
    while (cause := error.getCause()) is not None:
        error = cause
    text = _CODE.sub("", str(error.getMessage() or error.toString()), count=1)
    return " ".join(_ADVICE.sub("", text, count=1).split())[:TEXT_CHARS_MAX]


def condition_of(error: Any) -> str | None:
    """Return the name that Spark gives an error of the user; None for an error of Java."""
    try:
        return str(error.getCondition())
    except Py4JError:
        return None
