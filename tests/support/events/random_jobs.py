"""Random schemas, expressions over them in the SQL of Spark and of DuckDB, and events: by hypothesis.

Both must have one meaning. So where Spark has an error and DuckDB an answer, DuckDB is told to have an error.
And an expression that may have one is no part of a condition, of which the two do not evaluate the same parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

INT, LONG, DOUBLE, TEXT, FLAG = "int", "long", "double", "string", "boolean"
PLAIN = (INT, LONG, DOUBLE, TEXT, FLAG)
AT = 1_700_000_000_000
_DUCK = {INT: "integer", LONG: "bigint", DOUBLE: "double", TEXT: "varchar", FLAG: "boolean"}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    INT: st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]),
    LONG: st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]),
    DOUBLE: st.sampled_from([0.0, 1.0, -1.5, 0.1, 1e300, 5e-324]),
    TEXT: st.sampled_from(["", "a", "ab", "b a", "größe", "\U0001f600x", "it's", "100%", "a_b"]),
    FLAG: st.booleans(),
}
_KEYS = ("k", "l", "it's")


Inner = Callable[..., st.SearchStrategy["Sql"]]
"""Makes expressions of a kind, one level deeper."""


class Sql(NamedTuple):
    """An expression in both dialects."""

    spark: str
    duck: str
    kind: str
    may_fail: bool = False


@dataclass(frozen=True)
class Shape:
    """A field: a plain one, or a record, array or map of plain ones."""

    name: str
    form: str
    kind: str
    nullable: bool

    @property
    def avro(self) -> dict[str, Any]:
        inner: Any = {
            "plain": self.kind,
            "record": {
                "type": "record",
                "name": f"R_{self.name}",
                "fields": [{"name": "x", "type": ["null", self.kind]}],
            },
            "array": {"type": "array", "items": self.kind},
            "map": {"type": "map", "values": self.kind},
        }[self.form]
        return {"name": self.name, "type": ["null", inner] if self.nullable else inner}

    @property
    def duck(self) -> str:
        kind = _DUCK[self.kind]
        return {
            "plain": kind,
            "record": f"struct(x {kind})",
            "array": f"{kind}[]",
            "map": f"map(varchar, {kind})",
        }[self.form]

    @property
    def values(self) -> st.SearchStrategy[Any]:
        one = _VALUES[self.kind]
        made: st.SearchStrategy[Any] = {
            "plain": one,
            "record": st.fixed_dictionaries({"x": st.none() | one}),
            "array": st.lists(one, max_size=3),
            "map": st.dictionaries(st.sampled_from(_KEYS), one, max_size=2),
        }[self.form]
        return st.none() | made if self.nullable else made

    def parts(self) -> list[Sql]:
        """What an expression may read of it."""
        if self.form == "plain":
            return [Sql(self.name, self.name, self.kind)]
        if self.form == "record":
            return [Sql(f"{self.name}.x", f"{self.name}.x", self.kind)]
        if self.form == "map":
            return [Sql(f"{self.name}['k']", f"{self.name}['k']", self.kind)]
        second = f"case when len({self.name}) < 2 then error('no element') else {self.name}[2] end"
        return [
            Sql(f"get({self.name}, 0)", f"{self.name}[1]", self.kind),
            Sql(f"element_at({self.name}, 2)", f"({second})", self.kind, True),
            Sql(f"size({self.name})", f"len({self.name})::integer", INT),
        ]


class RandomJob(NamedTuple):
    fields: list[Shape]
    where: Sql | None
    columns: dict[str, Sql]
    format: str
    events: list[dict[str, Any]]

    @property
    def schema(self) -> dict[str, Any]:
        place = [
            {"name": "key", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ]
        return {"type": "record", "name": "Random", "fields": [*place, *(one.avro for one in self.fields)]}

    def source(self) -> dict[str, Any]:
        """What the job file says of the source's expressions."""
        columns = {name: one.spark for name, one in self.columns.items()}
        return {"format": self.format, "columns": columns} | ({"where": self.where.spark} if self.where else {})


def as_json(event: dict[str, Any]) -> bytes:
    return json.dumps({"key": "k", "at": AT, **event}, ensure_ascii=False).encode()


@st.composite
def random_jobs(draw: st.DrawFn) -> RandomJob:
    forms = draw(st.lists(st.sampled_from(["plain", "plain", "record", "array", "map"]), min_size=2, max_size=6))
    fields = [
        Shape(f"f{at}", form, draw(st.sampled_from(PLAIN)), draw(st.booleans())) for at, form in enumerate(forms)
    ]
    parts = [part for one in fields for part in one.parts()]
    count = draw(st.integers(1, 4))
    columns = {f"c{at}": draw(_expressions(parts, draw(st.sampled_from(PLAIN)), 2)) for at in range(count)}
    where = draw(st.none() | _expressions(parts, FLAG, 2))
    events = st.fixed_dictionaries({one.name: one.values for one in fields})
    made = draw(st.lists(events, min_size=1, max_size=25))
    return RandomJob(fields, where, columns, draw(st.sampled_from(["avro", "json"])), made)


