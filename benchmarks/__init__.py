"""Cutwater beside its peers: the same work, in the same run, on the same machine. See README.md here."""
