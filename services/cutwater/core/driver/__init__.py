"""The driver, which writes the changelog: attempts, epochs, row proofs, lists."""
