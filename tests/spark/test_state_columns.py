"""The rows of Spark's state as rows of the changelog: which buffer belongs to which measure. No JVM needed."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, BooleanType, DecimalType, LongType, StructField, StructType

from cutwater.adapters.sketches import DataSketches
from cutwater.core.errors import UsageError
from cutwater.core.measures import FieldType, Measure, build
from cutwater_spark.state import columns
