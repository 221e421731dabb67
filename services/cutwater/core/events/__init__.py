"""Events as records: formats, JSON, schemas and their evolution, rejection."""
