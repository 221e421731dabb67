"""Events, schemas and registries for tests."""
