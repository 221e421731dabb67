"""Verbs about older milestones."""
