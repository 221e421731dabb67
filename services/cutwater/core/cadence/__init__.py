"""The cadence controller: how large and frequent epochs are, and how frequent snapshots, for a job's objectives.

Times and figures are arguments. Equal ones in the same order give equal decisions.
"""
