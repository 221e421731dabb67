"""Tests of rehydrator/http_api that need neither broker nor Spark."""
