"""One outside library each: Kafka, Avro, RocksDB, hashing, settings, logs."""
