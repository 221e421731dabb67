"""Check the expressions of a job file with Spark's own parser and analyser, without a session.

`python -m cutwater_spark.tools.expressions` reads a request from its standard input, and writes the result:

    {"schema": TYPE, "expressions": [["where", SQL], ["columns.speed", SQL]]}
    {"types": {"where": "boolean", "columns.speed": "double"}, "mistakes": [["columns.x", TEXT, NAME]]}

TYPE is Spark's type of an event, as JSON. NAME is a name that the event does not have, or empty.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import launch_gateway

MEMORY = "256m"
CLASSES = "CUTWATER_SPARK_CLASSES"
TEXT_CHARS_MAX = 400
_CATALYST = "org.apache.spark.sql.catalyst"
_EACH_TIME = re.compile(r"Current|Now$|Local(Time|Date)|InputFile|SparkVersion|Uuid|Rand")
"""Classes of expressions whose value depends on when or where they run. Spark calls some of them deterministic."""
_SUBQUERY = re.compile(r"Subquery$|^Exists$|^ListQuery$|^LateralSubquery")
_SHAPES = {
    "Aggregate": "aggregates events: an expression is about one event; aggregates belong to 'measures'",
    "Window": "is a window function: an expression is about one event",
    "Generate": "makes several rows of one event",
}
_ADVICE = re.compile(r" *(Did you mean .*|SQLSTATE: .*|== SQL .*|; line [0-9]+ pos [0-9]+.*)", re.DOTALL)
_CODE = re.compile(r"^.*?\[[A-Z_.0-9]+\] *", re.DOTALL)


class Mistake(NamedTuple):
    place: str
    text: str
    unknown: str = ""
    """A name that the event does not have; empty for other mistakes."""


class Analyser:
    """Spark's parser and analyser in a JVM; `schema`: Spark's type of the events, as JSON."""

    def __init__(self, java: Any, schema: dict[str, Any]) -> None:
        self._java = java
        self._logical = self._package(f"{_CATALYST}.plans.logical")
        self._none = java.scala.Option.empty()
        self._nil = self._single("scala.collection.immutable", "Nil")
        self._names = self._single(f"{_CATALYST}.expressions", "NamedExpression")
        self._functions = self._single(f"{_CATALYST}.analysis", "FunctionRegistry").builtin()
        self._parser = self._single(f"{_CATALYST}.parser", "CatalystSqlParser")
        self._analyser = self._single(f"{_CATALYST}.analysis", "SimpleAnalyzer")
        type_ = java.org.apache.spark.sql.types.DataType.fromJson(json.dumps(schema))
        attributes = self._package(f"{_CATALYST}.types").DataTypeUtils.toAttributes(type_)
        self._events = self._logical.LocalRelation(attributes, self._nil, False, self._none)

    def type_of(self, place: str, sql: str) -> str | Mistake:
        """Return the type of an expression's values as Spark writes it in JSON, or why it cannot be used."""
        try:
            return self._type_of(place, sql)
        except Py4JJavaError as error:
            return _mistake(place, error.java_exception)
        except CapturedException as error:  # if the JVM has a session
            return _mistake(place, error._origin)

    def _type_of(self, place: str, sql: str) -> str | Mistake:
        parsed = self._parser.parseExpression(sql)
        if wrong := self._of_text(parsed):
            return Mistake(place, wrong)
        expressions = self._package(f"{_CATALYST}.expressions")
        made = expressions.Alias(parsed, "made", self._names.newExprId(), self._nil, self._none, self._nil)
        plan = self._analyser.execute(self._logical.Project(self._nil.prepended(made), self._events))
        self._analyser.checkAnalysis(plan)
        value = plan.expressions().head()
        if wrong := _of_plan(plan) or _of_values(value):
            return Mistake(place, wrong)
        return str(json.loads(value.dataType().json()) if _is_plain(value) else value.dataType().simpleString())

    def _of_text(self, parsed: Any) -> str:
        """Return what is wrong with an expression before it is analysed; empty if nothing is."""
        if _class(parsed) == "Alias":
            return "gives its value a name with 'as': write the expression alone"
        for one in _nodes(parsed):
            # The analyser would look for it in a catalog, which there is none of.
            if _class(one) == "UnresolvedFunction":
                name = str(one.nameParts().mkString("."))
                if not self._functions.functionExists(self._function(name)):
                    return f"uses {name}(), a function that Spark does not have"
        return ""

    def _function(self, name: str) -> Any:
        return self._package(_CATALYST).FunctionIdentifier(name)

    def _package(self, path: str) -> Any:
        found = self._java
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def _single(self, package: str, name: str) -> Any:
        return getattr(getattr(self._package(package), f"{name}$"), "MODULE$")


def _of_plan(plan: Any) -> str:
    """Return why a plan with the expression on top is about more than one event; empty if it is not."""
    found = [_class(one) for one in _nodes(plan)]
    for name, why in _SHAPES.items():
        if name in found:
            return why
    return "" if found == ["Project", "LocalRelation"] else "is no expression about one event"


def _of_values(value: Any) -> str:
    """Return why an expression's values would not be the same each time; empty if they are."""
    for one in reversed(list(_nodes(value))):  # from the inside
        if _SUBQUERY.search(_class(one)):
            return "has a subquery: an expression is about one event alone"
        if _EACH_TIME.match(_class(one)) or not one.deterministic():
            return f"uses {one.prettyName()}(), which may give another value when an epoch is repeated"
    return ""


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_plain(value: Any) -> bool:
    return str(value.dataType().json()).startswith('"')


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    children = node.children().iterator()
    while children.hasNext():
        yield from _nodes(children.next())


def _mistake(place: str, error: Any) -> Mistake:
    text = _CODE.sub("", str(error.getMessage() or error), count=1)
    text = " ".join(_ADVICE.sub("", text, count=1).split())[:TEXT_CHARS_MAX]
    unknown = ""
    try:
        if str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            unknown = str(error.getMessageParameters().get("objectName")).replace("`", "")
    except Py4JError:
        pass  # an error of Java's own, which has no condition
    return Mistake(place, text, unknown)


def check(java: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return types and mistakes of a request's expressions, as the module says."""
    analyser = Analyser(java, request["schema"])
    found = {place: analyser.type_of(place, sql) for place, sql in request["expressions"]}
    return {
        "types": {place: one for place, one in found.items() if isinstance(one, str)},
        "mistakes": [one for one in found.values() if isinstance(one, Mistake)],
    }


def main() -> int:
    request = json.load(sys.stdin)
    # It runs for a second or two: compiling well would take longer than it saves.
    options = ["-XX:TieredStopAtLevel=1", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if archive := os.environ.get(CLASSES):
        options.append(f"-XX:SharedArchiveFile={archive}")
    words = ["--driver-memory", MEMORY, "--driver-java-options", " ".join(options), "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(words)
    gateway = launch_gateway()
    try:
        result = check(gateway.jvm, request)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
