"""Keys in the paths of routes: any text, with slashes and line breaks in it."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor


class KeyConvertor(PathConvertor):
    """`{key:path}` of Starlette ends at a line break: such a key had no route, and `JFK` answered for `JFK\\n`."""

    regex = "(?s:.*)"


register_url_convertor("key", KeyConvertor())
STATE, STORED, GLOBAL = "/v1/state/{key:key}", "/v1/stored/{key:key}", "/v1/global/state/{key:key}"
