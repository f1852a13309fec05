"""Soft robots for users: construction, actuation and tracking."""
