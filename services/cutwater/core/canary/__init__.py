"""A canary: which of its milestones can be compared with the promoted generation's, and what its gate says."""
