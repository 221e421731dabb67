"""The topics that are copied: found, watched, kept alike."""
