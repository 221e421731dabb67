"""Tests of answers about older milestones."""
