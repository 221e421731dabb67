"""B4: topics copied from one broker to another, beside MirrorMaker 2."""
