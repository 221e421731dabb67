"""The Helm chart as tests see it: rendered by Helm, read as YAML, its policies evaluated as plain values."""
