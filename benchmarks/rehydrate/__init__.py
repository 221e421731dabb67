"""B1: a changelog of rows is restored to a store that can be asked, by Cutwater and by Kafka Streams."""
