"""Programs and helpers beside the driver."""
