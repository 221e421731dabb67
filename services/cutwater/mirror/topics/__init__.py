"""The copied topics: found, watched, and configured like the origin's."""
