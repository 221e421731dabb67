"""Actions of the console over HTTP: roles, the typed name, pages of other sites, and the records that are left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.core.access.actions import OF_THE_CONSOLE
from cutwater.core.protocol.generation import Generation
from support.console.sample_job import (
    AWAY,
    HELD,
    PLAIN,
    TOKENS,
    ConstructedOperator,
    ConstructedReader,
    ConstructedView,
    follower,
    served,
    with_roles,
)
from support.protocol_samples import GENERATION, OTHER

ASKED: dict[str, dict[str, str]] = {
    "generation promote": {"object": str(OTHER), "confirmation": str(OTHER)},
    "generation abort": {"object": str(OTHER), "confirmation": str(OTHER), "reason": "the other plan"},
    "generation hold": {
        **{"object": str(OTHER), "confirmation": str(OTHER), "duration": "90m", "reason": "dead letters"},
    },
    "generation release": {"object": str(HELD), "confirmation": str(HELD), "reason": "they were ours"},
    "snapshots create": {"confirmation": "flights"},
    "mirror pause": {"object": "us", "confirmation": "flights"},
    "mirror resume": {"object": "us", "confirmation": "flights"},
}
DOES: dict[str, list[tuple[Any, ...]]] = {
    "generation promote": [("promote", OTHER)],
    "generation abort": [("drop", OTHER, "the other plan")],
    "generation hold": [("hold", OTHER, 5_400_000, "my-owner", "dead letters")],
    "generation release": [("release", HELD, "my-owner", "they were ours")],
    "snapshots create": [],
    "mirror pause": [("steer", "us", True)],
    "mirror resume": [("steer", "us", False)],
}


class Here:
    """A console with a token of each role."""

    def __init__(self, url: str, operator: ConstructedOperator) -> None:
        self.url, self.operator = url, operator

    def act(self, action: str, role: str = "owner", headers: dict[str, str] | None = None, **more: Any) -> Any:
        token = TOKENS.get(role, role)
        given = {"authorization": f"Bearer {token}"} if token else {}
        body = {"action": action, **ASKED.get(action, {"confirmation": ""}), **more}
        return httpx.post(f"{self.url}api/jobs/flights/actions", json=body, headers=given | (headers or {}))

    def told(self) -> list[tuple[str, str, str, str]]:
        return [(one.actor, one.action, one.object, one.outcome) for one in self.operator.written]


@contextmanager
def console(operator: ConstructedOperator | None = None, settings: Settings | None = None) -> Iterator[Here]:
    acting = operator or ConstructedOperator()
    made = follower(ConstructedReader(), ConstructedView())
    made.step()
    made.start = lambda: None  # type: ignore[method-assign]
    with served(made, settings or with_roles(), operator=acting) as one:
        yield Here(one.url, acting)


@pytest.fixture(scope="module")
def one_console() -> Iterator[Here]:
    with console() as one:
        yield one


@pytest.fixture
def here(one_console: Here) -> Here:
    """A console whose operator was asked for nothing yet."""
    one_console.operator.asked.clear()
    one_console.operator.written.clear()
    return one_console


def test_every_action_of_the_console_is_asked_for_here() -> None:
    assert set(ASKED) == set(DOES) == {one.name for one in OF_THE_CONSOLE}


@pytest.mark.parametrize("action", ASKED)
def test_an_owner_may_do_all_and_each_action_leaves_its_records(here: Here, action: str) -> None:
    answer = here.act(action)
    assert answer.status_code == 200, answer.text
    assert answer.json()["audit_problem"] == ""
    object_ = ASKED[action].get("object", "flights")
    assert here.told() == [("my-owner", action, object_, "begun"), ("my-owner", action, object_, "done")]
    first, last = here.operator.written
    assert (first.role, first.via, first.id) == ("owner", "console", last.id)
    assert first.process.endswith(" for 127.0.0.1")
    assert last.detail == answer.json()["detail"] != ""
    assert here.operator.asked == DOES[action]


@pytest.mark.parametrize("action", OF_THE_CONSOLE, ids=lambda one: one.name)
@pytest.mark.parametrize("role", TOKENS)
def test_a_role_may_what_the_table_says(here: Here, action: Any, role: str) -> None:
    """403 and nothing done or written otherwise; a viewer may read."""
    allowed = role == "owner" or (role == "operator" and str(action.role) == "operator")
    answer = here.act(action.name, role)
    assert answer.status_code == (200 if allowed else 403), answer.text
    assert bool(here.operator.written) == allowed
    if not allowed:
        assert f"needs the role {action.role if role == 'operator' else 'operator'}" in answer.json()["detail"]
        assert here.operator.asked == []
    reading = {"authorization": f"Bearer {TOKENS[role]}"}
    assert httpx.get(f"{here.url}api/jobs/flights/overview", headers=reading).status_code == 200


@pytest.mark.parametrize("token", [PLAIN, "", "no-such-token-at-all"])
def test_a_token_without_a_role_only_reads(here: Here, token: str) -> None:
    """As for those who set one token alone: the console stays read-only."""
    answer = here.act("snapshots create", token)
    assert answer.status_code == (403 if token == PLAIN else 401)
    assert here.operator.written == here.operator.asked == []
    reading = {"authorization": f"Bearer {token}"} if token else {}
    read = httpx.get(f"{here.url}api/access", headers=reading)
    assert read.status_code == (200 if token == PLAIN else 401)
    if token == PLAIN:
        assert read.json() == {"name": "", "role": None, "may": []}


@pytest.mark.parametrize("settings", [Settings(), Settings(api_token=PLAIN)])  # type: ignore[arg-type]
def test_without_roles_the_console_is_read_only(settings: Settings) -> None:
    with console(settings=settings) as one:
        answer = one.act("snapshots create", settings.api_token.get_secret_value())
        assert answer.status_code == 403
        assert answer.json()["kind"] == "forbidden"
        assert one.operator.written == one.operator.asked == []


def test_the_page_learns_what_its_token_may(here: Here) -> None:
    for role, count in {"viewer": 0, "operator": 4, "owner": 7}.items():
        read = httpx.get(f"{here.url}api/access", headers={"authorization": f"Bearer {TOKENS[role]}"}).json()
        assert (read["name"], read["role"], len(read["may"])) == (f"my-{role}", role, count)


@pytest.mark.parametrize("action", ASKED)
@pytest.mark.parametrize("typed", ["", "FLIGHTS", "flight", f" {OTHER}", str(GENERATION)])
def test_the_name_must_be_typed(here: Here, action: str, typed: str) -> None:
    """Of the job, or of the generation; the server checks it, too."""
    answer = here.act(action, confirmation=typed)
    assert answer.status_code == 400
    assert "to confirm" in answer.json()["detail"]
    assert here.operator.written == here.operator.asked == []


FOREIGN: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_site_changes_nothing(here: Here, headers: dict[str, str]) -> None:
    """Even if it had the token. A form's content types need no question to the server, so they are refused."""
    answer = here.act("snapshots create", headers=headers)
    assert answer.status_code == (400 if "content-type" in headers else 403)
    assert here.operator.written == here.operator.asked == []
    own = {"origin": here.url.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert here.act("snapshots create", headers=own).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"action": 1}', b'{"action": "a", "confirmation": "", "more": 1}', b"x" * 9_000],
    ids=lambda one: one[:12].decode(),
)
def test_a_body_that_is_no_question_is_refused(here: Here, body: bytes) -> None:
    headers = {"authorization": f"Bearer {TOKENS['owner']}", "content-type": "application/json"}
    answer = httpx.post(f"{here.url}api/jobs/flights/actions", content=body, headers=headers)
    assert (answer.status_code, answer.json()["kind"]) == (400, "usage")
    assert here.operator.written == []


