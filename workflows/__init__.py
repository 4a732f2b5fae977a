"""Saved workflows, data only."""
