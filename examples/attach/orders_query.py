"""Attach a query of your own: revenue by region and ten minutes, from a topic with duplicate orders."""

import os
import signal
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater_spark.attach import attach, kafka

HERE = Path(__file__).parent
TOPIC = os.environ.get("ORDERS_TOPIC", "orders")
JOB_FILE = os.environ.get("ORDERS_JOB", str(HERE / "orders.yaml"))
ORDER = "event_id string, customer string, cents bigint, at timestamp"


def revenue(spark: SparkSession) -> DataFrame:
    """One row per region and window."""
    orders = (
        spark.readStream.format("kafka")
        .options(**kafka())
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", 1_000)
        .load()
        .select(F.from_json(F.col("value").cast("string"), ORDER).alias("order"))
        .select("order.*")
    )
    customers = spark.read.csv(str(HERE / "customers.csv"), header=True)
    return (
        orders.withWatermark("at", "1 hour")
        .dropDuplicatesWithinWatermark(["event_id"])
        .join(customers, "customer")
        .groupBy(F.window("at", "10 minutes"), "region")
        .agg(
            F.count("*").alias("orders"),
            F.sum("cents").alias("cents"),
            F.max("cents").alias("largest"),
            F.count_if(F.col("cents") >= 10_000).alias("large"),
        )
    )


def main() -> None:
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    query = attach(revenue(spark), JOB_FILE)
    signal.signal(signal.SIGTERM, lambda *_: query.stop())  # ends between two epochs
    query.awaitTermination()


if __name__ == "__main__":
    main()