def _expressions(parts: list[Sql], kind: str, levels: int, safe: bool = False) -> st.SearchStrategy[Sql]:
    """Expressions of a kind, nested at most so deep; `safe`: none of them has an error for any event."""
    leaves = [one for one in parts if one.kind == kind and not (safe and one.may_fail)]
    found = _literals(kind)
    if leaves:
        found = st.sampled_from(leaves) | found
    if levels == 0:
        return found

    def inner(of: str, safe: bool = safe) -> st.SearchStrategy[Sql]:
        return _expressions(parts, of, levels - 1, safe)

    choices = [found, st.builds(_chosen, inner(FLAG, True), inner(kind, True), inner(kind, True))]
    choices.append(st.builds(_first, inner(kind, True), inner(kind, True)))
    return st.one_of(
        choices + (_numbers(kind, inner, safe) if kind in (INT, LONG, DOUBLE) else _others(kind, inner))
    )


def _numbers(kind: str, inner: Inner, safe: bool) -> list[st.SearchStrategy[Sql]]:
    signs = st.sampled_from("+-*")
    if kind == DOUBLE:
        made = [st.builds(_sum, signs, inner(DOUBLE), inner(DOUBLE))]
        return made if safe else [*made, st.builds(_quotient, inner(DOUBLE), inner(DOUBLE))]
    made = [st.builds(_length, inner(TEXT)) if kind == INT else st.builds(_long, inner(INT))]
    return made if safe else [*made, st.builds(_whole, signs, inner(kind), inner(kind))]


def _others(kind: str, inner: Inner) -> list[st.SearchStrategy[Sql]]:
    if kind == TEXT:
        return [
            st.builds(_joined, inner(TEXT), inner(TEXT)),
            st.builds(_head, inner(TEXT), st.integers(0, 3)),
            st.builds(_text, st.sampled_from([INT, LONG]).flatmap(inner)),
        ]

    def compared(of: str) -> st.SearchStrategy[Sql]:
        return st.builds(_compared, st.sampled_from(["=", "<", ">=", "<>"]), inner(of), inner(of))

    return [
        st.sampled_from(PLAIN).flatmap(compared),
        st.sampled_from(PLAIN).flatmap(lambda of: st.builds(_is_null, inner(of))),
        st.builds(_like, inner(TEXT), st.sampled_from(["a%", "%b%", "_"])),
        st.builds(_both, st.sampled_from(["and", "or"]), inner(FLAG, True), inner(FLAG, True)),
        st.builds(_not, inner(FLAG)),
    ]


def _literals(kind: str) -> st.SearchStrategy[Sql]:
    def written(value: Any) -> Sql:
        text = f"'{value}'" if kind == TEXT else str(value).lower()
        spark = {LONG: f"{text}L", DOUBLE: f"{text}D"}.get(kind, text)
        return Sql(spark, f"{text}::{_DUCK[kind]}", kind)

    values = {TEXT: ["", "a", "ab"], FLAG: [True, False], DOUBLE: [0.0, 2.0, 0.5]}.get(kind, [0, 1, 7])
    return st.sampled_from(values).map(written)


def _made(kind: str, form: str, *inner: Sql) -> Sql:
    """The same text around the inner expressions in both dialects."""
    return Sql(
        f"({form.format(*(one.spark for one in inner))})",
        f"({form.format(*(one.duck for one in inner))})",
        kind,
        any(one.may_fail for one in inner),
    )


def _chosen(when: Sql, one: Sql, other: Sql) -> Sql:
    return _made(one.kind, "case when {0} then {1} else {2} end", when, one, other)


def _first(one: Sql, other: Sql) -> Sql:
    return _made(one.kind, "coalesce({0}, {1})", one, other)


def _whole(sign: str, one: Sql, other: Sql) -> Sql:
    return _made(one.kind, f"{{0}} {sign} {{1}}", one, other)._replace(may_fail=True)


def _sum(sign: str, one: Sql, other: Sql) -> Sql:
    return _made(DOUBLE, f"{{0}} {sign} {{1}}", one, other)


def _quotient(one: Sql, other: Sql) -> Sql:
    # Spark looks at the divisor first, and at its zero only if there is something to divide.
    known = f"when {other.duck} is null then null when {one.duck} is null then null"
    failing = f"(case {known} when {other.duck} = 0 then error('division') else {one.duck} / {other.duck} end)"
    return Sql(f"({one.spark} / {other.spark})", failing, DOUBLE, True)


def _length(one: Sql) -> Sql:
    return Sql(f"length({one.spark})", f"length({one.duck})::integer", INT, one.may_fail)


def _long(one: Sql) -> Sql:
    return _made(LONG, "cast({0} as bigint)", one)


def _joined(one: Sql, other: Sql) -> Sql:
    return _made(TEXT, "{0} || {1}", one, other)


def _head(one: Sql, count: int) -> Sql:
    return _made(TEXT, f"substring({{0}}, 1, {count})", one)


def _text(one: Sql) -> Sql:
    return Sql(f"cast({one.spark} as string)", f"({one.duck})::varchar", TEXT, one.may_fail)


def _compared(sign: str, one: Sql, other: Sql) -> Sql:
    return _made(FLAG, f"{{0}} {sign} {{1}}", one, other)


def _is_null(one: Sql) -> Sql:
    return _made(FLAG, "{0} is null", one)


def _like(one: Sql, pattern: str) -> Sql:
    return _made(FLAG, f"{{0}} like '{pattern}'", one)


def _both(word: str, one: Sql, other: Sql) -> Sql:
    return _made(FLAG, f"{{0}} {word} {{1}}", one, other)


def _not(one: Sql) -> Sql:
    return _made(FLAG, "not {0}", one)
