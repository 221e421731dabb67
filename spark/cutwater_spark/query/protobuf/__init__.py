"""Protobuf events: the framing of a registry, and the JVM's classes that write a message as Avro does."""
