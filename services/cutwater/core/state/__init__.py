"""From changelog to state: planning, proofs and snapshots of readers."""
