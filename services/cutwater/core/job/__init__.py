"""A job: file, measures, windows, shards, decoding."""
