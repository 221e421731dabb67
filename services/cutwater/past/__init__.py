"""Answers about older milestones: the difference of two states, and the history of one row."""
