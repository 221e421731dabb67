"""confluent-kafka: clients, admin, transactions, offsets."""
