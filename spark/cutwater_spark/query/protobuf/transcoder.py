"""A function of the JVM that writes a Protobuf event as Avro does, and finds its first flaw.

Its classes are in the folder `java`. They get a description of the message; in it a field's default is as Protobuf
would write it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cutwater.core.events.json_events import KEY_SHOWN
from cutwater.core.events.protobuf import fields as rules
from cutwater.core.events.protobuf.encoder import encode_message
from cutwater.core.events.protobuf.fields import MAP, ProtoField
from cutwater.core.events.protobuf.wire import ENTRIES_MAX
from cutwater.core.events.rejection import ELEMENTS_MAX, TEXT_RULE
from cutwater_spark.query.protobuf.java_classes import load_class

_CLASS = "io.cutwater.ProtobufToAvro"
_RESULT = "event binary, path string, rule string"


def register_transcoder(session: SparkSession, fields: Sequence[ProtoField]) -> str:
    """Return the name of an SQL function of the session: of a message's bytes (event, path, rule), of NULL NULL.

    `event`: as Avro writes it, without framing. `path` and `rule`: of the first flaw, which has no event.
    """
    described = describe_message(fields)
    transcoder = load_class(session, Path(__file__).parent / "java", _CLASS).newInstance()
    transcoder.describe(described)
    name = f"cutwater_protobuf_{hashlib.sha256(described.encode()).hexdigest()[:16]}"
    java: Any = session._jvm
    result = java.org.apache.spark.sql.types.DataType.fromDDL(_RESULT)
    registry: Any = session._jsparkSession.udf()
    registry.register(name, transcoder, result)
    return name


def describe_message(fields: Sequence[ProtoField]) -> str:
    """Return what the transcoder has to know of a message, as JSON."""
    described = {
        "fields": _fields(fields),
        "entries_max": ENTRIES_MAX,
        "elements_max": ELEMENTS_MAX,
        "key_shown": KEY_SHOWN,
        "rules": {
            "no_message": rules.NO_MESSAGE,
            "no_list": rules.NO_LIST.format(ELEMENTS_MAX),
            "no_symbol": rules.NO_SYMBOL,
            "no_time": rules.NO_TIME,
            "not_there": rules.NOT_THERE,
            "no_text": TEXT_RULE,
        },
    }
    return json.dumps(described)


def _fields(fields: Sequence[ProtoField], within_map: bool = False) -> list[dict[str, Any]]:
    places = {one.number: at for at, one in enumerate(fields)}
    return [_field(one, places, within_map) for one in fields]


def _field(field: ProtoField, places: dict[int, int], within_map: bool) -> dict[str, Any]:
    is_one = not field.repeated and field.type != MAP
    is_nullable = is_one and field.has_default and field.default is None and not within_map
    return {
        "name": field.name,
        "number": field.number,
        "type": field.type,
        "kind": field.kind,
        "repeated": field.repeated,
        "required": not field.has_default,
        "nullable": is_nullable,
        "default": _default_entry(field) if is_one else None,
        "members": [places[one] for one in field.members],
        "symbols": [number for number, _ in field.symbols],
        "other_type": rules.OTHER_TYPE.format(field.shown),
        "fields": _fields(field.fields, field.type == MAP),
    }


def _default_entry(field: ProtoField) -> str | None:
    if field.default is None:
        return None
    # The encoder leaves a default out.
    entry = encode_message({field.name: field.default}, [replace(field, default=None)])
    return base64.b64encode(entry).decode()
