"""What verbs print with --json, held against the schema of docs/json/ that is made for each."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from docs._generate.json_page import schema
from docs._generate.shapes import SHAPES


def verb_of(words: list[str]) -> str:
    """The verb that a command line begins with."""
    for count in (2, 1):
        if (verb := " ".join(words[:count])) in SHAPES:
            return verb
    raise AssertionError(f"no shape is declared for 'cutwater {' '.join(words)}' (docs/_generate/shapes)")


def require_shape(words: list[str], told: Any) -> Any:
    """The value, if it is one that the verb may print."""
    problems = [
        f"{'/'.join(map(str, one.instance_path))}: {one.message}"
        for one in jsonschema_rs.validator_for(schema(verb_of(words))).iter_errors(told)
    ]
    assert not problems, f"cutwater {' '.join(words)}: {problems}"
    return told


def parsed(words: list[str], text: str) -> Any:
    """The one value that was printed. Numbers that JSON does not have are refused."""
    return require_shape(words, json.loads(text, parse_constant=_refused))


def parsed_lines(words: list[str], text: str) -> list[Any]:
    """The values of `tail` and of `verify --every`: one a line."""
    return [parsed(words, line) for line in text.splitlines()]


def _refused(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")
