"""Tests of replays that need neither broker nor Spark."""
