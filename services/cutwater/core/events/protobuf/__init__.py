"""Protobuf events: descriptors, the wire format and the framing of a schema registry."""
