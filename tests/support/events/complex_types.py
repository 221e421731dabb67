"""Random schemas of records, arrays and maps, and events in JSON for them as strangers write them."""

from __future__ import annotations

import random
from typing import Any

from support.events import strangers, wide

LEAVES = [one for one in strangers.KINDS if one != "key"]
LEVELS_MAX = 3
NAMES = ["a", "b", "id", "when", "order"]
KEYS = ["a", "b", "it's", "", "\\u00e4", "\\ue000", "\\ud83d\\ude00", "k" * 70]
"""The order of the last ones differs between UTF-16 and code points."""

_POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}],
}
MEETING: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "at", "type": wide.TYPES["seen"]},
        {"name": "p", "type": _POINT, "default": {"x": 1, "y": 2}},
        {"name": "l", "type": {"type": "array", "items": "Point"}, "default": []},
        {"name": "m", "type": {"type": "map", "values": ["null", "Point"]}, "default": {}},
        {"name": "n", "type": "int", "default": 0},
    ],
}
FIRST_FLAWS = {
    '"n":"x","m":5,"l":5,"p":5': "p",
    '"p":{"y":"a","x":"b"}': "p.x",
    '"p":{"y":"a","x":null}': "p.x",
    '"n":"x","l":[{"x":1,"y":2},{"y":0},{"x":"a"},5]': "l[1].x",
    '"m":{"b":{"y":1},"a":{"x":1}},"n":"x"': "m['a'].y",
    '"m":{"\\ue000":5,"\\ud83d\\ude00":5}': "m['\U0001f600']",
    '"m":{"\\ue000":5,"\\u00e4":5,"z":null}': "m['\u00e4']",
    '"m":{"a":5,"a":{"x":1,"y":1},"b":5}': "m['b']",
    '"m":{"' + "k" * 61 + '":5}': "m['" + "k" * 60 + "']",
    '"m":{"it\'s":{"x":5}}': "m['it's'].y",
}
"""What an event has besides key and time, and the path of its first flaw: in the schema's order, depth first."""


class Nested:
    """A schema with its events. Types that have a name get one of their own each time."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._made = 0
        self._tokens: dict[int, list[str]] = {}
        place = [{"name": "key", "type": "string"}, {"name": "at", "type": wide.TYPES["seen"]}]
        fields = [self._field(name, 1) for name in ("record", "array", "map", "any")]
        self.schema: dict[str, Any] = {"type": "record", "name": "Event", "fields": [*place, *fields]}

    def records(self, count: int) -> list[bytes]:
        """Events, of which some have tokens of other kinds, missing and repeated names, or other bytes."""
        return [self._record() for _ in range(count)]

    def _record(self) -> bytes:
        wrong = self._rng.choice([0.0, 0.0, 0.03])
        pairs = [("key", '"a"'), ("at", "1700000000000")]
        pairs += [(one["name"], self._token(one["type"], wrong)) for one in self.schema["fields"][2:]]
        return (
            strangers.spoilt(self._object(pairs, wrong), self._rng) if wrong else self._object(pairs, 0).encode()
        )

    def _field(self, name: str, level: int) -> dict[str, Any]:
        type_ = self._type(name if name in ("record", "array", "map") else "", level)
        if self._rng.random() < 0.4:
            return {"name": name, "type": ["null", type_], "default": None}
        empty = {"array": [], "map": {}}.get(type_.get("type", ""))
        if empty is not None and self._rng.random() < 0.5:
            return {"name": name, "type": type_, "default": empty}
        return {"name": name, "type": type_}

    def _type(self, kind: str, level: int) -> dict[str, Any]:
        self._made += 1
        number = self._made
        kind = kind or self._rng.choice(["leaf", "leaf", "record", "array", "map"])
        if kind == "record" and level <= LEVELS_MAX:
            names = self._rng.sample(NAMES, self._rng.randrange(1, 4))
            fields = [self._field(one, level + 1) for one in names]
            return {"type": "record", "name": f"R{number}", "fields": fields}
        if kind in ("array", "map") and level <= LEVELS_MAX:
            inner: Any = self._type("", level + 1)
            inner = ["null", inner] if self._rng.random() < 0.3 else inner
            return {"type": kind, "items" if kind == "array" else "values": inner}
        leaf = self._rng.choice(LEAVES)
        plain: Any = strangers.KINDS[leaf]
        plain = plain[1] if isinstance(plain, list) else plain
        made = dict(plain) if isinstance(plain, dict) else {"type": plain}
        made |= {"name": f"T{number}"} if "name" in made else {}
        self._tokens[id(made)] = [one for one in strangers.FITTING[leaf] if one != "null"]
        return made

    def _token(self, type_: Any, wrong: float) -> str:
        if self._rng.random() < wrong:
            return self._rng.choice(strangers.OTHERS)
        if isinstance(type_, list):
            return "null" if self._rng.random() < 0.3 else self._token(type_[1], wrong)
        if type_["type"] == "record":
            pairs = [(one["name"], self._token(one["type"], wrong)) for one in type_["fields"]]
            return self._object(pairs, wrong)
        count = self._rng.randrange(4)
        if type_["type"] == "array":
            return f"[{', '.join(self._token(type_['items'], wrong) for _ in range(count))}]"
        if type_["type"] == "map":
            keys = self._rng.sample(KEYS, count)
            return self._object([(one, self._token(type_["values"], wrong)) for one in keys], wrong)
        return self._rng.choice(self._tokens[id(type_)])

    def _object(self, pairs: list[tuple[str, str]], wrong: float) -> str:
        made = [one for one in pairs if self._rng.random() >= wrong]
        if made and self._rng.random() < wrong:
            made.append(self._rng.choice(made))
        gap = self._rng.choice(strangers.BLANKS)
        return "{" + ",".join(f'{gap}"{name}"{gap}:{token}' for name, token in made) + gap + "}"
