"""Keys in URL paths: any text, including slashes and line breaks."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor


class KeyConvertor(PathConvertor):
    """Matches line breaks, unlike Starlette's `{key:path}`, for which `JFK\\n` got the answer of `JFK`."""

    regex = "(?s:.*)"


register_url_convertor("key", KeyConvertor())
STATE, STORED, GLOBAL = "/v1/state/{key:key}", "/v1/stored/{key:key}", "/v1/global/state/{key:key}"
