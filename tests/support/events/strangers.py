"""Events in JSON as strangers write them: most fit a schema of all types, the others are spoilt in some way."""

from __future__ import annotations

import random
from typing import Any

from support.events import wide

SEED = 20_261_126
KINDS: dict[str, Any] = {
    "key": "string",
    "at": wide.TYPES["seen"],
    "n": "int",
    "b": ["null", "long"],
    "x": "double",
    "h": ["null", "float"],
    "p": ["null", wide.TYPES["price"]],
    "w": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
    "e": ["null", wide.TYPES["kind"]],
    "o": ["null", "bytes"],
    "m": ["null", wide.TYPES["mac"]],
    "f": ["null", "boolean"],
    "u": ["null", wide.TYPES["exact"]],
    "d": "string",
}
FIELDS = [{"name": name, "type": type_} for name, type_ in KINDS.items()]
FIELDS[-1]["default"] = "none"
for _one in FIELDS:
    if isinstance(_one["type"], list):
        _one["default"] = None
SCHEMA = {"type": "record", "name": "Event", "namespace": "test", "fields": FIELDS}
FITTING: dict[str, list[str]] = {
    "key": ['"a"', '"\\u0061"', '""', '"12"', '"{\\"a\\":1}"', '"u\\ud83d\\ude00"', '"}"', '"true"', '"Infinity"'],
    "at": ["1700000000000", '"1700000000000"', '"2024-03-10T06:30:00Z"', '"2024-03-10 06:30:00.1239+02:00"'],
    "n": ["0", "-0", "2147483647", "-2147483648"],
    "b": ["9223372036854775807", "null", "-9223372036854775808"],
    "x": ["0.1", "1e300", "-5E-324", '"NaN"', '"-Infinity"', "3", "123456789012345678901234567890", "1.5e+3"],
    "h": ["0.5", "-3.25", "1e-3", "null"],
    "p": ["12.5", "-9999999.99", '"0.50"', "0.500", '"-0012.34000"', "7", "null"],
    "w": ["0.123456789012345678", "12345678901.25", '"-99999999999999999999.999999999999999999"', "0", "5.000"],
    "e": ['"a"', '"true"', "null"],
    "o": ['"AP8="', '""', "null"],
    "m": ['"AAECAwQF"', "null"],
    "f": ["true", "false", "null"],
    "u": ["1700000000000001", '"1969-12-31T23:59:59.9999999"', "null"],
    "d": ['"x"', "null"],
}
OTHERS = [
    "5", '"5"', "NaN", "Infinity", "-Infinity", "null", "true", "1.0", "1e2", "1e400", "-1e999999999", "01", ".5",
    "1.", "+1", '"u\\ud83d"', '"\\udc00"', '"\\\\ud83d"', "{}", '{"a":1}', '{"a":1,"a":2}', "[]", "'a'", "tru",
    '["x",{"y":"z"}]', "0.12345678901234567890", "1234567890123456789012345678901234567890", '"1.5"', '"A==="',
    '"2013-02-30T00:00:00Z"', '"2024-03-10T06:30:00+25:00"', '"\x01"', '"\\x"', "12345678.5", '"AAEC"', '""',
    "1.7e12", "2147483648", "9223372036854775808", '"soon"',
]  # fmt: skip
BEHIND = [
    "}",
    "} and some garbage {",
    ',"x":1',
    " ",
    "\n",
    "\t\r\n ",
    "{}",
    ',"e":{"k":"b"}',
    "null",
    "\x00",
    "]",
    "\\}",
]
BLANKS = ["", "", "", " ", "\n", "\t ", "\r\n"]


def records(count: int, seed: int) -> list[bytes]:
    """Events, each spoilt in some way or in none: tokens of other kinds, names twice, text behind, other bytes."""
    rng = random.Random(seed)
    return [spoilt(_object(rng), rng) for _ in range(count)]


def _object(rng: random.Random) -> str:
    pairs = [(name, rng.choice(fitting)) for name, fitting in FITTING.items()]
    dice = rng.random()
    if dice < 0.35:
        at = rng.randrange(len(pairs))
        pairs[at] = (pairs[at][0], rng.choice(OTHERS))
    if 0.3 < dice < 0.5:
        name = rng.choice(list(FITTING))
        pairs.insert(rng.randrange(len(pairs)), (name, rng.choice([*FITTING[name], *OTHERS])))
    if 0.55 < dice < 0.65:
        del pairs[rng.randrange(len(pairs))]
    if dice > 0.6:
        pairs.insert(rng.randrange(len(pairs)), (rng.choice(["z", "Key", "\\u006bey"]), rng.choice(OTHERS)))
    if dice > 0.9:
        rng.shuffle(pairs)
    gap = rng.choice(BLANKS)
    told = ",".join(f'{gap}"{name}"{gap}:{token}{gap}' for name, token in pairs)
    return f"{gap}{{{told}}}{gap}"


def spoilt(text: str, rng: random.Random) -> bytes:
    dice = rng.random()
    if dice < 0.1:
        text += rng.choice(BEHIND) + rng.choice(["", "}", " "])
    made = bytearray(text.encode())
    if dice > 0.8:
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(made))
            if rng.random() < 0.5:
                made[at] = rng.choice([rng.randrange(256), *b'{}[]",:\\0-e.'])
            else:
                del made[at : at + rng.randrange(1, 3)]
    if dice > 0.98:
        return rng.randbytes(rng.randrange(40))
    return bytes(made)
