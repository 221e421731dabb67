"""What an expression of Prometheus names: its metrics, and the labels by which it selects and groups."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*')|(?P<span>\[[^\]]*\])|(?P<name>[A-Za-z_]\w*)|(?P<mark>[^\s\w])|\d[\w.]*"""
)
_GROUPS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "bool", "offset"}


class Names(NamedTuple):
    metrics: set[str]
    selects: set[str]
    """Labels in braces."""
    groups: set[str]
    """Labels of `by` and its like."""


def names(expression: str) -> Names:
    """Return all identifiers but functions and keywords, each by what it is."""
    found = Names(set(), set(), set())
    tokens = [one for one in _TOKEN.finditer(expression) if not (one["text"] or one["span"])]
    group, depth, braces = False, 0, False
    for token, after in zip(tokens, [*(one[0] for one in tokens[1:]), ""], strict=True):
        if token["mark"]:
            braces = {"{": True, "}": False}.get(token[0], braces)
            depth += {"(": 1, ")": -1}.get(token[0], 0) if group else 0
            group = group and not (token[0] == ")" and depth == 0)
        elif not token["name"]:
            continue
        elif braces:
            found.selects.add(token[0])
        elif group:
            found.groups.add(token[0])
        elif token[0] in _GROUPS:
            group, depth = True, 0
        elif token[0] not in _WORDS and after != "(" and after not in _GROUPS:
            found.metrics.add(token[0])
    return found
