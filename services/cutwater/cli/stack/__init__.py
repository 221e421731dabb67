"""The verbs of the local stack."""
