"""Questions about older milestones: what differs between two of them, and which ones changed a row."""
