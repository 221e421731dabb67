"""Authentication and encryption on a Spark cluster.

By default Spark authenticates nothing: any client that reaches a port of driver or executor can run programs.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UnavailableError, UsageError

SECRET = "spark.authenticate.secret"  # noqa: S105 (its name)
PROTECTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Version 1 has no key derivation. AES/GCM lost messages in Spark 4.1.1 (SPARK-56227).
    "spark.network.crypto.authEngineVersion": "2",
    # Otherwise a client that fails here falls back to SASL, which encrypts nothing.
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
"""All but the last must be the same on master, workers and shuffle services (docs/SECURITY.md)."""

_NO_MASTER = ("stopped SparkContext", "masters are unresponsive")


def protection(settings: Settings) -> dict[str, str]:
    """Return Spark's settings for a cluster, without the secret. Raise UsageError if it is needed and missing."""
    if settings.needs_spark_secret and not settings.spark_secret.get_secret_value():
        raise UsageError(
            f"CUTWATER_SPARK_SECRET is not set, and {settings.spark_master} makes no secret by itself: any client "
            "that reaches driver or executors could run programs there. Set it to the secret of master and "
            "workers, or leave it to spark-defaults.conf with CUTWATER_SPARK_AUTHENTICATE=false (docs/SECURITY.md)"
        )
    return dict(PROTECTED) if settings.spark_authenticate else {}


def start_session(conf: dict[str, str], settings: Settings) -> SparkSession:
    """Start a session with these Spark settings. Raise UnavailableError if Spark's master refuses the driver."""
    whole = SparkConf(loadDefaults=False).setMaster(settings.spark_master).setAll(list(conf.items()))
    if not settings.needs_spark_secret:
        return SparkSession.builder.config(conf=whole).getOrCreate()
    # Set after the JVM's start: pyspark passes earlier settings as arguments, which any local user can read.
    gateway = launch_gateway(whole)
    try:
        SparkContext(gateway=gateway, conf=whole.set(SECRET, settings.spark_secret.get_secret_value()))
        return SparkSession.builder.getOrCreate()
    except Py4JError as error:
        if any(sign in str(error) for sign in _NO_MASTER):
            raise UnavailableError(
                f"Spark's master {settings.spark_master} does not take the driver. Check that it runs and has the "
                "secret of CUTWATER_SPARK_SECRET and the settings that docs/SECURITY.md lists"
            ) from error
        raise


def warn_if_open(session: SparkSession, log: Any) -> None:
    context = session.sparkContext
    if not context.master.startswith("local") and context.getConf().get("spark.authenticate", "false") != "true":
        log.warning(
            "any client that reaches the driver or an executor can run programs there: spark.authenticate is not "
            "true (docs/SECURITY.md)",
            master=context.master,
        )
