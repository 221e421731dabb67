"""What is wrong with a request is said in text that every encoding takes, and that does not repeat the request."""

from __future__ import annotations

import json
from typing import Any, cast

from fastapi.exceptions import RequestValidationError

from cutwater.rehydrator.http_api.errors import handle_invalid_request


def refused(*mistakes: tuple[tuple[str, ...], str]) -> tuple[int, str]:
    errors = [{"loc": loc, "msg": text, "type": "wrong", "input": "\ud83d" * 9} for loc, text in mistakes]
    answer = handle_invalid_request(cast(Any, None), RequestValidationError(errors))
    return answer.status_code, json.loads(bytes(answer.body))["detail"]


def test_half_a_surrogate_pair_in_a_name_is_answered() -> None:
    """A name in a body may hold one (FINDINGS D6): without the replacement the answer itself would fail."""
    assert refused((("body", "u\ud83d"), "no such field")) == (422, "u?: no such field")


def test_mistakes_are_named_by_place_and_what_was_sent_is_not_repeated() -> None:
    assert refused((("query", "from"), "no time"), (("body",), "no JSON")) == (422, "from: no time; no JSON")
