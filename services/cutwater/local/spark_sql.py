"""`python -m cutwater.local.spark_sql`: Spark's check of a job file's expressions, with the Java that runs here.

Input and output are those of `cutwater_spark.tools.expressions`.
"""

from __future__ import annotations

import os
import sys

from cutwater.core.errors import MachineError
from cutwater.local.spark_runtime import spark_environment

TOOL = "cutwater_spark.tools.expressions"

if __name__ == "__main__":
    try:
        environment = {**os.environ, **spark_environment()}
    except MachineError as error:
        sys.exit(f"error: {error}")
    os.execve(sys.executable, [sys.executable, "-m", TOOL], environment)  # noqa: S606
