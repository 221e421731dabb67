"""The commit-signal service: barriers in, milestones out."""
