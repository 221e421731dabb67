"""Metrics of the driver's JVM: its MBean server (JMX), called over the gateway."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from cutwater.adapters.http.spark_metrics import JvmFigures

NAME = "javax.management.ObjectName"
QUERY = "javax.management.QueryExp"
_SERVER = "javax.management.MBeanServer"
_COLLECTORS = "java.lang:type=GarbageCollector,name=*"
_COMPILERS = "java.lang:type=Compilation"


def call_mbean_server(spark: SparkSession, method: str, *given: tuple[str, Any]) -> Any:
    """Call a method of the MBean server. `given`: (class name, value) of each argument.

    The method is looked up on the interface: the implementing class is in a closed module.
    """
    java: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    classes = gateway.new_array(java.java.lang.Class, len(given))
    values = gateway.new_array(java.java.lang.Object, len(given))
    for at, (name, value) in enumerate(given):
        classes[at], values[at] = java.java.lang.Class.forName(name), value
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    return java.java.lang.Class.forName(_SERVER).getMethod(method, classes).invoke(server, values)


def mbean_names(spark: SparkSession, pattern: str) -> list[Any]:
    java: Any = spark._jvm
    found = call_mbean_server(
        spark, "queryNames", (NAME, java.javax.management.ObjectName(pattern)), (QUERY, None)
    )
    return list(found.toArray())


def attribute(spark: SparkSession, name: Any, of: str) -> Any:
    return call_mbean_server(spark, "getAttribute", (NAME, name), ("java.lang.String", of))


def figures(spark: SparkSession) -> JvmFigures:
    """Return what the JVM has used since its start, in some ten ms. Raise Py4JError, OSError."""
    java: Any = spark._jvm
    runtime = java.java.lang.Runtime.getRuntime()
    collectors = mbean_names(spark, _COLLECTORS)
    return JvmFigures(
        heap_used_bytes=int(runtime.totalMemory()) - int(runtime.freeMemory()),
        heap_max_bytes=int(runtime.maxMemory()),
        gc_seconds=sum(int(attribute(spark, one, "CollectionTime")) for one in collectors) / 1000,
        gc_count=sum(int(attribute(spark, one, "CollectionCount")) for one in collectors),
        jit_seconds=sum(
            int(attribute(spark, one, "TotalCompilationTime")) for one in mbean_names(spark, _COMPILERS)
        )
        / 1000,
        spilled_bytes=spilled_bytes(spark),
    )


def spilled_bytes(spark: SparkSession) -> int:
    """Return the bytes that tasks in this JVM have spilled to disk; 0 if they run in other processes."""
    java: Any = spark.sparkContext._jsc
    sources = java.sc().env().metricsSystem().getSourcesByName("executor")
    if sources.isEmpty():
        return 0
    return int(sources.apply(0).metricRegistry().getCounters().get("diskBytesSpilled").getCount())
