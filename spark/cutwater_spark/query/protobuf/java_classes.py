"""Java classes of this package for the JVMs of a Spark application, from their sources.

Spark's own compiler, Janino, makes them when they are first needed, so that there is no jar to build. Executors
get them as a jar of the application.
"""

from __future__ import annotations

import fcntl
import zipfile
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession


def load_class(session: SparkSession, folder: Path, name: str) -> Any:
    """Return the class `name` of the sources in `folder`, loaded where this session's tasks will find it.

    Raise Py4JError if this Spark's compiler cannot make it.
    """
    # A folder of the driver, which Spark deletes at its end.
    jar = Path(SparkFiles.getRootDirectory()) / "compiled" / f"{name}.jar"
    jar.parent.mkdir(exist_ok=True)
    with (jar.parent / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another driver of the application may be at it
        if not jar.exists():
            _write_jar(jar, _compile(session, sorted(folder.glob("*.java"))))
            session.sql(f"ADD JAR '{jar}'").collect()
    shared: Any = session._jsparkSession.sharedState()
    return shared.jarClassLoader().loadClass(name)


def _compile(session: SparkSession, sources: list[Path]) -> dict[str, bytes]:
    java: Any = session._jvm
    resources = java.org.codehaus.commons.compiler.util.resource
    given = session.sparkContext._gateway.new_array(resources.Resource, len(sources))
    for at, one in enumerate(sources):
        given[at] = resources.StringResource(one.name, one.read_text(encoding="utf-8"))
    made = java.java.util.HashMap()
    compiler = java.org.codehaus.janino.Compiler()
    compiler.setClassFileCreator(resources.MapResourceCreator(made))
    compiler.compile(given)
    return {path: bytes(made[path]) for path in made}


def _write_jar(path: Path, classes: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        for name, compiled in sorted(classes.items()):
            jar.writestr(name, compiled)
