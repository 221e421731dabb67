"""The embedded stack: broker, Spark driver and services as supervised child processes."""
