"""Small pure helpers: time, rate limits, text, log throttling."""
