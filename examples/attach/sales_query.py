"""Attach a query that can start again from a milestone: sales by region and ten minutes."""

import os
import signal
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater_spark.attach import Start, attach

HERE = Path(__file__).parent
TOPIC = os.environ.get("ORDERS_TOPIC", "orders")
JOB_FILE = os.environ.get("ORDERS_JOB", str(HERE / "sales.yaml"))
ORDER = "event_id string, customer string, cents bigint, at timestamp"


def sales(start: Start) -> DataFrame:
    """One row per region and window, of the events after the generation's start."""
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    orders = (
        spark.readStream.format("kafka")
        .options(**start.kafka(TOPIC))
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", 1_000)
        .load()
        .select(F.from_json(F.col("value").cast("string"), ORDER).alias("order"))
        .select("order.*")
    )
    customers = spark.read.csv(str(HERE / "customers.csv"), header=True)
    return (
        orders.withWatermark("at", "1 hour")
        .join(customers, "customer")
        .groupBy(F.window("at", "10 minutes"), "region")
        .agg(
            F.count("*").alias("orders"),
            F.sum("cents").alias("cents"),
            F.min("cents").alias("smallest"),
            F.max("cents").alias("largest"),
            F.max("event_id").alias("latest"),
        )
    )


def main() -> None:
    query = attach(sales, JOB_FILE)
    signal.signal(signal.SIGTERM, lambda *_: query.stop())  # ends between two epochs
    query.awaitTermination()


if __name__ == "__main__":
    main()
