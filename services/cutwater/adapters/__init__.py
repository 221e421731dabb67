"""One external library each: Kafka, Avro, RocksDB, hashing, settings, logs."""
