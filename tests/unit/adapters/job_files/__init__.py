"""Tests of adapters/job_files that need neither broker nor Spark."""
