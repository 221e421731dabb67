"""Tokens and roles: what a token may do, and what no list of tokens may hold."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.access import actions
from cutwater.core.access.actions import ACTIONS, OF_THE_CONSOLE, OF_WATCH, Action, require_role
from cutwater.core.access.roles import TOKENS_MAX, AccessError, Caller, Role, Tokens, digest_of
from cutwater.core.errors import UsageError

ROLES = list(Role)
TEXT = st.text("abcdefghijklmnopqrstuvwxyz0123456789._~+/=-", min_size=16, max_size=64)


class Given(NamedTuple):
    name: str
    role: Role
    token: str

    def __str__(self) -> str:
        return f"{self.name}:{self.role}:{digest_of(self.token.encode()).hex()}"


NAMED = st.lists(
    st.builds(Given, st.from_regex(r"[a-z0-9][a-z0-9._@-]{0,20}", fullmatch=True), st.sampled_from(ROLES), TEXT),
    max_size=8,
    unique_by=(lambda one: one.name, lambda one: one.token),
)


@given(NAMED, TEXT, TEXT)
def test_a_token_has_the_role_of_the_list_and_no_other_token_is_known(
    named: list[Given], plain: str, other: str
) -> None:
    """Also the one without a role, which the list may name; whatever else is sent belongs to nobody."""
    tokens = Tokens(",".join(map(str, named)), plain)
    known = {one.token: Caller(one.name, one.role) for one in named}
    for token in (*known, plain, other, f"{plain}x", plain[:-1], ""):
        wanted = known.get(token, Caller("", None) if token == plain else None)
        assert tokens.caller(token.encode()) == wanted
    assert tokens.has_roles == bool(named)
    assert bool(tokens)


def test_without_any_token_none_is_required() -> None:
    """As today; and nobody is known by an empty one."""
    assert not Tokens()
    assert Tokens().caller(b"") is None
    assert Tokens(plain="").caller(digest_of(b"")) is None


@given(
    st.text(max_size=120),
    st.sampled_from(["{0}:{1}", "{1}", "alice:{1}:{2}", "alice:owner:{1}", "{1}:owner:{2}x"]),
)
def test_a_list_that_is_wrong_is_refused_without_being_shown(text: str, form: str) -> None:
    """Whoever mistakes the form may have written the tokens themselves."""
    secret = "the-secret-of-somebody"
    with pytest.raises(UsageError) as raised:
        Tokens(form.format(text.replace(",", " "), secret, digest_of(b"x").hex()))
    assert secret not in str(raised.value)
    assert "CUTWATER_TOKENS" in str(raised.value)


def test_names_and_their_number_are_bounded() -> None:
    one = Given("alice", Role.OWNER, "a-token-of-alice-1")
    with pytest.raises(UsageError, match="two entries are named alice"):
        Tokens(f"{one},{one}")
    for role in ("admin", "OWNER", ""):
        with pytest.raises(UsageError, match="entry 1 has none of the roles viewer, operator, owner"):
            Tokens(f"alice:{role}:{digest_of(b'x').hex()}")
    every = [str(Given(f"n{number}", Role.VIEWER, f"token-{number}")) for number in range(TOKENS_MAX + 1)]
    Tokens(",".join(every[:-1]))
    with pytest.raises(UsageError, match="at most 64"):
        Tokens(",".join(every))


@given(st.sampled_from(ROLES), st.sampled_from(ROLES))
def test_a_role_may_what_those_before_it_may(held: Role, needed: Role) -> None:
    assert Caller("alice", held).may(needed) == (ROLES.index(held) >= ROLES.index(needed))
    assert not Caller("", None).may(needed)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda one: one.name)
def test_an_action_asks_for_its_role(action: Action) -> None:
    """A viewer may none of them, and a token without a role neither; the message says which role is needed."""
    for role in ROLES:
        caller = Caller("bob", role)
        if role >= action.role:
            assert require_role(caller, action) is caller
            continue
        with pytest.raises(AccessError, match=f"needs the role {action.role}, and bob is {role}"):
            require_role(caller, action)
    for nobody in (None, Caller("", None)):
        with pytest.raises(AccessError, match="this token has none"):
            require_role(nobody, action)
    assert action.role > Role.VIEWER


def test_the_roles_are_those_that_were_agreed() -> None:
    """An operator pauses and takes snapshots, an owner promotes and drops; each action is named once."""
    names = [one.name for one in (*ACTIONS, *OF_WATCH)]
    assert len(set(names)) == len(names)
    made = [one for one in vars(actions).values() if isinstance(one, Action)]
    assert made == [*ACTIONS, *OF_WATCH]
    roles = {one.name: one.role for one in OF_THE_CONSOLE}
    owners = {"generation promote", "generation abort", "generation release"}
    assert {one for one, role in roles.items() if role is Role.OWNER} == owners
    operators = {"snapshots create", "mirror pause", "mirror resume", "generation hold"}
    assert {one for one, role in roles.items() if role is Role.OPERATOR} == operators
