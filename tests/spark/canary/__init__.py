"""Tests of replays that need a broker."""
