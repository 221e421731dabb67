"""What a job is: file, measures, windows, shards, decoding."""
