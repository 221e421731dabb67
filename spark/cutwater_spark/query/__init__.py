"""From Kafka records to the aggregation's rows: native expressions."""