def test_an_unknown_action_or_object_or_job_is_refused(here: Here) -> None:
    assert here.act("down --delete", confirmation="flights").status_code == 400
    assert here.act("generation promote", object="nonsense", confirmation="nonsense").status_code == 400
    assert [one.outcome for one in here.operator.written] == ["begun", "failed"]
    headers = {"authorization": f"Bearer {TOKENS['owner']}"}
    body = {"action": "snapshots create", "confirmation": "nope"}
    assert httpx.post(f"{here.url}api/jobs/nope/actions", json=body, headers=headers).status_code == 404


@pytest.mark.parametrize(("duration", "said"), [("", "30m"), ("soon", "30m"), ("25h", "at most 24 h")])
def test_a_hold_of_another_length_is_refused(here: Here, duration: str, said: str) -> None:
    """The audit log has the try."""
    answer = here.act("generation hold", duration=duration)
    assert (answer.status_code, answer.json()["kind"]) == (400, "usage")
    assert said in answer.json()["detail"]
    assert [one.outcome for one in here.operator.written] == ["begun", "failed"]


def test_a_hold_is_told_with_its_end_and_recorded_with_its_length(here: Here) -> None:
    answer = here.act("generation hold")
    assert answer.json()["detail"] == f"the promotion of {OTHER} is held until 2026-01-01T01:30:00Z"
    assert {one.name: one.value for one in here.operator.written[0].arguments} == {
        "for": "90m",
        "reason": "dead letters",
    }
    assert here.act("generation release").json()["detail"] == f"the hold of {HELD} has ended"
    of_other = {"object": str(OTHER), "confirmation": str(OTHER)}
    assert here.act("generation release", **of_other).json()["detail"] == f"{OTHER} was not held"


def test_an_action_that_fails_is_recorded_as_failed() -> None:
    with console(ConstructedOperator(error="its parent is gone")) as here:
        answer = here.act("generation promote")
        assert (answer.status_code, answer.json()["detail"]) == (400, "its parent is gone")
        assert [(one.outcome, one.detail) for one in here.operator.written] == [
            ("begun", ""),
            ("failed", "its parent is gone"),
        ]


def test_nothing_is_done_that_cannot_be_recorded() -> None:
    """The first record must be acknowledged; the answer names the command that does it without."""
    with console(ConstructedOperator(deaf=True)) as here:
        answer = here.act("generation abort")
        assert answer.status_code == 503
        assert "nothing was done" in answer.json()["detail"]
        assert "cutwater generation abort" in answer.json()["detail"]
        assert here.operator.asked == []


def test_an_outcome_that_is_lost_is_said() -> None:
    """The action is done: the answer says so, and that its outcome is missing on the log."""
    with console(ConstructedOperator(lost=True)) as here:
        answer = here.act("mirror pause")
        assert answer.status_code == 200
        assert AWAY in answer.json()["audit_problem"]
        assert here.operator.asked == [("steer", "us", True)]
        assert [one.outcome for one in here.operator.written] == ["begun"]


def test_a_generation_is_read_as_such(here: Here) -> None:
    assert here.operator.asked == []
    here.act("generation promote")
    assert here.operator.asked[0][1] == Generation.parse(str(OTHER))


def test_tokens_are_in_no_answer_and_no_log(here: Here, capfd: pytest.CaptureFixture[str]) -> None:
    for role in TOKENS:
        for action in ASKED:
            text = here.act(action, role).text
            assert not [one for one in (*TOKENS.values(), PLAIN) if one in text]
    said = capfd.readouterr()
    assert not [one for one in (*TOKENS.values(), PLAIN) if one in said.out + said.err]
