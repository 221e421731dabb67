"""Tests of rehydrator/http_api on a real broker."""
