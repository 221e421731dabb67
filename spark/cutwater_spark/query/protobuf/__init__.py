"""Protobuf events as SQL: the wire format, the values of a message, and the framing of a registry."""
