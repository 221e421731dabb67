"""Tests of core/failover that need neither broker nor Spark."""
