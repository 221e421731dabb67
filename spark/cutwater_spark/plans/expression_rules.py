"""Rules for the expressions of a job file: about one event, the same each time, and bounded by the event's size.

No event may end the query. Spark's `TryEval` holds errors, but not a stack or a heap that overflows, so functions
that make much of little are refused, and so are regular expressions that recurse for each repetition of a group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

DEPTH_MAX = 200
SIZE_MAX = 100_000
"""Of what `repeat` and its like may make."""
_EACH_TIME = re.compile(r"Current|Now$|Local(Time|Date)|InputFile|SparkVersion|Uuid|Rand|Uniform|(Try)?AesEncrypt")
"""Classes of expressions whose value depends on when or where they run. Spark calls some of them deterministic."""
_MOMENTS = r"\s*(now|today|tomorrow|yesterday)\b"
_LITERAL = re.compile(rf"\b(date|timestamp(_ltz|_ntz)?)\s*r?(['\"]){_MOMENTS}", re.IGNORECASE)
_MOMENT = re.compile(_MOMENTS, re.IGNORECASE)
_SUBQUERY = re.compile(r"Subquery$|^Exists$|^ListQuery$")
_SHAPES = {
    "Aggregate": "aggregates events: an expression is about one event; aggregates belong to 'measures'",
    "Window": "is a window function: an expression is about one event",
    "Generate": "makes several rows of one event",
}
_SIZES = {"StringRepeat": 1, "StringSpace": 0, "StringLPad": 1, "StringRPad": 1, "ArrayRepeat": 1, "Sequence": 1}
"""Functions that make a size of a number, and which operand that is."""
_PATTERNS = re.compile(r"^(RLike|RegExp.*|StringSplit.*)$")
_GROUP = re.compile(r"(?<!\\)\)([*+]|\{[0-9]+,[0-9]*\})(?!\+)")
"""A repeated group that is not possessive: Java's matcher calls itself for each repetition."""


def wrong_text(sql: str, parsed: Any, is_function: Callable[[str], bool]) -> str:
    """Return what is wrong with an expression before it is analysed; empty if nothing is."""
    if class_of(parsed) == "Alias":
        return "gives its value a name with 'as': write the expression alone"
    if _LITERAL.search(sql):
        return "has a time that is read from the clock, and would be another one when an epoch is repeated"
    for one, depth in nodes(parsed):
        if depth > DEPTH_MAX:
            return f"nests more than {DEPTH_MAX} operations"
        if "Star" in class_of(one):
            return "has '*': name the fields"
        # The analyser would look for it in a catalog, which there is none of.
        if class_of(one) == "UnresolvedFunction":
            name = str(one.nameParts().mkString("."))
            if not is_function(name):
                return f"uses {name}(), a function that Spark does not have"
    return ""


def wrong_plan(plan: Any) -> str:
    """Return why a plan with the expression on top is about more than one event; empty if it is not."""
    found = [class_of(one) for one, _ in nodes(plan)]
    for name, why in _SHAPES.items():
        if name in found:
            return why
    return "" if found == ["Project", "LocalRelation"] else "is no expression about one event"


def wrong_value(value: Any) -> str:
    """Return why an expression's values would not be the same each time, or have no bound; empty if neither."""
    for one, _ in reversed(list(nodes(value))):  # from the inside
        if wrong := _wrong_node(one, class_of(one)):
            return wrong
    return ""


def _wrong_node(one: Any, name: str) -> str:
    if _SUBQUERY.search(name):
        return "has a subquery: an expression is about one event alone"
    if _EACH_TIME.match(name) or not one.deterministic():
        return f"uses {one.prettyName()}(), which may give another value when an epoch is repeated"
    if name == "Cast" and _is_moment(one):
        return "has a time that is read from the clock, and would be another one when an epoch is repeated"
    if name in _SIZES:
        return _wrong_size(one, _SIZES[name])
    if _PATTERNS.match(name):
        return _wrong_pattern(one)
    return ""


def _is_moment(cast: Any) -> bool:
    text = _constant(cast.child())
    return isinstance(text, str) and bool(_MOMENT.match(text))


def _wrong_size(one: Any, operand: int) -> str:
    size = _constant(one.children().apply(operand))
    if isinstance(size, int) and size <= SIZE_MAX and class_of(one) != "Sequence":
        return ""
    return (
        f"uses {one.prettyName()}(), which makes much of a number: only a constant up to {SIZE_MAX:,} is allowed"
    )


def _wrong_pattern(one: Any) -> str:
    pattern = _constant(one.children().apply(1))
    if not isinstance(pattern, str):
        return f"uses {one.prettyName()}() with a pattern that is not constant"
    if found := _GROUP.search(pattern):
        return (
            f"has the pattern '{pattern}', in which a group is repeated by '{found[1]}': a long text would "
            f"overflow the stack. Write it possessive, '){found[1]}+', or repeat a single character or class"
        )
    return ""


def _constant(one: Any) -> Any:
    """Return the value of a literal, a text or a number; None for anything else."""
    while class_of(one) == "Cast" and class_of(one.child()) == "Literal":
        one = one.child()
    if class_of(one) != "Literal" or one.value() is None:
        return None
    value = one.value()
    return value if isinstance(value, int | float) else str(value.toString())


def nodes(root: Any) -> Iterator[tuple[Any, int]]:
    """Yield each node of a tree of Spark with its depth, parents first."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        children, found = node.children().iterator(), []
        while children.hasNext():
            found.append((children.next(), depth + 1))
        waiting += reversed(found)


def class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())
