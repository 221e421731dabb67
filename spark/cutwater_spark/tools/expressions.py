"""Check the expressions of a job file with Spark's own parser and analyser, without a session.

`python -m cutwater_spark.tools.expressions` reads a request from its standard input, and writes the result:

    {"schema": TYPE, "expressions": [["where", SQL], ["columns.speed", SQL]]}
    {"types": {"where": "boolean", "columns.speed": "double"}, "mistakes": [["columns.x", TEXT, NAME]]}

TYPE is Spark's type of an event, as JSON. NAME is a name that the event does not have, or empty. An expression is
parsed, analysed, and its code is generated: some patterns are read only then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.find_spark_home import _find_spark_home

from cutwater.adapters.job_files.spark_types import in_brackets
from cutwater_spark.class_path import jars_of
from cutwater_spark.plans.expression_rules import class_of, nodes, wrong_plan, wrong_text, wrong_value
from cutwater_spark.tools.java_errors import condition_of, text_of

MEMORY = "256m"
CLASSES, ANSI = "CUTWATER_SPARK_CLASSES", "SPARK_ANSI_SQL_MODE"
_SPARKS_OWN = ("-XX:+IgnoreUnrecognizedVMOptions", "--add-modules=jdk.incubator.vector", "-XX:+UseSerialGC")
"""Options of Spark's scripts with which the archive of classes is made."""
_CATALYST = "org.apache.spark.sql.catalyst"


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
        self._replaced = self._single(f"{_CATALYST}.optimizer", "ReplaceExpressions")
        self._generator = self._single(f"{_CATALYST}.expressions.codegen", "GenerateUnsafeProjection")
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
        if wrong := wrong_text(sql, parsed, self._is_function):
            return Mistake(place, wrong)
        plan = self._analysed(in_brackets(sql))
        value = plan.expressions().head()
        if wrong := wrong_plan(plan) or wrong_value(value):
            return Mistake(place, wrong)
        if wrong := self._wrong_code(plan):
            return Mistake(place, wrong)
        written = str(value.dataType().json())
        return str(json.loads(written)) if written.startswith('"') else str(value.dataType().simpleString())

    def _analysed(self, sql: str) -> Any:
        expressions = self._package(f"{_CATALYST}.expressions")
        parsed = self._parser.parseExpression(sql)
        made = expressions.Alias(parsed, "made", self._names.newExprId(), self._nil, self._none, self._nil)
        plan = self._analyser.execute(self._logical.Project(self._nil.prepended(made), self._events))
        self._analyser.checkAnalysis(plan)
        return plan

    def _wrong_code(self, plan: Any) -> str:
        """Return why Spark makes no code of an expression, such as a wrong pattern; empty if it does."""
        try:
            value = self._replaced.apply(plan).expressions().head()
            if any(class_of(one) == "With" for one, _ in nodes(value)):
                return ""  # the optimiser makes two steps of it
            self._generator.generate(self._nil.prepended(value), self._events.output())
        except Py4JJavaError as error:
            return text_of(error.java_exception)
        except CapturedException as error:
            return text_of(error._origin)
        return ""

    def _is_function(self, name: str) -> bool:
        identifier = self._package(_CATALYST).FunctionIdentifier(name)
        return bool(self._functions.functionExists(identifier))

    def _package(self, path: str) -> Any:
        found = self._java
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def _single(self, package: str, name: str) -> Any:
        return getattr(getattr(self._package(package), f"{name}$"), "MODULE$")


def _mistake(place: str, error: Any) -> Mistake:
    """Return the mistake. Raise RuntimeError for an error of the JVM itself, which is nobody's mistake."""
    condition = condition_of(error)
    if condition is None:
        raise RuntimeError(f"Spark's check of {place}: {error.toString()}")
    unknown = ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        unknown = str(error.getMessageParameters().get("objectName")).replace("`", "")
    return Mistake(place, text_of(error), unknown)


def check_expressions(java: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return types and mistakes of a request's expressions, as the module says."""
    analyser = Analyser(java, request["schema"])
    found = {place: analyser.type_of(place, sql) for place, sql in request["expressions"]}
    return {
        "types": {place: one for place, one in found.items() if isinstance(one, str)},
        "mistakes": [one for one in found.values() if isinstance(one, Mistake)],
    }


def java_options() -> list[str]:
    """Return the options of a JVM that runs for seconds: compiling well would take longer than it saves."""
    options = ["-XX:TieredStopAtLevel=1", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if archive := os.environ.get(CLASSES):
        options.append(f"-XX:SharedArchiveFile={archive}")
    return options


def start_jvm() -> tuple[JavaGateway, Any]:
    """Start a JVM with Spark's classes, and return its gateway and process.

    Spark's own scripts would start another JVM first, only to find the command. The class path is theirs: else
    Java takes no archive of classes.
    """
    home = Path(_find_spark_home())
    configuration = os.environ.get("SPARK_CONF_DIR") or str(home / "conf")
    slf4j = [str(one) for one in sorted((home / "jars").glob("slf4j-api-*.jar"))]
    paths = [*jars_of(os.environ.get(CLASSES, "")), f"{configuration}/", *slf4j, f"{home}/jars/*"]
    port, token, process = launch_gateway(
        jarpath=paths[0],
        classpath=os.pathsep.join(paths[1:]),
        javaopts=[f"-Xmx{MEMORY}", *_SPARKS_OWN, *java_options()],
        java_path=str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java",
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters), process


def main() -> int:
    request = json.load(sys.stdin)
    os.environ[ANSI] = "true"  # as in the driver's session
    gateway, process = start_jvm()
    try:
        result = check_expressions(gateway.jvm, request)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=30)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Py4JError, RuntimeError) as error:
        sys.exit(f"error: {error}")
